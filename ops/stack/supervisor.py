"""Keeps processes running: one that ends is reported and started again, after a pause that grows with quick ends."""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ops.stack.servers.process import LocalError, LocalProcess

BACKOFF_S_MAX = 30.0
STEADY_S = 60.0
"""A process that ran this long has recovered: the pause before its next restart is short again, s."""


def backoff_s(failures: int) -> float:
    """Return the pause before the restart after so many ends in a row: 1, 2, 4 ... 30 s.

    >>> [backoff_s(n) for n in (1, 2, 3, 6)]
    [1.0, 2.0, 4.0, 30.0]
    """
    return min(BACKOFF_S_MAX, 2.0 ** min(failures - 1, 10))


@dataclass
class _Watched:
    process: LocalProcess
    started_s: float
    failures: int = 0
    restart_s: float | None = None


class Supervisor:
    """Watches processes that were started elsewhere, in the order in which they depend on each other.

    ``report`` gets one line for each event. Nothing here sleeps; the caller calls `watch` at an interval.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._tiers: list[list[_Watched]] = []

    def add(self, processes: Iterable[LocalProcess], now_s: float) -> None:
        """Watch further processes, which may depend on those added before."""
        self._tiers.append([_Watched(process, now_s) for process in processes])

    @property
    def processes(self) -> list[LocalProcess]:
        return [watched.process for tier in self._tiers for watched in tier]

    @property
    def dead(self) -> list[LocalProcess]:
        return [process for process in self.processes if not process.running]

    def watch(self, now_s: float) -> None:
        """Report processes that ended, and restart those whose pause is over."""
        for tier in self._tiers:
            for watched in tier:
                if not watched.process.running:
                    self._revive(watched, now_s)

    def _revive(self, watched: _Watched, now_s: float) -> None:
        process = watched.process
        if watched.restart_s is None:
            if now_s - watched.started_s > STEADY_S:
                watched.failures = 0
            watched.failures += 1
            pause_s = backoff_s(watched.failures)
            watched.restart_s = now_s + pause_s
            self._report(f"{process.name} ended with {process.exit_code}; again in {pause_s:g} s ({process.log})")
        elif now_s >= watched.restart_s:
            process.spawn()
            watched.started_s, watched.restart_s = now_s, None
            self._report(f"{process.name} is started again, process {process.pid}")

    def stop(self) -> None:
        """End all: those that depend on others first, the processes of one tier together."""
        for tier in reversed(self._tiers):
            for watched in tier:
                watched.process.ask_to_stop()
            for watched in tier:
                with contextlib.suppress(LocalError):
                    watched.process.stop()
