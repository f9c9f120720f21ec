"""The inputs of a ranking besides the request: one value for live queries, files, replays and what-ifs.

A what-if (`scorer.placement.choosing.trial`) has the same value with an overlay: proposed changes of the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scorer.ledger.view.overlay import Overlay, Readable
from scorer.ledger.view.view import LedgerView
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot

quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore")
"""Decorates what computes on columns: NaN stands for unknown there, and numpy is not to warn of it."""


@dataclass(eq=False)
class RankingInputs:
    """What a ranking is made from; not changed by it, but for what is stored in ``kept`` for the next one.

    The result of a ranking does not depend on ``kept``. Not frozen: that costs 1 us.
    """

    snapshot: Snapshot
    ledger: LedgerView
    profile: Profile
    now_s: float
    kept: Kept = field(default_factory=Kept)
    overlay: Overlay | None = None
    """Proposed changes of the ledger, which stays as it is; None: there are none."""

    @property
    def seen_ledger(self) -> Readable:
        """The ledger as the ranking sees it: with the overlay, where there is one."""
        return self.ledger if self.overlay is None else self.overlay

    def by(self, profile: Profile) -> RankingInputs:
        """Return the same inputs for another profile."""
        return replace(self, profile=profile)

    def on(self, overlay: Overlay) -> RankingInputs:
        """Return the same inputs with proposed changes of their ledger."""
        return replace(self, overlay=overlay)
