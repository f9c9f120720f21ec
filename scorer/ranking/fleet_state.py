"""The inputs of a decision or a plan: windows and facts, the ledger, the time."""

from __future__ import annotations

from dataclasses import dataclass

from scorer.ledger.view.view import LedgerView
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.tables import Tables
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class FleetState:
    """The fleet at one time: of a file, or the running one (`scorer.live.live_fleet`)."""

    snapshot: Snapshot
    ledger: LedgerView
    now_s: float

    def inputs(self, profile: Profile, tables: Tables | None = None) -> RankingInputs:
        """Return the inputs of a ranking by a profile; ``tables``: those of this ledger, None: new ones."""
        return RankingInputs(self.snapshot, self.ledger, profile, self.now_s, tables or Tables())
