#!/usr/bin/env bash
# What pip does, in few lines: reads its output, and shows how far it is. A terminal gets one line
# that changes, a log a line every 15 s. Warnings and errors are on pip's stderr, as they are.
# Usage: pip install ... | stack/pip_progress.sh PACKAGES VENV [SECONDS]
set -euo pipefail
packages=$1 venv=$2 every=${3:-15}
[ ! -t 1 ] || every=1
seen=0 doing="resolving" told=$SECONDS shown=

tell() {
    told=$SECONDS
    local line="  $doing"
    case $doing in
        downloading*) line="  $doing: $seen of $packages packages" ;;
        unpacking*) line="  $doing: $(du -sm "$venv/" 2>/dev/null | cut -f1) MB are in $venv" ;;
    esac
    if [ -t 1 ]; then printf '\r\033[K%s' "$line"; else echo "$line"; fi
    shown=yes
}

while :; do
    if IFS= read -r -t 1 line; then
        case $line in
            "Collecting "* | "Requirement already satisfied: "*) seen=$((seen + 1)) doing="downloading" ;;
            "Installing collected packages: "*) doing="unpacking" told=$((SECONDS - every)) ;;
            "Building "* | *"Preparing metadata"*) ;;
        esac
    elif [ $? -le 128 ]; then  # above it: nothing came for a second
        break
    fi
    [ $((SECONDS - told)) -lt "$every" ] || tell
done
[ -z "$shown" ] || [ ! -t 1 ] || echo
