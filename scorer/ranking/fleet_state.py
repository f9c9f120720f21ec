"""The inputs of a decision or a plan: windows and facts, the ledger, the time."""

from __future__ import annotations

from dataclasses import dataclass

from scorer.ledger.view.view import LedgerView
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class FleetState:
    """The fleet at one time: of a file, or the running one (`scorer.live.live_fleet`)."""

    snapshot: Snapshot
    ledger: LedgerView
    now_s: float
