"""Requested to capacity ratio: kube-scheduler's NodeResourcesFit with a configured shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ranking.formulas.allocation import Allocation, percent_of
from scorer.ranking.formulas.rounding import round_half_away
from scorer.ranking.plugin import Floats, Machines, Request


def broken_line(points: Sequence[tuple[float, float]], at: Floats, rounding: bool = False) -> Floats:
    """Return the line through the points at ``at``: constant before the first and after the last.

    With ``rounding`` each value is a whole number, the rise over the point before truncated toward zero.

    >>> broken_line([(0, 10), (100, 3)], np.array([50.0]), rounding=True).tolist()
    [7.0]
    """
    x = np.array([point[0] for point in points], np.float64)
    y = np.array([point[1] for point in points], np.float64)
    if not rounding:
        return np.interp(at, x, y)
    before = np.clip(np.searchsorted(x, at, side="left") - 1, 0, len(x) - 1)
    after = np.minimum(before + 1, len(x) - 1)
    width = np.where(x[after] > x[before], x[after] - x[before], 1.0)
    inside: Floats = y[before] + np.trunc((y[after] - y[before]) * (at - x[before]) / width)
    return np.where(at <= x[0], y[0], np.where(at > x[-1], y[-1], inside))


@dataclass(frozen=True, kw_only=True)
class RequestedToCapacityRatio(Allocation):
    """Score by a shape: points (utilization in percent, score 0-10), straight lines between them.

    Utilization is ``allocated * 100 / allocatable`` with the instance, 100 when over. The total is the weighted mean
    over the resources, rounded half away from zero with ``rounding``. As in the peer, a resource without allocatable
    is left out, and so is one that scores 0: 0 is neutral and lowers no total. Unknown use counts as full.
    Points are given as ``shape``. Other settings: `scorer.ranking.formulas.allocation.Allocation`.

    Reference: kubernetes, pkg/scheduler/framework/plugins/noderesources/requested_to_capacity_ratio.go.
    """

    name = "requested_to_capacity_ratio"
    scope = "machine"

    shape: tuple[tuple[float, float], ...] = ((0.0, 10.0), (100.0, 0.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        utilizations = [point[0] for point in self.shape]
        if not utilizations or utilizations != sorted(set(utilizations)):
            raise ValueError("shape: expected points of rising utilization")
        if utilizations[0] < 0 or utilizations[-1] > 100:
            raise ValueError("shape: expected utilizations from 0 to 100")
        if any(not 0 <= score <= 10 for _, score in self.shape):
            raise ValueError("shape: expected scores from 0 to 10")

    def __call__(self, request: Request, machines: Machines) -> Floats:
        rows = self.rows(machines)
        after, limit = self.after(machines, rows)
        utilization = percent_of(after, limit, self.rounding)
        utilization = np.where(after <= limit, utilization, 100.0)
        utilization = np.nan_to_num(utilization, nan=100.0)
        value = broken_line([(x, 10.0 * y) for x, y in self.shape], utilization, self.rounding)
        mean = self.weighted_mean(value, rows, (value > 0) & (limit > 0))
        return round_half_away(mean) if self.rounding else mean
