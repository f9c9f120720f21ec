"""What a scorer learns of its fleet, in simulated time: expected use, and the predicted peaks of prod and the system.

Expected use (`scorer.background.learner`) is learned from the reports of instances. Decisions use the result from the
next snapshot on. A world begins without any learned figures. Stated chances of overload are not corrected here: they
change no order of machines.
"""

from schemas.tables.learned import Learned
from scorer.background.learner import WRITE_S
from scorer.classes.class_usage import LastReports, class_usage, prod_and_system, reported_at
from scorer.classes.prediction import Histograms
from scorer.ledger.view.view import LedgerView
from scorer.ranking.estimates.measured_use import learn
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot

LEARN_S = 600.0
"""How often a scorer looks by default (`scorer.settings`)."""


def learns_use(profile: Profile) -> bool:
    """Return whether a load model of the profile uses learned factors."""
    return any(model.learned for model in profile.load_models)


class Learning:
    """Observes and learns; ``learned`` has the result."""

    def __init__(self) -> None:
        self.learned: Learned | None = None
        self._measured_at = float("-inf")

    def look(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> None:
        """Learn from measured instances if the interval has passed."""
        if now_s - self._measured_at >= LEARN_S and snapshot.usages:
            self._measured_at = now_s
            self.learned = learn(self.learned or Learned(), snapshot, ledger, now_s) or self.learned


class PredictedPeaks:
    """Observes the usage by class, as `scorer.background.learner` does. ``raw``: the histograms that all scorers read.

    It observes each snapshot that is made. Reports between two of them that are further apart than a minute are
    observed as their mean.
    """

    def __init__(self) -> None:
        self.raw: bytes | None = None
        self._histograms, self._reports = Histograms(), LastReports()
        self._written_at = float("-inf")

    def look(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> None:
        """Observe the snapshot, and write the peaks if the interval has passed."""
        used = prod_and_system(class_usage(snapshot, ledger, figures=self._reports.latest(snapshot.usages.columns)))
        self._histograms.look(snapshot.names, used, snapshot.capacity, now_s, reported_at(snapshot))
        if now_s - self._written_at >= WRITE_S:
            self._written_at = now_s
            self.raw = self._histograms.peaks()
