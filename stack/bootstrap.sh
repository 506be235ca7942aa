#!/usr/bin/env bash
# The environment of `make`: Python packages as pinned, jars as pinned, a Java that serves, and the
# Prometheus and the S3 server that tests ask.
# Usage: stack/bootstrap.sh VENV. Safe to repeat; what is there is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

fail() {
    echo "error: $1" >&2
    exit 1
}

serves() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate candidates=${PYTHON:-python3.13 python3.12 python3.11 python3}
    for candidate in $candidates; do
        # Asked, not only looked for: a shim on PATH may stand for a Python that is not there.
        if serves "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer was found (tried $candidates): install one, or make PYTHON=..."
}

make_venv() {
    local python
    python=$(find_python)
    echo "making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" ||
        fail "$python cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt-get install python3-venv)"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_java() {
    as_root true 2>/dev/null || return 1
    command -v apt-get >/dev/null || return 1
    echo "no Java 17 or 21 yet: installing it with apt-get"
    as_root apt-get update -qq || return 1
    local version
    for version in 17 21; do  # a release of Debian or Ubuntu has one or both
        if as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-upgrade \
            "openjdk-$version-jre-headless" >/dev/null; then
            return
        fi
    done
    return 1
}

serves "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
packages=$(grep -c '^[a-zA-Z0-9].*==' requirements.lock)
echo "installing $packages pinned packages into $venv: more than 2 GB, some minutes the first time"
"$venv/bin/python" -m pip install --progress-bar off --disable-pip-version-check --require-hashes -r requirements.lock |
    stack/pip_progress.sh "$packages" "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
if ! "$venv/bin/python" -m jobs.spark.java >/dev/null 2>&1; then
    install_java || true
    "$venv/bin/python" -m jobs.spark.java >/dev/null
fi
"$venv/bin/python" -m jobs.spark.jars kafka opensearch compiler spark
"$venv/bin/python" -m jobs.spark.class_archive
