"""The moves of the last hour, from the ledger: so limits by the hour need no state of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorer.ledger.record.instance import machines_of
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.arrays import Integers
from scorer.snapshot.snapshot import Snapshot

HOUR_S = 3600.0


@dataclass(frozen=True)
class Moved:
    """Moves of the last hour by any program; moves under way count, too."""

    count: int
    given: Integers
    """[M] From each machine."""
    taken: Integers
    """[M] To each machine."""


def moved_lately(snapshot: Snapshot, ledger: LedgerView, placed: PlacedInstances, now_s: float) -> Moved:
    """Return the moves of the last hour; ``placed``: the live instances, ``rows`` being rows of the snapshot.

    An instance that moved left a leaver, which ended in the moment in which the instance started anew.
    """
    machines, index = len(snapshot), snapshot.roster.index
    given, taken = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
    under_way = [one for one in ledger.instances.values() if one.moving is not None]
    for one in under_way:
        for name, counts in zip(machines_of(one), (given, taken), strict=True):
            if name in index:
                counts[index[name]] += 1
    slots, numbers = ledger.leavers.all()
    ended = ledger.leavers.take(slots, numbers).ended_at
    late = (ended > now_s - HOUR_S) & (ended > 0)
    if not late.any():
        return Moved(len(under_way), given, taken)
    slots, numbers, ended = slots[late], numbers[late], ended[late]
    moved = np.isin(ended, placed.started_at)
    place = np.full(len(ledger.numbers), -1, np.int64)
    for name, number in ledger.numbers.items():
        place[number] = index.get(name, -1)
    left = place[numbers[moved]]
    np.add.at(given, left[left >= 0], 1)
    came = placed.rows[np.isin(placed.started_at, ended[moved])]
    np.add.at(taken, came, 1)
    return Moved(len(under_way) + int(moved.sum()), given, taken)
