"""Shell: the scorer that learns observes the usage by class and writes the predicted peaks (`schemas.predicted`).

It continues from the stored histograms, whichever scorer wrote them. When the Redis user may not write, this is logged
once.
"""

from __future__ import annotations

import logging

import redis

from schemas.names import Names
from scorer.ledger.class_usage import class_usage, prod_and_system
from scorer.ledger.view import LedgerView
from scorer.reclaim.prediction import Histograms
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import Wire

log = logging.getLogger("windward.scorer")


class Predictor:
    """Keeps the histograms between two observations."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self._wire, self._names = wire, names
        self._histograms: Histograms | None = None
        self._refused = False

    def forget(self) -> None:
        """Read the stored histograms again before the next observation: another scorer may have changed them."""
        self._histograms = None

    def look(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> None:
        """Add the present usage to the histograms and write them, if usage by instance is known.

        Raises what the wire raises.
        """
        if not snapshot.usages:
            return
        try:
            if self._histograms is None:
                self._histograms = Histograms.restored(self._wire.one("GET", self._names.predicted_histograms))
            used = prod_and_system(class_usage(snapshot, ledger))
            self._histograms.look(snapshot.names, used, snapshot.capacity, now_s)
            self._wire.one("SET", self._names.predicted_histograms, self._histograms.stored())
            self._wire.one("SET", self._names.predicted, self._histograms.peaks())
            self._refused = False
        except redis.ResponseError as error:
            if not self._refused:
                log.warning("scorer.predict.refused", extra={"values": {"error": str(error)}})
            self._refused = True
