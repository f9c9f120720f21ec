"""The order in which instances leave a machine: the least important class first, then the most useful.

Koordinator has further criteria: priority within a class, two qualities of service, two costs in a pod's annotations.
Instances here have none of these.
"""

from collections.abc import Mapping

import numpy as np

from scorer.snapshot.arrays import Floats, Integers

CLASS_RANK: Mapping[str, int] = {"free": 1, "batch": 2, "mid": 3, "prod": 4}
"""A lower rank leaves first; an instance of no class leaves last."""
NO_CLASS = 5


def usefulness(usage: Floats, excess: Floats, weights: Floats) -> Floats:
    """Return [n]: how well the usage [K, n] of each instance covers the excess [K] of its machine.

    The mean by weight over the resources that are exceeded of f(x), x being usage / excess: x below 1, and 1 + 1/x from
    there on. An instance that just covers the excess is the best, 2; a far larger one is worth little more than 1.
    Weights of resources that are not exceeded do not count; 0 without any weight.

    Reference: Koordinator, ``sorter.ResourceUsageScorerPod``.
    """
    over = np.flatnonzero(excess > 0)
    weights = weights[over]
    if not weights.sum():
        return np.zeros(usage.shape[1])
    ratio = usage[over] / excess[over, None]
    worth = np.where(ratio >= 1, 1 + 1 / np.maximum(ratio, 1), ratio)
    score: Floats = weights @ worth / weights.sum()
    return score


def eviction_order(class_rank: Integers, score: Floats, since: Floats) -> Integers:
    """Return the positions of instances [n] in the order in which they leave.

    By class, then by `usefulness`, then the newest; ``since``: the start of each.
    """
    return np.lexsort((-since, -score, class_rank))
