"""Shell: a new snapshot every few tens of milliseconds, made on a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from scorer.live.loader import Loader
from scorer.metrics import Metrics
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import AWAY, Wire

log = logging.getLogger("windward.scorer")


class Refresher(threading.Thread):
    """Refreshes every ``refresh_s``; the newest snapshot is `latest`. Assigning and reading it is atomic.

    ``warm`` is called with each new snapshot before it becomes the latest. What it raises is logged, and keeps no
    snapshot back: a plugin of another package may fail at the requests that it makes up.
    """

    def __init__(self, loader: Loader, wire: Wire, metrics: Metrics, refresh_s: float) -> None:
        super().__init__(name="refresher", daemon=True)
        self.warm: Callable[[Snapshot], object] = len
        self.latest: Snapshot | None = None
        self.ledger_machines: Iterable[str] = ()
        self._loader = loader
        self._wire = wire
        self._metrics = metrics
        self._refresh_s = refresh_s
        self._stop_event = threading.Event()

    def look(self) -> None:
        """Refresh once; a failure is counted, and the last snapshot stays the latest."""
        started = time.perf_counter()
        try:
            snapshot = self._loader.refresh(self.ledger_machines)
        except AWAY:
            self._metrics.refresh_failures.labels("redis").inc()
            return
        except Exception:
            self._metrics.refresh_failures.labels("internal").inc()
            log.exception("scorer.refresh.failed")
            return
        if snapshot is not None:
            self._warm(snapshot)
            self.latest = snapshot
            self._metrics.refresh_s.observe(time.perf_counter() - started)
            self._metrics.refreshed.set(time.time())
            self._metrics.machines.set(len(snapshot))
            if snapshot.machines_with_data:
                self._metrics.newest.set(snapshot.newest_at)

    def _warm(self, snapshot: Snapshot) -> None:
        try:
            self.warm(snapshot)
        except Exception as error:
            self._metrics.refresh_failures.labels("warming").inc()
            log.warning("scorer.refresh.not_warmed", extra={"values": {"error": f"{type(error).__name__}: {error}"}})

    def run(self) -> None:
        """Refresh every ``refresh_s`` until `stop`."""
        while not self._stop_event.is_set():
            started = time.monotonic()
            self.look()
            self._stop_event.wait(max(0.001, self._refresh_s - (time.monotonic() - started)))

    def stop(self) -> None:
        """End the thread."""
        self._stop_event.set()
        self.join(timeout=10)
        self._wire.close()
