"""``windward doctor`` on a live stack: healthy is 0, and it names each process that is frozen or killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import redis

from ops.stack.servers.process import wait_until
from schemas.messages.process import KINDS, SILENT_S, missing, read_processes, running
from schemas.names import Names
from schemas.process.presence import Presence
from tests.conftest import free_port
from tests.integration.stack.test_stack_up import ANY_PORTS, WINDWARD, descendants, environ, up


def test_a_heartbeat_is_written_and_removed_at_the_end(valkey, names):
    """With goodbye it is gone; without, it is missed when it is silent; what is an hour old, the next one removes."""
    server = valkey.connect()
    key = names.processes("exporter")

    def known():
        return dict(read_processes(server.hgetall(key)))

    with Presence("exporter", names, {"url": valkey.url}, name="a", page="http://h:1"):
        wait_until(lambda: "a" in known(), 10, "the heartbeat is there")
        one = known()["a"]
        assert (one.pid, one.page, one.ready) == (os.getpid(), "http://h:1", True)
        assert abs(one.at - time.time()) < 5
        assert list(running(known(), one.at)) == ["a"]
        wait_until(lambda: server.ttl(key) > SILENT_S, 10, "the key ends by itself")
    assert known() == {}
    killed = Presence("exporter", names, {"url": valkey.url}, name="b")
    killed.beat()
    killed.stop(goodbye=False)
    assert list(missing(known(), time.time() + SILENT_S + 2)) == ["b"]
    server.hset(key, "older", msgspec.structs.replace(one, at=one.at - 3700).encode())
    Presence("exporter", names, {"url": valkey.url}, name="c").beat()
    assert set(known()) == {"b", "c"}


def test_a_process_goes_on_without_its_heartbeat(valkey, caplog):
    valkey.connect().execute_command("ACL", "SETUSER", "narrow", "on", "nopass", "-@all", "+ping", "+time")
    with Presence("record", Names("narrow"), {"url": valkey.url, "username": "narrow", "password": "x"}) as presence:
        wait_until(lambda: "process.heartbeat.failed" in caplog.text, 10, "it is said")
        assert presence.is_alive()


def test_a_log_line_names_sentinels_by_their_address(names, caplog):
    port = free_port()
    with Presence("record", names, {"url": f"redis+sentinel://127.0.0.1:{port}/main/0"}):
        wait_until(lambda: caplog.records, 10, "it is said")
    (said,) = (vars(one)["values"]["error"] for one in caplog.records)
    assert "No master found for 'main'" in said
    assert f"127.0.0.1:{port}" in said
    assert "<" not in said


class Doctor:
    def __init__(self, addresses, folder):
        self._where = ["--redis-url", addresses["redis_url"], "--kafka", addresses["kafka"]]
        self._folder = folder

    def __call__(self):
        """Return its exit code, and areas with what was found, warnings and errors alone."""
        began = time.monotonic()
        done = subprocess.run(
            [*WINDWARD, "doctor", "--json", *self._where],
            capture_output=True, text=True, env=environ(), cwd=self._folder, timeout=60, check=False,
        )  # fmt: skip
        assert time.monotonic() - began < 10 * SLOWER, done.stdout
        found = json.loads(done.stdout)["findings"]
        wrong = [one for one in found if one["level"] in ("warning", "error")]
        return done.returncode, "\n".join(f"{one['area']}: {one['found']}" for one in wrong)


AGENT = "here"
SLOWER = 2
"""Tests share their cores: to start Python alone may take seconds."""


@pytest.fixture
def stack(tmp_path):
    """A stack of all processes: their ids by command, doctor, and the addresses."""
    more = ["--machines", "5", "--backfill-s", "600", "--record", "--planner", "--load-watcher"]
    with up(tmp_path, *ANY_PORTS, *more, WINDWARD_MACHINE=AGENT) as (process, addresses):
        pids = {}
        for pid in descendants(process.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"ops.cli.main" in words:
                pids[words[words.index(b"ops.cli.main") + 1].decode()] = pid
        yield pids, Doctor(addresses, tmp_path), addresses


@pytest.mark.slow
def test_frozen_and_killed_processes_are_named(stack, tmp_path):
    """Within 30 s; a healthy stack is 0, before and after; a process that is started again is not missed."""
    pids, doctor, addresses = stack
    assert set(pids) == {*KINDS, "fleet", "agent"} - {"pods", "extender", "evictor"}
    wait_until(lambda: doctor()[0] == 0, 20, "a healthy stack is healthy")
    beside = [
        sys.executable, "-P", "-m", "ops.cli.main", "exporter", "--metrics-port", str(free_port()),
        "--redis-url", addresses["redis_url"],
    ]  # fmt: skip
    killed = subprocess.Popen(beside, env=environ(), cwd=tmp_path, stderr=subprocess.DEVNULL)
    names = Names()
    with redis.Redis.from_url(addresses["redis_url"]) as server:
        wait_until(lambda: server.hlen(names.processes("exporter")) == 2, 30, "the second exporter's heartbeat")
    killed.kill()
    killed.wait()
    wanted = [f"exporter: not running: {socket.gethostname()}-{killed.pid} ", f"agents: 1 of 6 silent: {AGENT}"]
    for frozen in (("agent", "exporter", "record", "planner", "load-watcher"), ("stream", "scorer")):
        wanted = [one for one in wanted if "stream" not in frozen or not one.startswith("agents")]  # it is muted
        wanted += [f"(process {pids[what]} of " for what in frozen if what != "agent"]
        for what in frozen:
            os.kill(pids[what], signal.SIGSTOP)
        began, code, said = time.monotonic(), 0, ""
        while time.monotonic() - began < 30 + 10 * (SLOWER - 1) and not all(one in said for one in wanted):
            code, said = doctor()
        assert (code, [one for one in wanted if one not in said]) == (1, []), said
    for pid in pids.values():
        os.kill(pid, signal.SIGCONT)
    with redis.Redis.from_url(addresses["redis_url"]) as server:
        server.hdel(names.processes("exporter"), *[
            name for name in server.hkeys(names.processes("exporter")) if name.endswith(f"-{killed.pid}".encode())
        ])  # fmt: skip
    os.kill(pids["scorer"], signal.SIGKILL)  # the stack starts another
    wait_until(lambda: doctor()[0] == 0, 60, "all run again, and none is missed")
