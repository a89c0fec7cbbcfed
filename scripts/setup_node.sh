#!/bin/sh
# Installs the servers of others that need node (tests/peers/node) into .venv-conformance/node, each file checked against its hash.
# A stamp holds the digest of the lock, so a second call does nothing. Without npm it installs Debian's as root, or prints the one command.
set -eu
cd "$(dirname "$0")/.."
folder=.venv-conformance/node
stamp=$(cat tests/peers/node/package-lock.json scripts/setup_node.sh | cksum | tr -d ' ')
if [ "$(cat "$folder/.ready" 2>/dev/null || true)" = "$stamp" ]; then exit 0; fi
if ! command -v npm >/dev/null 2>&1; then
    if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
        echo "setup: this needs node and npm. Run this once, then the same command again:" >&2
        echo "setup:     sudo apt-get install -y nodejs npm" >&2
        exit 2
    fi
    echo "setup: installing nodejs and npm" >&2
    apt-get update -qq >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm >/dev/null
fi
rm -rf "$folder"
mkdir -p "$folder"
cp tests/peers/node/package.json tests/peers/node/package-lock.json "$folder/"
npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --silent >&2
echo "$stamp" >"$folder/.ready"
