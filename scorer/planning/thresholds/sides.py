"""The two comparisons of Koordinator's LowNodeLoad: usage of all instances, and of production, with thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scorer.planning.thresholds.anomaly import Detectors
from scorer.planning.thresholds.pool import Pool
from scorer.planning.thresholds.thresholds import Limits, Percents, over, under
from scorer.snapshot.arrays import Floats, Integers


@dataclass
class Memory:
    """The state kept between the rounds."""

    machines: Detectors = field(default_factory=Detectors)
    prod: Detectors = field(default_factory=Detectors)


@dataclass(frozen=True)
class Classes:
    """Positions of machines in the pool, by their part in the round."""

    low: Integers
    high: Integers
    prod_low: Integers
    prod_high: Integers
    both_low: Integers


@dataclass
class Side:
    """One of the two comparisons: all instances, or those of production."""

    name: str
    used: Floats
    limits: Limits
    percents: Percents
    detectors: Detectors


def classify(pool: Pool, node: Side, prod: Side) -> Classes:
    """Return the targets and sources; a machine that is not schedulable is never under."""
    is_under = pool.schedulable & under(node.used, node.limits.low)
    is_over = ~is_under & over(node.used, node.limits.high)
    prod_over = ~is_over & over(prod.used, prod.limits.high)
    prod_under = ~is_over & ~prod_over & pool.schedulable & under(prod.used, prod.limits.low)
    return Classes(
        low=np.flatnonzero(is_under & ~prod_over & ~prod_under),
        high=np.flatnonzero(is_over),
        prod_low=np.flatnonzero(prod_under & ~is_under),
        prod_high=np.flatnonzero(prod_over),
        both_low=np.flatnonzero(prod_under & is_under),
    )


def usage_score(used: Sequence[float], capacity: Sequence[float], weights: Sequence[float]) -> int:
    """Return the sort key of sources: ``sum(min(used, cap) * 1000 // cap * w) // sum(w)``; 0 without weight.

    >>> usage_score([500, 1024], [1000, 2048], [2, 3])
    500
    """
    total = sum(int(w) for w in weights)
    score = sum(
        int(min(u, c)) * 1000 // int(c) * int(w) for u, c, w in zip(used, capacity, weights, strict=True) if c > 0
    )
    return score // total if total else 0


def reason(
    resources: Sequence[str], side: str, used: Floats, capacity: Floats, high: Floats, percents: Percents
) -> str:
    """Return the reason why a machine is a source, as text; its own columns [K]."""
    parts = [
        f"{side} {resources[k]} usage({used[k] / capacity[k] * 100 if capacity[k] else 0:.2f}%)"
        f">threshold({percents[resources[k]]:.2f}%)"
        for k in sorted(np.flatnonzero(used > high).tolist(), key=lambda k: resources[k])
    ]
    return "node is overutilized, " + ", ".join(parts)
