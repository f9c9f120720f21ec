"""The skeleton of a process: what is built is closed, whatever happens; what each line says."""

import os
import signal
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from ops.stack.servers.process import wait_until
from schemas.messages.process import read_processes
from schemas.names import Names
from schemas.process.connections import RedisSettings
from schemas.process.presence import Presence
from schemas.process.run import Process, run
from schemas.process.settings import setting
from tests.conftest import free_port
from tests.support.pages import get

pytestmark = pytest.mark.integration


@dataclass(frozen=True, kw_only=True)
class Settings(RedisSettings):
    metrics_host: str = setting("127.0.0.1", "address")
    metrics_port: int = setting(0, "port")


def test_a_process_begins_works_and_ends(valkey, capsys):
    """Its page and its heartbeat are there while it works; SIGHUP reads again, SIGTERM ends it; then all is closed."""
    port, names, beats = free_port(), Names("try-run"), valkey.connect()
    key, seen, clock = names.processes("load-watcher"), list[Any](), list[float]()

    def build(settings, environ):
        assert environ == {"A": "b"}
        os.kill(os.getpid(), signal.SIGHUP)  # what is built may listen already: no signal ends it
        registry = CollectorRegistry()
        Gauge("windward_try_up", "1", registry=registry).set(1)

        def work(stop):
            os.kill(os.getpid(), signal.SIGHUP)
            seen.append('windward_try_up{fleet="try-run"} 1.0' in get(port, "/metrics")[1])
            wait_until(lambda: clock and beats.hgetall(key), 30, "a heartbeat, and a clock that was read in time")
            seen.extend(read_processes(beats.hgetall(key)))
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append(stop.wait(10))

        return Process(
            work=work, registry=registry, ready=lambda: (True, {}), name="one", first={"x": 1},
            read_again=lambda: seen.append("again"), presence=partial(Presence, tell_clock=clock.append),
            close=(lambda: seen.append("closed last"), lambda: seen.append("closed first")),
        )  # fmt: skip

    argv = ["--redis-url", valkey.url, "--prefix", names.prefix, "--metrics-port", str(port)]
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        assert run("load-watcher", Settings, build, argv, {"A": "b"}, event="watcher") == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert seen == ["again", True, "one", True, "closed first", "closed last"]
    assert beats.hgetall(key) == {}
    assert clock
    said = [line.partition("event=")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["watcher.start name=one x=1", "watcher.profiles.reloaded", "watcher.stop name=one"]


def test_what_was_built_is_closed_where_the_work_fails(valkey):
    """The error goes on; the heartbeat stays, so that the process is missed."""
    closed = []

    def build(_settings, _environ):
        def work(_stop):
            raise RuntimeError("broken")

        return Process(work=work, close=(lambda: closed.append("closed"),))

    with pytest.raises(RuntimeError, match="broken"):
        run("evictor", Settings, build, ["--redis-url", valkey.url, "--prefix", "try-fail"], {})
    assert closed == ["closed"]
