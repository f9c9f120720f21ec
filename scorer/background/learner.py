"""Shell: one scorer learns the use of instances for all, under the lease `learn`; it predicts peaks, too.

The learned figures are one value, written by one SET: after each look at the reports of instances, and for stated
chances once their outcome is known. It follows the ledger with a copy of its own, so that a decision never waits for
it; scorers that do not hold the lease keep no such copy.
"""

import logging
import time
from collections.abc import Callable

import msgspec
import redis

from schemas.names import Names
from schemas.tables.learned import Learned, read_learned
from scorer.background.thread import BackgroundThread
from scorer.classes.class_usage import LastReports, class_usage, prod_and_system, reported_at
from scorer.classes.prediction import Histograms
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.ledger.view.view import LedgerView
from scorer.metrics import Metrics
from scorer.ranking.calibration import Calibration, Cases, Stated, with_cases
from scorer.ranking.estimates.measured_use import learn
from scorer.ranking.inputs import RankingInputs, machines_of
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.settings import ScorerSettings
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import Wire


def stated_chances(inputs: RankingInputs) -> Stated | None:
    """Return the chances of `expected_overload`; None for a profile without it."""
    weighted = next((each for each in inputs.profile.scores if isinstance(each.score, ExpectedOverload)), None)
    return None if weighted is None else weighted.score.stated(machines_of(inputs, weighted.load_model))


def watch(chances: Calibration, inputs: RankingInputs) -> Cases | None:
    """Compare stated chances with what happened, then record new ones; return the cases of those that have ended."""
    cases = chances.look(inputs.snapshot, inputs.now_s)
    if chances.wants and (stated := stated_chances(inputs)) is not None:
        chances.begin(stated, inputs.snapshot, inputs.now_s)
    return cases


log = logging.getLogger("windward.scorer")
LOOK_S, WRITE_S = 60.0, 300.0
"""The longest time between two readings of the reports, and the shortest one between two writes of the histograms."""


class Predictor:
    """Observes the usage by class and writes the predicted peaks (`scorer.classes.prediction`).

    It continues from the stored histograms, whichever scorer wrote them. When the Redis user may not write, this is
    logged once.
    """

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

        They are written every `WRITE_S`: when a scorer ends, the samples since the last write are lost. Raises what the
        wire raises.
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


class Learner(BackgroundThread):
    """Observes every ``learn_s``, and for the predictor every minute; the lease lasts for three times ``learn_s``."""

    def __init__(
        self,
        ledger: Ledger,
        wire: Wire,
        snapshot: Callable[[], Snapshot | None],
        profile: Callable[[], Profile],
        metrics: Metrics,
        settings: ScorerSettings,
    ) -> None:
        """``profile``: the profile whose stated chances of overload are checked."""
        super().__init__("learn", ledger.wire, wire)
        self._ledger, self._wire, self._key = ledger, wire, settings.names.learned
        self._scorer, self._learn_s = settings.holder, settings.learn_s
        self._lease = Lease(ledger, "learn", self._scorer, 3 * self._learn_s)
        self._snapshot, self._profile, self._metrics = snapshot, profile, metrics
        self._follower: Follower | None = None
        self._predictor = Predictor(wire, settings.names)
        self._chances, self._cases = Calibration(), list[Cases]()
        self._observed_at = 0.0
        self.first_s = self.every_s = min(self._learn_s, LOOK_S)

    def interrupted(self) -> None:
        self._follower = None

    def turn(self) -> None:
        self.look(time.time())

    def look(self, now_s: float) -> Learned | None:
        """Observe, learn and write; return what was written.

        Raises what the wire raises.
        """
        number, snapshot = self._lease.take(), self._snapshot()
        if number is None or snapshot is None or not snapshot.windows_s:
            if number is None:
                self._follower = None
                self._predictor.forget()
                self._chances.forget()
                self._metrics.watched(None)
            return None
        if self._follower is None:
            self._follower = Follower(self._ledger)
        self._follower.poll()
        self._follower.require()
        self._predictor.look(snapshot, self._follower.view, now_s)
        inputs = RankingInputs(snapshot, self._follower.view, self._profile(), now_s)
        if (cases := watch(self._chances, inputs)) is not None:
            self._cases.append(cases)
        if abs(now_s - self._observed_at) < 0.9 * self._learn_s:
            return None
        self._observed_at = now_s
        return self._learn(number, snapshot, self._follower.view, now_s)

    def _learn(self, number: int, snapshot: Snapshot, view: LedgerView, now_s: float) -> Learned | None:
        before = read_learned(self._wire.one("GET", self._key)) or Learned()
        self._metrics.watched(before.chances)
        found = learn(before, snapshot, view, now_s)
        if self._cases:
            found = found or msgspec.structs.replace(before, version=before.version + 1)
            for cases in self._cases:
                found.chances = with_cases(found.chances, cases, now_s)
        if found is None:
            return None
        found.scorer, found.lease = self._scorer, number
        if self._lease.take() != number:  # this process was suspended meanwhile, and another scorer learns
            return None
        self._wire.one("SET", self._key, msgspec.json.encode(found))
        self._cases.clear()
        self._metrics.watched(found.chances)
        log.info("scorer.learned", extra={"values": {"version": found.version, "factors": found.factors}})
        return found
