# Two commands matter: `make demo` and `make test`. Each does its own set-up; all it needs is Python 3.11 or newer.
#
#   make demo         the whole stack on this machine, at work, in two minutes
#   make test         every test, unit and integration, against a local broker and a local Valkey
#   make test-kafka   the recovery tests against three brokers of Apache Kafka (needs Java 17 and Maven)
#   make lint         formatting, lint and types
#   make clean        remove what the above have made

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)

.PHONY: demo test test-kafka lint clean setup
.DELETE_ON_ERROR:

setup: $(VENV)/installed

demo: setup
	@$(BIN)/windward demo

test: setup
	$(BIN)/python -m pytest -q

test-kafka: setup
	WINDWARD_TEST_KAFKA=apache $(BIN)/python -m pytest -q \
		tests/integration/test_recovery.py tests/integration/test_stack_broker.py tests/integration/test_stack_broker_lost.py \
		tests/integration/test_stack_up_apache.py

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info .windward .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer on the PATH" >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON), once; this takes about a minute"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[local,dev]'
	@touch $@
