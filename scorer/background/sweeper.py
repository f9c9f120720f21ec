"""Shell: expires reservations and moves while no query does."""

from __future__ import annotations

import logging
import threading

import redis

from scorer.ledger.record.transition import UnknownFormat
from scorer.ledger.store.scripts import Ledger
from scorer.metrics import Metrics
from scorer.wire import AWAY

log = logging.getLogger("windward.scorer")

_SWEEP_S = 1.0


class Sweeper(threading.Thread):
    """Expires what is due, every second. Each transition does so, too; this thread is for times without any."""

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        super().__init__(name="sweeper", daemon=True)
        self._ledger = ledger
        self._metrics = metrics
        self._stop_event = threading.Event()

    def run(self) -> None:
        """Sweep every second until `stop`."""
        while not self._stop_event.wait(_SWEEP_S):
            try:
                while (count := self._ledger.expire().count) >= 1000:
                    self._metrics.expiries.inc(count)
                self._metrics.expiries.inc(count)
            except (*AWAY, UnknownFormat):  # the follower reports the latter
                continue
            except redis.ResponseError as error:
                log.warning("scorer.sweep.refused", extra={"values": {"error": str(error)}})

    def stop(self) -> None:
        """End the thread."""
        self._stop_event.set()
        self.join(timeout=10)
        self._ledger.wire.close()
