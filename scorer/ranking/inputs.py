"""The inputs of a ranking other than the request: one type for live queries, files, replays and what-ifs.

A what-if (`scorer.placement.choosing.trial`) has the same value with an overlay: proposed changes of the ledger.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.tables import Tables
from scorer.snapshot.snapshot import Snapshot

quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore")
"""Decorator that silences numpy's warnings: NaN means unknown."""


@dataclass(eq=False)
class RankingInputs:
    snapshot: Snapshot
    ledger: LedgerView
    profile: Profile
    now_s: float
    tables: Tables = field(default_factory=Tables)
    """The rows of the machines, which follow snapshots and ledger; without any they are made for this ranking."""
    overlay: Overlay | None = None
    """Proposed changes of the ledger, which stays as it is; None: there are none."""

    def by(self, profile: Profile) -> "RankingInputs":
        """Return the same inputs for another profile."""
        return replace(self, profile=profile)

    def on(self, overlay: Overlay) -> "RankingInputs":
        """Return the same inputs with proposed changes of their ledger."""
        return replace(self, overlay=overlay)


@dataclass(frozen=True)
class FleetState:
    """The state of a fleet at one time: of a file, or of the running one (`scorer.live.live_fleet`)."""

    snapshot: Snapshot
    ledger: LedgerView
    now_s: float

    def inputs(self, profile: Profile, tables: Tables | None = None) -> RankingInputs:
        """Return the inputs of a ranking by a profile; ``tables``: the existing ones of this ledger, None: new ones."""
        return RankingInputs(self.snapshot, self.ledger, profile, self.now_s, tables or Tables())
