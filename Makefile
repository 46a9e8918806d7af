# Every target works on a fresh machine with Python 3.11, Java 17, git and make: the rest lands in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all lint bench docs clean

demo: $(INSTALLED)  ## The main job, end to end, on the example project
	$(BIN)/python examples/demo.py

test: lint  ## Lint, types, layers, tests
	$(BIN)/pytest -n 2 -m "not slow"

test-all: lint  ## The same, with the long fuzz, crash and load runs
	OMNIGRAPH_FUZZ=large $(BIN)/pytest -n 2

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

bench: $(INSTALLED)  ## Benchmarks; they print ratios measured in one run
	$(BIN)/pip install --quiet --editable ".[bench]"
	for script in bench/*.py; do $(BIN)/python $$script || exit 1; done

docs: $(INSTALLED)  ## The documentation, built strictly into site/
	$(BIN)/mkdocs build --strict

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev,docs]"
	touch $@

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis
