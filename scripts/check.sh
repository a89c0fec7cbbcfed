#!/bin/sh
# Runs every check that needs no test: all of them, also after one has failed; the last line says which failed.
set -u
cd "$(dirname "$0")/.."
bin=.venv/bin
failed=

step() {
    name=$1
    shift
    echo "== $name"
    "$@" || failed="$failed $name"
}

step format "$bin/ruff" format --check --quiet --output-format concise .
step lint "$bin/ruff" check --quiet --output-format concise .
step types "$bin/mypy"
step imports "$bin/lint-imports" --no-cache
step locks "$bin/python" -m scripts.locks check
step house "$bin/python" -m scripts.house
step docs "$bin/python" -m scripts.docs check
step mutants "$bin/python" -m sereno.testing.simulation.mutants check

if [ -n "$failed" ]; then
    echo "check: failed:$failed"
    exit 1
fi
echo "check: all passed"
