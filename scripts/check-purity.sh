#!/usr/bin/env bash
# The core is a function: no I/O, no clock, no threads, no randomness. It is `no_std`, and it depends only on
# crates that could not do any of these either.
set -euo pipefail
cd "$(dirname "$0")/.."

# Data structures, encoding, hashing and error types; recado-mutants is a constant `false` unless the simulation is
# tested by it. A new name here is a design decision.
allowed="allocator-api2 equivalent foldhash hashbrown minicbor recado-core recado-mutants siphasher thiserror"

failed=0
lib=crates/recado-core/src/lib.rs
if ! grep -Eq '^#!\[(no_std|cfg_attr\(not\(test\), *no_std\))\]' "$lib"; then
    echo "$lib: #![no_std] is missing: the core must not reach the system" >&2
    failed=1
fi

# What the core would be built with alone: other crates of the workspace may ask for more of the same crates.
tree=$(cargo tree --locked -p recado-core -e normal,no-proc-macro --prefix none --no-dedupe -f '{p}|{f}')
while IFS='|' read -r package features; do
    name=${package%% *}
    case " $allowed " in
    *" $name "*) ;;
    *)
        echo "recado-core depends on $name, which is not allowed: see scripts/check-purity.sh" >&2
        failed=1
        ;;
    esac
    case ",$features," in
    *,std,*)
        echo "recado-core uses $name with its std feature: switch it off (default-features = false)" >&2
        failed=1
        ;;
    esac
done <<<"$tree"

# Tests may use the standard library; the code may not take it in by the back door.
if grep -rnE '^\s*extern crate std' crates/recado-core/src | grep -v 'cfg(test)' | while IFS=: read -r file line _; do
    sed -n "$((line - 1))p" "$file" | grep -q 'cfg(test)' || echo "$file:$line"
done | grep .; then
    echo "recado-core takes in std outside of tests" >&2
    failed=1
fi

[ "$failed" = 0 ] && echo "recado-core: no_std, and nothing but $(wc -l <<<"$tree") allowed crates"
exit "$failed"
