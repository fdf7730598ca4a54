#!/usr/bin/env bash
# Writes a data directory with today's binary, and its damaged siblings: scripts/make-fixtures.sh NAME makes
# fixtures/NAME. When to do this: fixtures/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

name=${1:?the name of a version, for example 0.1.0}
scripts/setup.sh test
RECADO_FIXTURES=$name cargo test -p recado-cli --locked --test cli -- --exact --ignored fixtures::make
du -sh "fixtures/$name"
