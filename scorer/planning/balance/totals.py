"""The fleet before and after a plan, as figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scorer.planning.balance.loads import Loads

Pair = tuple[float, float]


def totals(before: Loads, after: Loads) -> Mapping[str, Pair]:
    """Return, before and after: overload in mean machines, machines above the limit, highest and std of utilization.

    Those of utilization are of the resource with the highest one before.
    """
    worst = int(before.utilization.max(axis=1).argmax()) if before.utilization.size else 0

    def of(loads: Loads) -> tuple[float, float, float, float]:
        if not loads.utilization.size:
            return 0.0, 0.0, 0.0, 0.0
        over = (loads.utilization > loads.limit).any(axis=0).sum()
        highest = float(loads.utilization[worst].max())
        return float(loads.now().sum()), float(over), highest, _std(loads, worst)

    names = ("overload", "machines_over", "highest", "std")
    return dict(zip(names, zip(of(before), of(after), strict=True), strict=True))


def spread(resources: Sequence[str], before: Loads, after: Loads) -> Mapping[str, Pair]:
    """Return by resource the standard deviation of the utilization of machines of known load, before and after."""
    return {name: (_std(before, k), _std(after, k)) for k, name in enumerate(resources)}


def _std(loads: Loads, resource: int) -> float:
    known = loads.inverse[resource] > 0
    return float(np.std(loads.utilization[resource, known])) if known.any() else 0.0
