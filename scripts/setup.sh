#!/bin/sh
# Sets up .venv with exactly what a lock names: `sh scripts/setup.sh core|dev`. `conformance` makes .venv-conformance, without Sereno.
#
# Uses uv where it is there, else venv and pip. A stamp holds the digest of the lock, so a second call does nothing.
# Needs a Python from 3.11 on; on Debian and Ubuntu without the venv module it installs that as root, or prints the one command.
set -eu
cd "$(dirname "$0")/.."
want=${1:-core}
venv=.venv
proof=sereno # the last thing that a setup makes
if [ "$want" = conformance ]; then
    venv=.venv-conformance
    proof=python
fi
lock=requirements/$want.txt
[ -f "$lock" ] || { echo "setup: there is no lock $lock" >&2; exit 2; }

say() { echo "setup: $*" >&2; }
digest() { sed '/^\[tool/,$d' pyproject.toml | cat "$lock" scripts/setup.sh - | cksum | tr -d ' '; }
ready() { [ -x "$venv/bin/$proof" ] && [ "$(cat "$venv/.ready-$1" 2>/dev/null || true)" = "$2" ]; }
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python; do
        if command -v "$name" >/dev/null 2>&1 && fits "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

# Called where Python comes without ensurepip (Debian's python3 without python3-venv).
provide_venv() {
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        say "this Python has no venv module; installing $package"
        apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
    else
        say "this Python has no venv module. Run this once, then the same command again:"
        say "    sudo apt-get install -y $package"
        exit 2
    fi
}

make_venv() {
    if [ -x "$venv/bin/python" ] && fits "$venv/bin/python"; then return 0; fi
    rm -rf "$venv"
    python=$(find_python) || {
        say "Sereno needs Python 3.11, 3.12, 3.13 or 3.14, and none was found on PATH."
        say "Install one (Debian 12 and Ubuntu 24.04: apt-get install -y python3 python3-venv) or name one: make PYTHON=/path/to/python3 …"
        exit 2
    }
    say "making $venv with $python"
    if [ -n "$uv" ] && "$uv" venv --quiet --python "$python" "$venv" >&2; then return 0; fi
    "$python" -c 'import venv, ensurepip' 2>/dev/null || provide_venv
    "$python" -m venv "$venv"
}

with_pip() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --require-hashes -r "$1" >&2
}

# $1: a lock. Every file is checked against its hash; a uv that cannot reach the index (it reads other settings than pip) falls back to pip.
install_lock() {
    if [ -n "$uv" ]; then
        if "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --require-hashes -r "$1" >&2; then return 0; fi
        say "uv could not install; trying pip"
    fi
    with_pip "$1"
}

# An editable install from the checkout, with the build backend of the lock and nothing fetched.
link_project() {
    if [ -n "$uv" ]; then
        if "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --offline -e . >&2; then return 0; fi
    fi
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation --no-index -e . >&2
}

stamp=$(digest)
if ready "$want" "$stamp"; then exit 0; fi
if [ "$want" = core ] && [ -f requirements/dev.txt ]; then
    lock=requirements/dev.txt
    if ready dev "$(digest)"; then exit 0; fi
    lock=requirements/core.txt
fi
uv=$(command -v uv || true)
# Trust what this machine trusts, as pip and curl do (a company certificate, for one).
export UV_NATIVE_TLS="${UV_NATIVE_TLS:-1}" UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
make_venv
say "installing what $lock names (once; about a minute)"
install_lock "$lock"
case $want in
    conformance) ;;
    dev) link_project ;;
    *) install_lock requirements/build.txt && link_project ;;
esac
echo "$stamp" >"$venv/.ready-$want"
