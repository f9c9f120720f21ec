"""Windows on a server of their own: the table of docs/deploying.md, held against what really goes to each server."""

import os
import re
import socket
import sys
import threading
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import msgspec
import pytest
import redis

from ops.stack.servers.local import LocalBroker, LocalValkey
from ops.stack.servers.process import LocalProcess, free_port
from ops.stack.stack import says_ready
from schemas.messages.sample import InstanceMeans, InstanceReport, MachineFacts
from scorer.client import Client
from tests.conftest import Valkey
from tests.support.in_process import run_command
from tests.support.pages import eventually
from tests.support.pipeline import Pipeline, await_condition, make_samples

PAGE = Path(__file__).parents[3] / "docs/deploying.md"
WHERE = {"--windows-url": "windows", "--redis-url": "redis", "--ledger-url": "ledger"}


@cache
def table():
    """Return by pattern of the keys the server that the page gives, as in `WHERE`."""
    rows = re.findall(r"^\| (`.+`) \| .+ \| `(--\w+-url)` \|$", PAGE.read_text(), re.MULTILINE)
    return {pattern: WHERE[url] for keys, url in rows for pattern in re.findall(r"`(\S+)`", keys)}


def places(key):
    """Return the rows of the table that a key, without prefix and version, is in; {P} is a number there."""
    return [pattern for pattern in table() if fnmatchcase(re.sub(r"\{\d+\}", "{P}", key), pattern.replace("[", "[[]"))]


class Heard:
    """The keys of the commands that reach a server, between ``with`` and its end."""

    def __init__(self, server, names):
        self.keys = set()
        self._key = re.compile(rf'"{re.escape(names.prefix)}:v1:([^"\s]+)"')
        self._server = server

    def __enter__(self):
        self._socket = socket.create_connection(("127.0.0.1", self._server.port))
        self._socket.sendall(b"MONITOR\r\n")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self):
        with self._socket.makefile("rb") as lines:
            for line in lines:
                if b'"goodbye"' in line:
                    return
                self.keys.update(self._key.findall(line.decode(errors="replace")))

    def __exit__(self, *_):
        with self._server.connect() as server:
            server.echo("goodbye")
        self._reader.join(30)
        self._socket.close()


@pytest.fixture
def servers(tmp_path):
    with ExitStack() as stack:
        found = {}
        for what in WHERE.values():
            server = stack.enter_context(LocalValkey(directory=tmp_path / what))
            found[what] = Valkey(server.url, server.port)
        yield found


@contextmanager
def running(environ, folder):
    """Run each kind of process beside the stream worker, until all are ready."""
    options = {
        "scorer": ("--ledger-check-s", "1"),
        "exporter": ("--top-instances", "5"),
        "planner": ("--every", "1"),
        "record": ("--record-dir", str(folder / "recording"), "--write-s", "1"),
        "load-watcher": ("--refresh", "0.2"),
    }
    with ExitStack() as stack:
        processes = []
        for command, given in options.items():
            port = free_port()
            words = [sys.executable, "-P", "-m", "ops.cli.main", command, "--metrics-port", str(port), *given]
            process = LocalProcess(
                command, words, log=folder / f"{command}.log", environ=environ,
                ready=lambda port=port: says_ready(port), ready_deadline_s=60,
            )  # fmt: skip
            stack.callback(process.stop)
            processes.append(process.spawn())
        for process in processes:
            process.wait_ready()
        yield


@pytest.mark.slow
def test_the_table_says_where_each_key_is(servers, names, tmp_path):
    """Every command of a short whole run, of each process and of the commands that read windows: none is elsewhere."""
    urls = {f"WINDWARD_{what.upper()}_URL": server.url for what, server in servers.items()}
    windows = servers["windows"].url
    with ExitStack() as stack:
        broker = stack.enter_context(LocalBroker(log=tmp_path / "broker.log"))
        heard = {what: stack.enter_context(Heard(server, names)) for what, server in servers.items()}
        environ = os.environ | urls | {"WINDWARD_PREFIX": names.prefix, "WINDWARD_KAFKA": broker.address}
        pipeline = Pipeline(broker, servers["redis"].url, names, tmp_path, windows_url=windows)
        stack.callback(pipeline.close)
        pipeline.start_worker()
        samples = make_samples(6, 400)
        samples[-1] = msgspec.structs.replace(
            samples[-1],
            instance_report=InstanceReport(at=samples[-1].at, interval_s=60.0, entries={"a": InstanceMeans(cpu=1.0)}),
        )
        pipeline.publish(samples)
        facts = MachineFacts(v=1, machine="m000", boot=1, at=samples[-1].at, labels={"rack": "a"})
        pipeline.publish([facts], keep=False)
        pipeline.await_folded(len(samples) + 1)
        stack.enter_context(running(dict(environ), tmp_path))
        run_command("ledger", "accept", environ=environ)  # an agent reports an instance that it does not have
        with Client(servers["redis"].url, names.prefix, timeout_s=30) as client:
            eventually(lambda: client.place(id="a", cpu=1).machine)
            client.confirm("a")
        for command in (
            "machines label m001 rack=a", "machines cordon m00*", "machines uncordon m00*", "machines rename m005 n",
            "machines forget m004", "top --once", "rebalance", "drain m002", "instances", "why a", "learned", "doctor",
        ):  # fmt: skip
            done = run_command(*command.split(), environ=environ)
            assert "UNAVAILABLE" not in done.stderr + done.stdout, (command, done.stderr)
        await_condition(lambda: redis_has(servers["redis"], names.processes("record")), "a heartbeat of the recorder")
    seen = {what: sorted(one.keys) for what, one in heard.items()}
    wrong = [(what, key) for what, keys in seen.items() for key in keys if [table()[p] for p in places(key)] != [what]]
    assert wrong == []
    of_windows = {pattern for key in seen["windows"] for pattern in places(key)}
    unseen = [pattern for pattern, what in table().items() if what == "windows" and pattern not in of_windows]
    assert unseen == []
    assert len({pattern for keys in seen.values() for key in keys for pattern in places(key)}) >= len(table()) - 3


def redis_has(server, key):
    with redis.Redis.from_url(server.url) as client:
        return client.exists(key)
