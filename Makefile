# `make` alone lists the targets. Every target sets up what it needs; nothing else has to be run first.
PY := .venv/bin/python
WORKERS ?= 2
SEEDS ?= 1000
CHUNKS ?= 1
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: kill sim-long crashes mutants servers conformance setup-conformance fleet hostile help run test test-all test-full check bench sim docs nightly lock clean setup setup-core

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | grep -v '## -' | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-11s %s\n", $$1, $$2}'

run: setup-core ## set up, then show Sereno at work for a minute (sereno demo)
	@.venv/bin/sereno demo

test: setup ## set up, then run the tests (quick tier, under 10 minutes)
	@$(PYTEST) -m "not full and not nightly"

test-all: test test-full ## run the tests, then the slow ones (kills, wheels, many seeds)

test-full: setup setup-conformance ## - the slow tier alone
	@$(PYTEST) -m "full and not nightly"

check: setup ## format, lint, types, imports, locks, sizes, links
	@sh scripts/check.sh

bench: setup ## measure against bare loops; the last line is JSON
	@$(PY) -m benchmarks.run

conformance: setup setup-conformance ## run other waiters and Sereno against a hostile provider; the last line is JSON
	@$(PY) -m conformance.run

fleet: setup ## 10,000 operations at one provider on virtual time, 300 on real time; the last line is JSON
	@$(PY) -m sereno.testing.fleet

hostile: setup ## 1,000 operations at a hostile provider on virtual time; the last line is JSON
	@$(PY) -m sereno.testing.hostile

servers: setup setup-conformance ## meet real servers of others, heavy ones too; the last line is JSON
	@$(PY) -m scripts.servers run

sim: setup ## 1,000 fresh simulated worlds and all that failed once; make sim SEED=7: that one; the last line is JSON
	@$(PY) -m sereno.testing.simulation $(if $(SEED),one $(SEED),many --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)))

sim-long: setup ## go on with the 20,000 worlds of a release, 9 minutes a chunk (CHUNKS=n); the last line is JSON
	@$(PY) -m sereno.testing.simulation long --chunks $(CHUNKS) --report docs/reference/simulation-long.jsonl --page docs/reference/simulation-long.md

crashes: setup ## a process dies at every crash point of 40 scenarios (PART=3/10, PART=rotating: a tenth); the last line is JSON
	@$(PY) -m sereno.testing.simulation.crashing $(if $(PART),--part $(PART))

kill: setup ## kill real workers and compare the books; the last line is JSON
	@$(PY) -m sereno.testing.killing

mutants: setup ## hunt the planted bugs in the simulated world (QUICK=1: a sample); the last line is JSON
	@$(PY) -m sereno.testing.simulation.mutants $(if $(QUICK),--quick)

docs: setup ## write the generated pages of docs/reference
	@$(PY) -m scripts.docs write

nightly: setup ## everything, the very long tests too
	@$(PYTEST) --timeout 0

lock: setup ## resolve the locks again from pyproject.toml (make lock UPGRADE=1 takes newer releases)
	@$(PY) -m scripts.locks write $(if $(UPGRADE),--upgrade)

clean: ## remove the environment and all caches
	@rm -rf .venv .venv-conformance dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup-conformance: ## - the environment for the waiters of others
	@sh scripts/setup.sh conformance

setup: ## - the environment for tests and checks
	@sh scripts/setup.sh dev

setup-core: ## - the environment for running
	@sh scripts/setup.sh core
