# Everything on a fresh machine: `make demo`, `make test`. `make setup` alone prepares .venv/ for both.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO_STAMP := $(VENV)/.ready-demo
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup lock services shells browser node java demo docs test test-long lint types loops checks bench bench-quick release-check clean

setup: $(STAMP)

# The whole environment contains that of the demo, so that `make demo` after it installs nothing.
$(STAMP): pyproject.toml requirements.txt requirements-demo.txt | $(BIN)/python
	@echo "installing everything into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@ $(DEMO_STAMP)
	@echo "ready: the command is $(BIN)/keyveil"

# What the demo needs: the command and the collector.
$(DEMO_STAMP): pyproject.toml requirements-demo.txt | $(BIN)/python
	@echo "installing the command and the collector into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements-demo.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "keyveil needs Python 3.11 or newer: install it, or set PYTHON=python3.12"; exit 1; }
	@echo "creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || \
	  { apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); } || \
	  { echo "cannot create $(VENV): install the python3-venv package"; exit 1; }

# Everything that is installed, each with its hashes. Run this after a change of dependencies.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-annotate --no-header
lock: $(BIN)/python
	@$(PIP) 'uv>=0.13,<1'
	@$(COMPILE) --extra dev pyproject.toml -o requirements.txt
	@$(COMPILE) --extra cli --extra collector --group build -c requirements.txt pyproject.toml \
	  -o requirements-demo.txt

demo: $(DEMO_STAMP)
	@$(BIN)/python examples/demo.py

# The documentation as a site in out/site; a warning is an error. To read it: python -m http.server -d out/site
docs: setup
	@$(BIN)/zensical build --clean --strict

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy
	@$(BIN)/mypy tests/typing/front_door.py

# README's lines for completion run in each shell that they are for.
shells:
	@command -v zsh >/dev/null && command -v fish >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq zsh fish >/dev/null; } || \
	  { echo "the tests need the shells zsh and fish: install the packages zsh and fish"; exit 1; }

# The collector's tests start a PostgreSQL, a PgBouncer and an nginx of their own: private folders, sockets
# and ports, stopped after.
services:
	@command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer || \
	  { apt-get update -qq && apt-get install -y -qq pgbouncer >/dev/null; } || \
	  { echo "the tests need PgBouncer: install the pgbouncer package"; exit 1; }
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq postgresql >/dev/null; } || \
	  { echo "the tests need PostgreSQL: install the postgresql package"; exit 1; }
	@{ test -x /usr/sbin/nginx || command -v nginx >/dev/null; } && command -v systemd-analyze >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq nginx-light systemd >/dev/null; } || \
	  { echo "the tests need nginx and systemd-analyze: install the packages nginx-light and systemd"; exit 1; }

# The tests of web pages run in a real browser.
browser:
	@command -v chromium >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
	  { echo "the tests need Chromium: install the chromium package"; exit 1; }

# The tests of Spark start a cluster of their own on loopback: a master and two workers.
java:
	@command -v java >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } || \
	  { echo "the tests need Java 17 or newer: install the openjdk-17-jre-headless package"; exit 1; }

# Tools that check the client for web pages; the client itself needs none.
node:
	@command -v npm >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq nodejs npm >/dev/null; } || \
	  { echo "the tests need Node 20 or newer: install the nodejs and npm packages"; exit 1; }
	@test clients/js/node_modules/.package-lock.json -nt clients/js/package-lock.json || \
	  npm ci --prefix clients/js --silent --no-audit --no-fund

# Bytecode is kept even where the environment forbids it: the tests start some hundred processes.
KEEP := PYTHONDONTWRITEBYTECODE=

# Two workers would compile the same loops at the same time.
loops: setup
	@$(KEEP) $(BIN)/python tests/compile_loops.py

# mypy takes one core for a while; loops are compiled on the other one.
checks: setup
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint types loops

test: services shells browser node java checks
	@$(KEEP) KEYVEIL_POSTGRES=required $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "not long"

test-long: services shells browser node java checks
	@$(KEEP) KEYVEIL_POSTGRES=required KEYVEIL_LONG=1 $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

# Everything that a release needs: versions agree, both archives build, install and work, the docs build.
release-check: setup
	@$(BIN)/python deploy/release_check.py
	@$(MAKE) --no-print-directory docs

bench: setup
	@$(BIN)/python -m bench

# The ratios of speed in less than a minute, to see a regression before it is committed.
bench-quick: setup
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench rates speed start --quick

clean:
	rm -rf $(VENV) clients/js/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis out
