"""Shell: expires reservations and moves, also while no query does."""

import logging

import redis

from scorer.background.thread import BackgroundThread
from scorer.ledger.record.transition import UnknownFormat
from scorer.ledger.store.scripts import Ledger
from scorer.metrics import Metrics
from scorer.wire import AWAY, ServerClock

log = logging.getLogger("windward.scorer")

_SWEEP_S = 1.0


class Sweeper(BackgroundThread):
    """Expires reservations and moves that are due, every second.

    Transitions do so, too; this thread is for idle times.
    """

    def __init__(self, ledger: Ledger, metrics: Metrics, clock: ServerClock | None = None) -> None:
        """``clock`` is set to the time of a separate server of the ledger."""
        super().__init__("sweeper", ledger.wire)
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock

    def run(self) -> None:
        """Sweep at once, and every second until `stop`."""
        wait_s = 0.0
        while not self.stopping.wait(wait_s):
            wait_s = _SWEEP_S
            try:
                if self._clock is not None:
                    self._clock.read_ledger(self._ledger.wire)
                while (count := self._ledger.expire().count) >= 1000:
                    self._metrics.expiries.inc(count)
                self._metrics.expiries.inc(count)
            except (*AWAY, UnknownFormat):  # the follower reports the latter
                continue
            except redis.ResponseError as error:
                log.warning("scorer.sweep.refused", extra={"values": {"error": str(error)}})
