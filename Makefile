# make demo | check | test | exhaustive | chaos | soak | bench | lint | docs | alarms | clean: each
# sets up what it needs.
# Needs Python >= 3.11 and Java 17 or 21; PYTHON=... chooses another Python.

VENV := .venv
BIN := $(VENV)/bin
SEEDS := 200
FIRST := 1
CHAOS :=
MINUTES := 30
SOAK :=
READY := $(VENV)/.ready
# Four lanes of whole files, each with servers of its own: on two cores, for a lane waits for
# processes and servers about half of its time. What took longest goes first (tests/durations.json).
LANES := --numprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: help demo check test exhaustive chaos soak bench lint docs alarms clean
.DEFAULT_GOAL := help

help:
	@echo "make demo        a story on real data, from snapshot to verify, on servers it starts"
	@echo "make check       lint, types and the tests that need no JVM and no server, in minutes"
	@echo "make test        lint, types and the suite, on real servers"
	@echo "make exhaustive  also the tests of every combination of what the suite tests one by one"
	@echo "make chaos       kill, cut and stall all from source to stores, under load: SEEDS=200 runs"
	@echo "make soak        a fault each minute under a steady load, and what grows: MINUTES=30"
	@echo "make bench       measure into benchmarks/results.json"
	@echo "make lint        ruff and mypy only"
	@echo "make docs        write docs/commands.md and the documentation site, into .headwater/site"
	@echo "make alarms      write rules, inhibitions and docs/alarms.md from the catalog of alarms"
	@echo "make clean       stop the servers, delete the environment and what the above wrote"

$(READY): requirements.lock pyproject.toml jobs/spark/jars.lock stack/bootstrap.sh stack/pip_progress.sh
	@stack/bootstrap.sh $(VENV)
	@touch $@

demo: $(READY)
	$(BIN)/headwater demo

bench: $(READY)
	$(BIN)/headwater bench

chaos: $(READY)
	$(BIN)/python -m tests.chaos --seeds $(SEEDS) --first $(FIRST) $(CHAOS)

soak: $(READY)
	@stack/test_tools.sh $(VENV)
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(SOAK)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

alarms: $(READY)
	$(BIN)/python -m cdc.alarms.files

# Search needs a server, which may be Python's own.
docs: $(READY)
	$(BIN)/python -m headwater.cli.common.command_reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory .headwater/site 8000"

# For the inner loop. What is pure: tests/support/pure.py.
check: lint
	@stack/test_tools.sh $(VENV)
	$(BIN)/pytest --pure --numprocesses 2 --quiet tests/unit tests/simulation

test: lint
	@stack/test_tools.sh $(VENV) suite
	$(BIN)/pytest $(LANES)

# What is exhaustive: CONTRIBUTING.md.
exhaustive: lint
	@stack/test_tools.sh $(VENV) suite
	$(BIN)/pytest --exhaustive $(LANES)

clean:
	@if [ -d .headwater ]; then \
		python=$(BIN)/python; [ -x $$python ] || python=$${PYTHON:-python3}; \
		$$python -m stack.leftovers .headwater; \
	fi
	rm -rf $(VENV) .headwater .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info \
		spark-warehouse metastore_db derby.log
