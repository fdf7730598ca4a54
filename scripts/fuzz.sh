#!/usr/bin/env bash
# Runs every fuzz target under libFuzzer for FUZZ_SECONDS (300), or one: scripts/fuzz.sh TARGET.
# What it finds stays in fuzz/artifacts; copied to fuzz/corpus/TARGET it is tried by every `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

scripts/setup.sh build
# Whoever has none is told so: rustup would fetch one unasked.
if ! RUSTUP_AUTO_INSTALL=0 cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzzing needs a nightly toolchain: rustup toolchain install nightly" >&2
    echo "without one, RECADO_LONG=1 cargo test -p recado-fuzz tries random changes of the corpus" >&2
    exit 69
fi
cargo +nightly fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
# libFuzzer itself is C++.
if ! command -v c++ >/dev/null 2>&1; then
    echo "fuzzing needs a C++ compiler: apt-get install g++" >&2
    exit 69
fi

# The threads of a server have memory of their own while leaks are looked for: they would be taken for some.
export ASAN_OPTIONS=detect_leaks=0

for target in ${1:-$(cargo +nightly fuzz list)}; do
    printf '\n== %s\n' "$target"
    # New inputs go to a directory of their own, so that the corpus that is kept stays small.
    mkdir -p "fuzz/found/$target"
    cargo +nightly fuzz run "$target" "fuzz/found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="${FUZZ_SECONDS:-300}" -timeout=90 -rss_limit_mb=4096
done
