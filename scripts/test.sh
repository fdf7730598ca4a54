#!/usr/bin/env bash
# All checks, in the order in which they are cheap. RECADO_LONG=1 adds the long suites.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

step() { printf '\n== %s\n' "$1"; }

# Tests that hang are ended and seen: built first, so that the limit is for the tests alone.
tests() {
    local limit=20m
    [ -z "${RECADO_LONG:-}" ] || limit=2h
    cargo test --no-run --locked "$@"
    timeout --verbose "$limit" cargo test --locked "$@"
}

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
tests --workspace --exclude recado-sim --exclude recado-mutants --all-features --no-fail-fast

step "the simulation, and the mistakes that it must find"
tests -p recado-sim --features mutants

step "clients of SQS"
timeout --verbose 20m scripts/sqs-clients.sh
