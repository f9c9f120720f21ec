"""The effect of signals on a process: SIGTERM and SIGINT end it, SIGHUP reads its profiles again."""

import signal
import threading
import time
from collections.abc import Callable
from math import inf
from types import FrameType

LOOK_S = 1.0
"""The longest sleep of `Stop.wait` between two checks."""


class Stop(threading.Event):
    """An event that a handler of signals may set while the main thread waits for it.

    A handler runs in the main thread, between two of its steps. There that thread may hold the event's lock, in `wait`
    or in `set` of the signal before. With the plain lock of `threading.Event` it would wait for itself for ever. Ctrl-C
    in a terminal, `timeout` and systemd each may send a second signal soon after. So this lock may be taken again.

    Then a handler may also run after `wait` has looked and before it sleeps. Its `set` wakes no thread, so `wait` looks
    again each second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cond = threading.Condition(threading.RLock())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most ``timeout`` seconds; return whether it was set."""
        until_s = inf if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (left_s := until_s - time.monotonic()) > 0:
            super().wait(min(left_s, LOOK_S))
        return self.is_set()


def handle_signals(stop: Stop, read_again: Callable[[], None], refused: Callable[[Exception], None]) -> None:
    """Set ``stop`` at SIGTERM and SIGINT; at SIGHUP call ``read_again``, and ``refused`` with any error of it.

    After an error the old settings stay in force, and the process continues. Outside the main thread, where there are
    no signals, nothing is done.
    """

    def end(_: int, __: FrameType | None) -> None:
        stop.set()

    def reload(_: int, __: FrameType | None) -> None:
        try:
            read_again()
        except Exception as error:  # a signal's exception would end the process
            refused(error)

    if threading.current_thread() is threading.main_thread():
        for number, handler in ((signal.SIGTERM, end), (signal.SIGINT, end), (signal.SIGHUP, reload)):
            signal.signal(number, handler)
