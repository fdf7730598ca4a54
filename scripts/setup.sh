#!/usr/bin/env bash
# Installs what the build (argument `build`) or the checks (argument `test`) need and the machine lacks.
# On a machine that has it all this takes a moment and changes nothing.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif have sudo; then sudo -n "$@"; else return 1; fi
}

# apt PACKAGE... : installs them, or says what to install by hand.
apt() {
    if have apt-get && as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; then
        return 0
    fi
    echo "please install: $*" >&2
    exit 69
}

if ! have cargo; then
    echo "cargo is missing: install Rust from https://rustup.rs or with your system's packages" >&2
    exit 69
fi

# rustc links with the system's C compiler.
have cc || apt gcc libc6-dev

if [ "${1:-build}" = test ]; then
    for tool in fmt clippy; do
        if cargo "$tool" --version >/dev/null 2>&1; then continue; fi
        case $tool in fmt) component=rustfmt package=rustfmt ;; *) component=clippy package=rust-clippy ;; esac
        if have rustup; then rustup component add "$component"; else apt "$package"; fi
    done
    # The stores of steps that are done once are tested against the real ones, each started by its test.
    have pg_ctl || compgen -G "/usr/lib/postgresql/*/bin/pg_ctl" >/dev/null || apt postgresql
    have redis-server || apt redis-server
    # Clients of SQS are installed into an environment of Python's.
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || apt python3-venv
    # Tests of the binary step its wall clock and fail its system calls.
    missing=()
    compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || missing+=(libfaketime)
    have strace || missing+=(strace)
    if [ ${#missing[@]} -gt 0 ]; then apt "${missing[@]}"; fi
fi
