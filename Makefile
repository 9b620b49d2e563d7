# Everything a person or CI runs. `make` alone lists the targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Most tests wait more than they compute. With eight processes, tests with bounds on time fail beside others.
PARALLEL := -n 7 --dist loadfile --no-loadscope-reorder
SUITE := $(BIN)/python -m tests.support.suite
PACKAGES := accounts gateway_project keys licensing providers rules telemetry manage.py gunicorn.conf.py
CHECKED := not end_to_end and not slow and not long and not servers and not exhaustive and not browser and (not attack or hypothesis) and not fault
QUERY_COUNTS := tests/gateway_project/console/test_query_counts.py
# The tests start gateways and commands by the hundred: each would compile this project anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run check test test-embedded test-servers test-slow attacks faults fuzz lint lint-types lint-rest format bench replay query-counts routing-table guardrail-measure screenshots sbom lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(VENV)/.installed: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make run PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing what the gateway needs (once)..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "Installing what the tests need (once)..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

run: $(VENV)/.installed  ## set everything up and serve on http://127.0.0.1:8000
	@$(BIN)/python manage.py quickstart --before-serving
	@exec $(BIN)/python manage.py serve

# Each process collects all tests, and these folders hardly have one that needs no server.
check: PARALLEL := -n auto --maxprocesses 2 --dist loadfile --no-loadscope-reorder $(addprefix --ignore=tests/,attacks clients end_to_end fault)
check: $(VENV)/.installed-dev  ## for daily work: style, and a few cases of each test that is quick and needs no running server
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config pyproject.toml
	QUICK=1 HYPOTHESIS_EXAMPLES=10 $(BIN)/python -m pytest $(PARALLEL) -m "$(CHECKED)"

test: EMBEDDED = and not either_store
test: test-embedded test-servers  ## the whole suite: on SQLite alone, then with PostgreSQL and Redis

test-embedded: $(VENV)/.installed-dev  ## the suite on SQLite and the in-process cache
	$(SUITE) pytest $(PARALLEL) -m "not slow and not servers and not exhaustive $(EMBEDDED)"

test-servers: $(VENV)/.installed-dev  ## the suite with PostgreSQL and Redis (of this machine, or brought along)
	$(SUITE) tests.support.servers $(PARALLEL) -m "not slow and not browser and not embedded and not few_at_once" --ignore=tests/console --ignore=tests/fault
	$(SUITE) tests.support.servers -n 4 --dist loadfile -m "not slow and few_at_once" tests/fault

test-slow: $(VENV)/.installed-dev  ## the slow tests, and all cases of tests of which `make test` runs a part
	THOROUGH=1 $(BIN)/python -m pytest -m "(slow or thorough) and embedded" && alone=0 || alone=$$?; \
	THOROUGH=1 $(BIN)/python -m tests.support.servers -m "(slow or thorough) and not embedded" && exit $$alone

attacks: $(VENV)/.installed-dev  ## try to stop the gateway, evade its limits and enter; print promise, target, figure; ATTACKS="--update" stores it
	$(BIN)/python -m tests.support.promises attack $(ATTACKS)

faults: export SOAK ?= 1800
faults: $(VENV)/.installed-dev  ## break what the gateway depends on; print promise, target, figure; FAULTS="--update" stores it, SOAK= leaves out 30 minutes
	$(BIN)/python -m tests.support.promises fault $(FAULTS)

fuzz: export FUZZ_RUNS ?= 20
fuzz: $(VENV)/.installed-dev  ## send the API random requests from each of 20 seeds (FUZZ_RUNS); print promise, target, figure
	@rm -f var/fuzz.json
	$(BIN)/python -m tests.support.servers -n 2 --promises=var/fuzz.json $(FUZZ) tests/test_fuzzing.py

lint: $(VENV)/.installed-dev  ## style, import layers, insecure code, known vulnerabilities, types, migrations
	@$(MAKE) --no-print-directory -j 2 lint-types lint-rest

lint-types:
	$(BIN)/mypy

lint-rest:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config pyproject.toml
	$(BIN)/bandit --quiet --configfile pyproject.toml -ll -ii -r $(PACKAGES)
	$(BIN)/python -m tests.support.audit
	$(BIN)/python manage.py makemigrations --check --dry-run --skip-checks
	$(BIN)/python manage.py check --fail-level WARNING

format: $(VENV)/.installed-dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev  ## measure the gateway, and for comparison an empty and a bare view
	$(BIN)/python -m bench $(BENCH)

replay: $(VENV)/.installed-dev  ## show what a change does to recorded requests and answers; REPLAY="--update" stores it
	$(BIN)/python -m tests.support.replay $(REPLAY)

query-counts: $(VENV)/.installed-dev  ## write how many SQL queries each page of the console and of /me/ sends, on both databases
	UPDATE_QUERY_COUNTS=1 $(BIN)/python -m pytest $(QUERY_COUNTS)
	UPDATE_QUERY_COUNTS=1 $(BIN)/python -m tests.support.servers $(QUERY_COUNTS)

routing-table: $(VENV)/.installed-dev  ## simulate an hour of each routing strategy; TABLE="--update" writes docs/routing.md
	$(BIN)/python -m tests.support.routing_simulation $(TABLE)

guardrail-measure: $(VENV)/.installed-dev  ## precision and recall of the type injection on SET=path; MEASURE="--all positive" for texts without labels
	$(BIN)/python -m tests.support.guardrail_sets $(SET) $(MEASURE)

screenshots: $(VENV)/.installed-dev  ## take the pictures of docs/console.md again
	$(BIN)/python -m tests.support.console.screenshots

sbom: $(VENV)/.installed-dev  ## write sbom.json, the list of the gateway's components (CycloneDX)
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible --output-format JSON --output-file sbom.json requirements.lock

lock: $(VENV)/.installed-dev  ## write the lock files again
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-strip-extras --generate-hashes --no-emit-index-url --no-emit-find-links -o requirements.lock requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-strip-extras --generate-hashes --no-emit-index-url --no-emit-find-links -o requirements-dev.lock requirements-dev.txt

clean:  ## remove the virtual environment and generated files
	rm -rf $(VENV) var .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
