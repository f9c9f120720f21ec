"""Shell: expires reservations and moves, also while no query does."""

from scorer.background.thread import BackgroundThread
from scorer.ledger.store.scripts import Ledger
from scorer.metrics import Metrics
from scorer.wire import ServerClock


class Sweeper(BackgroundThread):
    """Expires reservations and moves that are due, at once and every second.

    Transitions do so, too; this thread is for idle times.
    """

    def __init__(self, ledger: Ledger, metrics: Metrics, clock: ServerClock | None = None) -> None:
        """``clock`` is set to the time of a separate server of the ledger."""
        super().__init__("sweep", ledger.wire)
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock

    def turn(self) -> None:
        if self._clock is not None:
            self._clock.read_ledger(self._ledger.wire)
        while (count := self._ledger.expire().count) >= 1000:
            self._metrics.expiries.inc(count)
        self._metrics.expiries.inc(count)
