"""The skeleton of a process: what is built is closed, whatever happens; what each line says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from ops.stack.servers.process import wait_until
from schemas.messages.process import read_processes
from schemas.names import Names
from schemas.process.connections import RedisSettings
from schemas.process.run import Process, run
from schemas.process.settings import setting
from schemas.process.signals import Stop, handle_signals
from tests.conftest import Valkey, free_port

pytestmark = pytest.mark.integration


@dataclass(frozen=True, kw_only=True)
class Settings(RedisSettings):
    """Try."""

    metrics_host: str = setting("127.0.0.1", "address")
    metrics_port: int = setting(0, "port")


def test_a_process_begins_works_and_ends(valkey: Valkey, capsys: pytest.CaptureFixture[str]) -> None:
    """Its page and its heartbeat are there while it works; SIGHUP reads again, SIGTERM ends it; then all is closed."""
    port, names, beats = free_port(), Names("try-run"), valkey.connect()
    key, seen, clock = names.processes("load-watcher"), list[Any](), list[float]()

    def build(settings: Settings, environ: Any) -> Process:
        assert environ == {"A": "b"}
        os.kill(os.getpid(), signal.SIGHUP)  # what is built may listen already: no signal ends it
        registry = CollectorRegistry()
        Gauge("windward_try_up", "1", registry=registry).set(1)

        def work(stop: Stop) -> None:
            os.kill(os.getpid(), signal.SIGHUP)
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
            seen.append('windward_try_up{fleet="try-run"} 1.0' in page)
            wait_until(lambda: beats.hgetall(key), 10, "a heartbeat")
            seen.extend(read_processes(beats.hgetall(key)))
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append(stop.wait(10))

        found = Process(
            work=work, registry=registry, ready=lambda: (True, {}), name="one", first={"x": 1},
            read_again=lambda: seen.append("again"), tell_clock=clock.append,
        )  # fmt: skip
        found.closing.callback(seen.append, "closed last")
        found.closing.callback(seen.append, "closed first")
        return found

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


def test_what_was_built_is_closed_where_the_work_fails(valkey: Valkey) -> None:
    """The error goes on; the heartbeat stays, so that the process is missed."""
    closed: list[str] = []

    def build(_settings: Settings, _environ: Any) -> Process:
        def work(_stop: Stop) -> None:
            raise RuntimeError("broken")

        found = Process(work=work)
        found.closing.callback(closed.append, "closed")
        return found

    with pytest.raises(RuntimeError, match="broken"):
        run("evictor", Settings, build, ["--redis-url", valkey.url, "--prefix", "try-fail"], {})
    assert closed == ["closed"]


NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_is_told_to_stop(number: signal.Signals) -> None:
    stop, calls = Stop(), list[str]()
    handle_signals(stop, lambda: calls.append("read"), lambda error: calls.append(str(error)))
    os.kill(os.getpid(), number)
    assert stop.wait(10)
    assert calls == []


@pytest.mark.parametrize("error", [None, ValueError("line 3"), RecursionError("too deep")])
def test_profiles_are_read_again_and_an_error_ends_nothing(error: Exception | None) -> None:
    stop, called, refused = Stop(), threading.Event(), list[Exception]()

    def read_again() -> None:
        called.set()
        if error is not None:
            raise error

    handle_signals(stop, read_again, refused.append)
    os.kill(os.getpid(), signal.SIGHUP)
    assert called.wait(10)
    assert not stop.is_set()
    assert refused == ([] if error is None else [error])


def test_beside_the_main_thread_the_handlers_stay() -> None:
    """Python takes handlers from the main thread alone; a test that runs a scorer in another has its own."""
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=handle_signals, args=(Stop(), lambda: None, print))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


STORM = """
import signal, time
from schemas.process.signals import Stop, handle_signals

stop = Stop()
handle_signals(stop, lambda: None, lambda error: None)
end = time.monotonic() + 1
signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGTERM))
signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
while time.monotonic() < end:
    stop.wait(1e-5)
    stop.clear()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_signals_that_follow_each_other_do_not_lock_the_process() -> None:
    """A second one comes while the first is handled, or as the process begins to wait."""
    subprocess.run([sys.executable, "-c", STORM], check=True, timeout=30)


def test_a_signal_between_the_look_and_the_sleep_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is asleep yet that it could wake."""
    stop = Stop()
    sleep = stop._cond.wait

    def signalled(timeout: float | None = None) -> bool:
        stop._flag = True  # type: ignore[attr-defined]  # what `set` does while none sleeps
        return sleep(timeout)

    monkeypatch.setattr(stop._cond, "wait", signalled)
    waiting = threading.Thread(target=stop.wait, daemon=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()
