"""Which machines may give and take: by thresholds in per cent of allocatable, and by the moves of the last hour.

Thresholds are fixed or around the fleet's mean. The moves are read from the ledger, so limits per hour need no state of
their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import machines_of
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.ranking.profiles.rebalance_section import INSTANCES
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.snapshot import Snapshot

HOUR_S = 3600.0


COMPARED = (*RESOURCES, INSTANCES)


def over_and_under(
    utilization: Floats, fresh: Bools, high: Mapping[str, float], low: Mapping[str, float], deviation: bool = False
) -> tuple[Bools, Bools]:
    """Return [M] whether each machine is above any of ``high``, and whether at or below all of ``low``.

    ``utilization`` [R, M]: shares; an unknown one is neither. Without thresholds every machine with fresh data is both.
    ``deviation``: the per cents are distances from the mean over the machines with fresh data.
    """
    over = np.zeros(len(fresh), np.bool_) if high else np.ones(len(fresh), np.bool_)
    under = np.ones(len(fresh), np.bool_)
    for name, percent in high.items():
        row = utilization[COMPARED.index(name)]
        over |= row > limit_of(row, fresh, percent, deviation)
    for name, percent in low.items():
        row = utilization[COMPARED.index(name)]
        under &= ~(row > limit_of(row, fresh, -percent if deviation else percent, deviation))
    return over & fresh, under & fresh


def ceiling_of(
    rows: Sequence[int], utilization: Floats, fresh: Bools, high: Mapping[str, float], deviation: bool = False
) -> Floats:
    """Return [K] the threshold at or below which a target must stay, for the resources at these rows; or infinity."""
    found = np.full(len(rows), np.inf)
    for k, row in enumerate(rows):
        if (percent := high.get(RESOURCES[row])) is not None:
            found[k] = limit_of(utilization[row], fresh, percent, deviation)
    return found


def limit_of(row: Floats, fresh: Bools, percent: float, deviation: bool) -> float:
    """Return the share that machines are compared with: with ``deviation`` the mean is in it."""
    known = row[fresh & np.isfinite(row)]
    mean = float(known.mean()) if deviation and known.size else 0.0
    return float(np.clip(mean + percent / 100, 0.0, 1.0)) if deviation else percent / 100


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

    A moved instance has left a leaver, whose end is the start of the instance on its new machine.
    """
    machines, index = len(snapshot), snapshot.roster.index
    given, taken = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
    under_way = [one for one in ledger.instances.values() if one.moving is not None]
    for one in under_way:
        for name, counts in zip(machines_of(one), (given, taken), strict=True):
            if name in index:
                counts[index[name]] += 1
    slots, numbers = ledger.leavers.slots.live()
    ended = ledger.leavers.slots.take(slots, numbers).records["ended_at"]
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
