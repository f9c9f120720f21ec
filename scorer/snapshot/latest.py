"""The newest snapshot, between the thread that builds snapshots and the one that decides on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scorer.snapshot.snapshot import Snapshot


@dataclass
class Latest:
    """Each field is written by one of the two threads; to assign and to read one is atomic."""

    snapshot: Snapshot | None = None
    """Written by the thread that builds snapshots; None before the first."""
    ledger_machines: Iterable[str] = ()
    """Machines that hold instances, written by the thread that decides: a snapshot has them even without windows."""
