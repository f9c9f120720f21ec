"""The scorer that learns observes the usage by class and writes the predicted peaks (`scorer.classes.prediction`).

It continues from the stored histograms, whichever scorer wrote them. When the Redis user may not write, this is logged
once.
"""

from __future__ import annotations

import logging

import redis

from schemas.names import Names
from scorer.classes.class_usage import class_usage, prod_and_system, reported_at
from scorer.classes.last_reports import LastReports
from scorer.classes.prediction import Histograms
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import Wire

log = logging.getLogger("windward.scorer")
LOOK_S, WRITE_S = 60.0, 300.0
"""How often reports are looked at, at least, and how often what was learned of them is written."""


class Predictor:
    """Keeps the histograms between two observations."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self._wire, self._names = wire, names
        self._histograms: Histograms | None = None
        self._reports = LastReports()
        self._written_at = 0.0
        self._refused = False

    def forget(self) -> None:
        """Read the stored histograms again before the next observation: another scorer may have changed them."""
        self._histograms = None

    def look(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> None:
        """Add the last report of each machine to the histograms, if usage by instance is known.

        They are written every `WRITE_S`, so a scorer that ends takes the samples since with it. Raises what the wire
        raises.
        """
        if not snapshot.usages:
            return
        try:
            if self._histograms is None:
                self._histograms = Histograms.restored(self._wire.one("GET", self._names.predicted_histograms))
                self._written_at = 0.0
            used = prod_and_system(class_usage(snapshot, ledger, figures=self._reports.latest(snapshot.usages.columns)))
            self._histograms.look(snapshot.names, used, snapshot.capacity, now_s, reported_at(snapshot))
            if abs(now_s - self._written_at) < WRITE_S:
                return
            self._written_at = now_s
            self._wire.one("SET", self._names.predicted_histograms, self._histograms.stored())
            self._wire.one("SET", self._names.predicted, self._histograms.peaks())
            self._refused = False
        except redis.ResponseError as error:
            if not self._refused:
                log.warning("scorer.predict.refused", extra={"values": {"error": str(error)}})
            self._refused = True
