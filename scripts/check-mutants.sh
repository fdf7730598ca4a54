#!/usr/bin/env bash
# The mistakes that test the simulation are never in a binary that anyone runs.
set -euo pipefail
cd "$(dirname "$0")/.."

tree=$(cargo tree --locked -p recado-cli -e normal,features --prefix none -i recado-mutants)
if grep -q 'feature "mutants"' <<<"$tree"; then
    echo "the binary is built with the feature mutants of recado-mutants: only recado-sim may ask for it" >&2
    exit 1
fi
echo "recado: built without the mistakes of recado-mutants"
