#!/usr/bin/env bash
# Clients of Amazon SQS as their users have them, against the real binary: boto3, the AWS CLI, Celery, the SDKs for
# Node and Rust, sqs-consumer. Installs them (Node's beside their test); what is there already is used again.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
home=$target/sqs-clients
export RECADO_BIN=$target/debug/recado
python=$home/python/bin

# fresh FILE NAME : whether what NAME stands for was installed from FILE as it is now.
fresh() { cmp -s "$1" "$home/$2.installed"; }
installed() { cp "$1" "$home/$2.installed"; }

mkdir -p "$home"
cargo build --locked -p recado-cli

needs=tests/sqs/python/requirements.txt
if ! fresh $needs python; then
    rm -rf "$home/python"
    python3 -m venv "$home/python"
    "$python/pip" install --quiet --disable-pip-version-check -r $needs
    installed $needs python
fi
# Node comes with the Python packages, so that its version is the same everywhere.
export PATH="$python:$PATH"
needs=tests/sqs/node/package-lock.json
if ! fresh $needs node || ! [ -d tests/sqs/node/node_modules ]; then
    (cd tests/sqs/node && npm ci --silent --no-audit --no-fund)
    installed $needs node
fi

"$python/python" -m pytest -q -p no:cacheprovider -o tmp_path_retention_policy=failed tests/sqs/python
(cd tests/sqs/node && npm test --silent)
(cd tests/sqs/rust && CARGO_TARGET_DIR=$home/rust cargo test --locked --quiet)
