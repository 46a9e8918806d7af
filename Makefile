# Every target works on a fresh machine with Python 3.11, Java 17, git and make: the rest lands in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Tests start hundreds of interpreters: each of them finds the modules compiled, whatever the caller's environment says.
unexport PYTHONDONTWRITEBYTECODE

# Six workers on two cores: many tests wait for a process, a lock or a server. Tests of Spark share one of them.
PYTEST := $(BIN)/pytest -n 6

.PHONY: demo test test-all test-fast lint bench docs reference openapi ui test-ui screenshots clean

demo: $(INSTALLED)  ## The main job, end to end, on the example project
	$(BIN)/python examples/demo.py

test: $(INSTALLED)  ## One representative of every behaviour; lint, types and layers run beside the tests
	@nice -n 3 $(MAKE) --no-print-directory lint > .lint.log 2>&1 & lint=$$!; \
	$(PYTEST) -m "not slow"; tests=$$?; \
	wait $$lint; lint=$$?; cat .lint.log; exit $$((tests + lint))

test-fast: $(INSTALLED)  ## For every save: no Spark, no killed processes, no servers, one member of each family
	$(BIN)/pytest -n 2 -m "not slow and not costly" --durations=5

test-all: lint  ## Every kill, every pair, every long life
	OMNIGRAPH_FUZZ=large $(PYTEST)
	tests/pyspark_versions.sh

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

reference: $(INSTALLED)  ## Write the generated references, notebooks and pictures of the documentation anew
	$(BIN)/python docs/make_reference.py

openapi: $(INSTALLED)  ## Write the description of the server's routes anew, and the types of the page that follow it
	$(BIN)/python -m tests.server.described_routes
	$(BIN)/python -m tests.page.wire_types

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev,docs]"
	touch $@

ui: ui/node_modules  ## Build the web page into the package; needs node, which users of the wheel do not
	cd ui && npx tsc --noEmit && node build.mjs

test-ui: ui/node_modules $(INSTALLED)  ## The page in a real browser, and that its bundle can be built again to the byte
	cd ui && node build.mjs "$$(pwd)/node_modules/.rebuilt" > /dev/null && diff -r node_modules/.rebuilt ../src/omnigraph/server/static
	$(BIN)/pytest tests/page

screenshots: $(INSTALLED)  ## Pictures of the main views, light and dark, for the documentation; look at them before you commit them
	$(BIN)/python -m tests.page.screenshots

ui/node_modules: ui/package-lock.json
	cd ui && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

clean:
	rm -rf $(VENV) site ui/node_modules .pytest_cache .ruff_cache .hypothesis
