# Two commands matter: `make demo` and `make test`. Each does its own set-up; all it needs is Python 3.11 or newer.
#
#   make demo         the whole stack on this machine, at work, in two minutes
#   make test         every test, unit and integration, against a local broker and a local Valkey; six minutes
#   make test-long    what takes longer: the two below
#   make test-fuzz    properties, fuzzing and long runs with four times the work; LONG=2: much more, other examples each time
#   make test-kafka   the recovery tests against three brokers of Apache Kafka (needs Java 17 and Maven)
#   make docs         the documentation, as a site in build/site
#   make packages     the wheels and the agent's .deb, each checked in an empty environment
#   make lint         formatting, lint and types
#   make lock         what the image installs, fixed with hashes (needs uv)
#   make clean        remove what the above have made

VENV ?= .venv
# More than there are cores: an integration test waits longer than it works.
WORKERS ?= 6
LONG ?= 1
BIN := $(VENV)/bin
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)

SPREAD := --dist loadscope --no-loadscope-reorder --durations 5

.PHONY: demo test test-again test-long test-fuzz test-kafka docs packages lint lock clean setup
.DELETE_ON_ERROR:

setup: $(VENV)/installed

demo: setup
	@$(BIN)/windward demo

# The tests start hundreds of processes; without compiled modules each of them compiles anew.
test test-again test-fuzz test-kafka: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(BIN)/python -m pytest -q -n $(WORKERS) $(SPREAD)

# What failed last, one by one.
test-again: setup
	$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

test-long: test-fuzz test-kafka

test-fuzz: setup
	WINDWARD_TEST_LONG=$(LONG) $(BIN)/python -m pytest -q -n logical $(SPREAD) -m long --timeout 900

test-kafka: setup
	@$(BIN)/python -c 'from ops.local.kafka.archives import fetch_archives; fetch_archives()'
	WINDWARD_TEST_KAFKA=apache $(BIN)/python -m pytest -q -n 2 $(SPREAD) \
		tests/integration/test_recovery.py tests/integration/test_stack_broker.py tests/integration/test_stack_broker_lost.py \
		tests/integration/test_stack_up_apache.py tests/integration/test_kafka_users.py

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: setup
	$(BIN)/python -m ops.docs build/site

packages: setup
	$(BIN)/python -m ops.packages dist

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info .windward .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer on the PATH" >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON), once; this takes about a minute"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[local,dev]'
	@touch $@

# What the image installs, with hashes. Needs uv: pip install uv
LOCK = uv pip compile --quiet --generate-hashes --python-version 3.11 --python-platform linux --no-emit-index-url \
	--custom-compile-command "make lock" --no-emit-package windward-agent --no-emit-package windward-client

lock:
	$(LOCK) pyproject.toml --extra stream --output-file ops/docker/requirements.lock
	$(LOCK) ops/docker/build.in --output-file ops/docker/build.lock
