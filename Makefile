# Two commands matter: `make demo` and `make test`. Each does its own set-up; all it needs is Python 3.11 or newer.
#
#   make demo         the whole stack on this machine, at work: half a minute, the first time one more
#   make test         unit and integration tests against a local broker and a local Valkey: three minutes on two idle cores
#   make test-long    what takes longer: the three below
#   make test-fuzz    faults that take long; properties, fuzzing and long runs with four times the work; LONG=2: much more
#   make test-kafka   the recovery tests against three brokers of Apache Kafka (needs Java 17 and Maven)
#   make test-alerts  outages of a live stack under Prometheus, a quarter of an hour: each tells one alert
#   make test-kubernetes  pods on a real control plane, through kills and cuts (needs Go; built in 5 to 15 minutes, once)
#   make test-sanitized  the compiled part under the sanitizers of gcc or clang, in a minute
#   make bench-check TREE=/tmp/other   what is slower than in that checkout, beside it in pairs; ten minutes
#   make growth       the figures and pictures of docs/growth.md, measured anew; half an hour on idle cores
#   make docs         the documentation, as a site in build/site
#   make packages     the wheels and the agent's .deb, each checked in an empty environment
#   make generated    the files that are made from the code: schemas, the client's keywords, settings, dashboards
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

# Of a worker that has died pytest-xdist may wait for tests for ever, so a run of tests has a limit; 0 is none. SIGINT
# lets pytest tell what has failed until then. What is left untold must not be taken for passed, so no list of failures
# stays for `make test-again`. Without coreutils there is no limit.
LIMIT_S ?= $(if $(filter 2,$(LONG)),0,1800)
LIMITED = $(if $(shell command -v timeout),timeout --foreground --signal INT --kill-after 60 $(LIMIT_S))
PYTEST = $(LIMITED) $(BIN)/python -m pytest -q
TOLD = || { status=$$?; case $$status in 124 | 137) rm -f .pytest_cache/v/cache/lastfailed; \
	echo "make $@: not done after $(LIMIT_S) s, so it was ended (LIMIT_S=3600 for an hour, LIMIT_S=0 for no limit)" >&2;; \
	esac; exit $$status; }

# pip's words, as one line: each package's name when it is fetched, and when all are being installed. pip's own errors
# go to stderr. Of a pipe a plain shell tells only how its last command ended, so the first one's status is kept.
define INSTALL
{ PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --editable '$(1)'; \
	echo $$? >$(VENV)/status; } | while read -r word name rest; do case $$word-$$name in \
		Collecting-*) printf ' %s' "$${name%%[<>=!~;[]*}";; \
		Installing-collected) printf '\n  installing them';; \
		Successfully-installed) echo;; \
	esac; done; exit $$(cat $(VENV)/status)
endef

.PHONY: demo test test-again test-long test-fuzz test-kafka test-alerts test-kubernetes test-sanitized bench-check growth docs packages generated lint lock clean setup
.DELETE_ON_ERROR:

setup: $(VENV)/for-tests kernel

# The filters and scores, compiled; a set-up has done it once.
KERNEL := scorer/ranking/kernel/kernel.so
.PHONY: kernel
kernel: $(KERNEL)
$(KERNEL): $(wildcard scorer/ranking/*/*.[ch]) ops/packages/compiler.py | $(VENV)/for-demo
	$(BIN)/python -m ops.packages.compiler

demo: $(VENV)/for-demo kernel
	@$(BIN)/windward demo

# The tests start hundreds of processes; without compiled modules each of them compiles anew.
test test-again test-fuzz test-kafka test-alerts test-kubernetes: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(PYTEST) -n $(WORKERS) $(SPREAD) -m 'not slow' $(TOLD)

# What failed last, one by one.
test-again: setup
	$(PYTEST) --last-failed --last-failed-no-failures none $(TOLD)

test-long: test-fuzz test-kafka test-alerts

test-fuzz: setup
	WINDWARD_TEST_LONG=$(LONG) $(PYTEST) -n 4 $(SPREAD) -m 'long or slow' --timeout 900 $(TOLD)

test-alerts: setup
	WINDWARD_TEST_ALERTS=1 $(PYTEST) tests/integration/observe/test_alerts.py --timeout 900 $(TOLD)

CONTROL_PLANE := build/control-plane/control-plane

# go.sum is made on the way.
$(CONTROL_PLANE): $(addprefix tests/kubernetes/control_plane/,main.go go.mod)
	mkdir -p $(@D) && cp $^ $(@D)
	cd $(@D) && go build -mod=mod -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.34.7' -o $(@F) .

test-kubernetes: setup $(if $(WINDWARD_TEST_CONTROL_PLANE),,$(CONTROL_PLANE))
	WINDWARD_TEST_CONTROL_PLANE=$(or $(WINDWARD_TEST_CONTROL_PLANE),$(CURDIR)/$(CONTROL_PLANE)) \
		$(PYTEST) tests/kubernetes $(TOLD)

test-kafka: setup
	@$(BIN)/python -c 'from tests.kafka.archives import fetch_archives; fetch_archives()'
	WINDWARD_TEST_KAFKA=apache $(PYTEST) -n 2 $(SPREAD) -m broker \
		tests/integration/stream/test_recovery.py tests/integration/stack/test_stack_broker_lost.py \
		tests/integration/stack/test_stack_up_apache.py tests/integration/security/test_kafka_users.py $(TOLD)

# A fault of the compiled part ends it with a report of the sanitizer.
test-sanitized: setup
	$(LIMITED) $(BIN)/python -m tests.sanitized -q -m 'not slow' tests/scorer/ranking/kernel tests/scorer/ranking/recorded $(TOLD)

bench-check: setup
	@test -d "$(TREE)" || { echo "usage: make bench-check TREE=a-checkout-of-another-commit" >&2; exit 2; }
	@$(BIN)/python -m tests.bench.bench_against "$(TREE)"

growth: setup
	$(BIN)/python -m tests.bench.bench_growth

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/clang-format --dry-run --Werror $(wildcard scorer/ranking/*/*.[ch])

docs: setup
	$(BIN)/python -m ops.docs build/site

packages: setup
	$(BIN)/python -m ops.packages dist

generated: setup
	for module in schemas.json_schema schemas.client_keywords ops.cli.known ops.grafana; do $(BIN)/python -m $$module || exit; done

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info .windward .mypy_cache .ruff_cache .pytest_cache .hypothesis

# A file each says what is installed. The demo needs a third of what the tests need.
$(VENV)/for-demo: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer on the PATH" >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON), once; this takes half a minute or more"
	@$(PYTHON) -m venv $(VENV)
	@printf '  fetching\n   '; $(call INSTALL,.[local])
	@touch $@

$(VENV)/for-tests: $(VENV)/for-demo
	@echo "adding to $(VENV) what tests, checks and documentation need, once; this takes a minute or more"
	@printf '  fetching\n   '; $(call INSTALL,.[dev])
	@touch $@

# What the image installs, with hashes. Needs uv: pip install uv
LOCK = uv pip compile --quiet --generate-hashes --python-version 3.11 --python-platform linux --no-emit-index-url \
	--custom-compile-command "make lock" --no-emit-package windward-agent --no-emit-package windward-client

lock:
	$(LOCK) pyproject.toml --extra stream --output-file ops/docker/requirements.lock
	$(LOCK) ops/docker/build.in --output-file ops/docker/build.lock
