"""The time of the queries' server: all deadlines refer to it, since this host's clock may be wrong.

It is read with each heartbeat. In between it advances by this host's monotonic clock, so setting the wall clock has no
effect. A reading is dated by the arrival of its answer, so a time from `ServerClock` is never ahead of the server.
"""

import time
from collections.abc import Callable

from scorer.wire import Wire

_READING_S = 0.25
"""A reading that took longer is not used: this process, or the network, stood still."""


class ServerClock:
    """Returns the server's time when called, epoch seconds; this host's until the first reading."""

    def __init__(self, local: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._local = local
        self._monotonic = monotonic
        self._offset_s = local() - monotonic()
        self._read_at = 0.0
        self.ahead_s = 0.0
        """How far this host's clock was ahead of the server's at the last reading; below 0: behind."""
        self._ledger_ahead_s = 0.0

    def __call__(self) -> float:
        return self._monotonic() + self._offset_s

    def read(self, wire: Wire) -> float:
        """Read the server's clock; return its time."""
        asked_at = self._monotonic()
        server_s = server_time(wire)
        answered_at = self._monotonic()
        if answered_at - asked_at <= _READING_S or not self._read_at:
            self._read_at = answered_at
            self._offset_s = server_s - answered_at
            self.ahead_s = self._local() - server_s
        return server_s

    def read_ledger(self, wire: Wire) -> None:
        """Ask a ledger's own server."""
        self._ledger_ahead_s = server_time(wire) - self()

    def on_ledger(self, at_s: float) -> float:
        """Convert a time of the queries' server to the clock of the ledger's server; 0 stays 0.

        >>> ServerClock().on_ledger(7.0)
        7.0
        """
        return at_s and at_s + self._ledger_ahead_s


def server_time(wire: Wire) -> float:
    """Return a server's time, epoch seconds."""
    seconds, micros = wire.one("TIME")
    return int(seconds) + int(micros) / 1e6
