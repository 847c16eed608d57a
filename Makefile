# Everything on a fresh machine: `make demo`, `make test`. `make setup` alone prepares .venv/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test test-long lint types bench docs-tables clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "keyveil needs Python 3.11 or newer: install it, or set PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); } || \
	  { echo "cannot create $(VENV): install the python3-venv package"; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/python examples/demo.py

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy

test: lint types
	@$(BIN)/python -m pytest -n 2 -m "not long"

test-long: lint types
	@KEYVEIL_LONG=1 $(BIN)/python -m pytest -n 2

bench: setup
	@$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis out
