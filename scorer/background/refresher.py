"""Shell: a new snapshot as soon as windows or rules changed, made on a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from scorer.background.thread import BackgroundThread
from scorer.live.loader import Loader, WakeUps
from scorer.metrics import AnsweringMetrics
from scorer.snapshot.snapshot import Latest, Snapshot
from scorer.wire import AWAY

log = logging.getLogger("windward.scorer")


class Refresher(BackgroundThread):
    """Refreshes ``latest`` when it is woken, each second at least, and not more often than every ``refresh_s``.

    ``prepare`` is called with each new snapshot before it becomes the latest. An exception of it is logged, and the
    snapshot is used nevertheless.
    """

    def __init__(
        self,
        loader: Loader,
        latest: Latest,
        prepare: Callable[[Snapshot], object],
        metrics: AnsweringMetrics,
        refresh_s: float,
        wake_ups: Callable[[threading.Event], WakeUps],
    ) -> None:
        super().__init__("refresher", loader.wire, loader.windows)
        self._wake_ups = wake_ups(self.stopping)
        self._loader = loader
        self._latest = latest
        self._prepare = prepare
        self._metrics = metrics
        self._refresh_s = refresh_s

    def look(self, woken: Iterable[int] | None = None) -> None:
        """Refresh once, the windows of these partitions or all; on failure the last snapshot stays the latest."""
        started = time.perf_counter()
        try:
            snapshot = self._loader.refresh(self._latest.ledger_machines, woken)
        except AWAY:
            self._metrics.refresh_failures.labels("redis").inc()
            return
        except Exception:
            self._metrics.refresh_failures.labels("internal").inc()
            log.exception("scorer.refresh.failed")
            return
        self._metrics.refresh_failures.labels("tables").inc(self._loader.refused)
        if snapshot is not None:
            self._try_to_prepare(snapshot)
            self._latest.snapshot = snapshot
            self._latest.rules_version = self._loader.operator_version
            self._metrics.refresh_s.observe(time.perf_counter() - started)
            self._metrics.refreshed.set(time.time())
            self._metrics.machines.set(len(snapshot))
            if snapshot.machines_with_data:
                self._metrics.newest.set(snapshot.newest_at)

    def _try_to_prepare(self, snapshot: Snapshot) -> None:
        try:
            self._prepare(snapshot)
        except Exception as error:
            self._metrics.refresh_failures.labels("rows").inc()
            log.warning("scorer.refresh.rows_failed", extra={"values": {"error": f"{type(error).__name__}: {error}"}})

    def run(self) -> None:
        woken = None
        while not self.stopping.is_set():
            started = time.monotonic()
            self.look(woken)
            self.stopping.wait(max(0.001, self._refresh_s - (time.monotonic() - started)))
            woken = self._wake_ups.wait()
        self._wake_ups.close()
