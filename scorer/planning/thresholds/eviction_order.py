"""The order in which instances leave a machine: the cheapest to move first, of equal ones the most useful."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from scorer.snapshot.arrays import Bools, Floats, Integers

CLASS_RANK: Mapping[str, int] = {"free": 1, "batch": 2, "mid": 3, "prod": 4}
"""A lower rank leaves first; an instance of no class leaves last."""
NO_CLASS = 5


@dataclass(frozen=True)
class OrderColumns:
    """[N] each; a lower value leaves first, and each column decides only among equals in those before it."""

    priority_class: Integers
    """By `CLASS_RANK`."""
    priority: Integers
    guarantee: Integers
    """kube-scheduler's quality of service, from 1 (best effort) to 3 (guaranteed)."""
    service: Integers
    """Koordinator's quality of service, from 1 (BE) to 5 (none)."""
    deletion_cost: Integers
    move_cost: Integers
    started_at: Floats
    """Among equals the newest goes first."""

    def take(self, chosen: Integers) -> OrderColumns:
        """Return the columns of some instances."""
        return OrderColumns(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @classmethod
    def plain(cls, count: int) -> OrderColumns:
        """Return the columns of instances that are all alike."""
        whole = np.zeros(count, np.int64)
        return cls(whole, whole, whole, whole, whole, whole, np.zeros(count))


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


def eviction_order(order: OrderColumns, measured: Bools, score: Floats) -> Integers:
    """Return the positions of instances, in the order in which they leave.

    By class, priority, the two qualities of service, cost of deletion, cost of a move; then those with a known usage,
    the most useful first; then the newest.
    """
    return np.lexsort(
        (
            -order.started_at,
            -np.where(measured, score, 0.0),
            ~measured,
            order.move_cost,
            order.deletion_cost,
            order.service,
            order.guarantee,
            order.priority,
            order.priority_class,
        )
    )
