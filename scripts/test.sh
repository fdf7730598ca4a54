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

step "no mutants in the binary"
scripts/check-mutants.sh

step "lints"
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

step "tests"
cargo test --workspace --exclude recado-sim --exclude recado-mutants --all-features --locked --no-fail-fast

step "the simulation, and the mistakes that it must find"
cargo test -p recado-sim --features mutants --locked
