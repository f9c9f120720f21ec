"""Which machines may give and take: thresholds in per cent of allocatable, fixed or around the fleet's mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.resources import RESOURCES
from scorer.snapshot.arrays import Bools, Floats


def over_and_under(
    utilization: Floats, fresh: Bools, high: Mapping[str, float], low: Mapping[str, float], deviation: bool = False
) -> tuple[Bools, Bools]:
    """Return [M] whether each machine is above any of ``high``, and whether at or below all of ``low``.

    ``utilization`` [R, M] as shares; what is not known is neither. Without thresholds every machine with fresh data is
    both. ``deviation``: the per cents are distances from the mean over the machines with fresh data.
    """
    over = np.zeros(len(fresh), np.bool_) if high else np.ones(len(fresh), np.bool_)
    under = np.ones(len(fresh), np.bool_)
    for name, percent in high.items():
        row = utilization[RESOURCES.index(name)]
        over |= row > _limit(row, fresh, percent, deviation)
    for name, percent in low.items():
        row = utilization[RESOURCES.index(name)]
        under &= ~(row > _limit(row, fresh, -percent if deviation else percent, deviation))
    return over & fresh, under & fresh


def ceiling_of(
    rows: Sequence[int], utilization: Floats, fresh: Bools, high: Mapping[str, float], deviation: bool = False
) -> Floats:
    """Return [K] the share that a target stays at or below, of the resources at these rows; infinite without one."""
    found = np.full(len(rows), np.inf)
    for k, row in enumerate(rows):
        if (percent := high.get(RESOURCES[row])) is not None:
            found[k] = _limit(utilization[row], fresh, percent, deviation)
    return found


def _limit(row: Floats, fresh: Bools, percent: float, deviation: bool) -> float:
    known = row[fresh & np.isfinite(row)]
    mean = float(known.mean()) if deviation and known.size else 0.0
    return float(np.clip(mean + percent / 100, 0.0, 1.0)) if deviation else percent / 100
