"""Signals of a process, sent to the one that runs the tests; its own handlers are put back."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from schemas.process.signals import Stop, handle_signals

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers():
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_is_told_to_stop(number):
    stop, calls = Stop(), list[str]()
    handle_signals(stop, lambda: calls.append("read"), lambda error: calls.append(str(error)))
    os.kill(os.getpid(), number)
    assert stop.wait(10)
    assert calls == []


@pytest.mark.parametrize("error", [None, ValueError("line 3"), RecursionError("too deep")])
def test_profiles_are_read_again_and_an_error_ends_nothing(error):
    stop, called, refused = Stop(), threading.Event(), list[Exception]()

    def read_again():
        called.set()
        if error is not None:
            raise error

    handle_signals(stop, read_again, refused.append)
    os.kill(os.getpid(), signal.SIGHUP)
    assert called.wait(10)
    assert not stop.is_set()
    assert refused == ([] if error is None else [error])


def test_beside_the_main_thread_the_handlers_stay():
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


def test_signals_that_follow_each_other_do_not_lock_the_process():
    """A second one comes while the first is handled, or as the process begins to wait."""
    subprocess.run([sys.executable, "-c", STORM], check=True, timeout=30)


def test_a_signal_between_the_look_and_the_sleep_is_seen(monkeypatch):
    stop = Stop()
    sleep = stop._cond.wait

    def signalled(timeout=None):
        stop._flag = True  # what `set` does while none sleeps
        return sleep(timeout)

    monkeypatch.setattr(stop._cond, "wait", signalled)
    waiting = threading.Thread(target=stop.wait, daemon=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()
