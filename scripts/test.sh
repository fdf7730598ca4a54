#!/usr/bin/env bash
# All checks, in the order in which they are cheap. RECADO_LONG=1 adds the long suites.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

step() { printf '\n== %s\n' "$1"; }

scripts/setup.sh test

step "formatting"
cargo fmt --all --check

step "purity of the core"
scripts/check-purity.sh

step "lints"
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

step "tests"
cargo test --workspace --all-features --locked --no-fail-fast
