"""Requested to capacity ratio: kube-scheduler's NodeResourcesFit with a configured shape."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from scorer.ranking.formulas.allocation import Allocation
from scorer.ranking.kernel.layout import POINTS_MAX


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

    shape: tuple[tuple[float, float], ...] = ((0.0, 10.0), (100.0, 0.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        utilizations = [point[0] for point in self.shape]
        if len(utilizations) > POINTS_MAX:
            raise ValueError(f"shape: expected at most {POINTS_MAX} points, got {len(utilizations)}")
        if not utilizations or utilizations != sorted(set(utilizations)):
            raise ValueError("shape: expected points of rising utilization")
        if utilizations[0] < 0 or utilizations[-1] > 100:
            raise ValueError("shape: expected utilizations from 0 to 100")
        if any(not 0 <= score <= 10 for _, score in self.shape):
            raise ValueError("shape: expected scores from 0 to 10")

    def derived(self) -> dict[str, Any]:
        points = np.zeros((2, POINTS_MAX))
        points[:, : len(self.shape)] = np.transpose(self.shape)
        utilization, score = points
        return super().derived() | {"points": len(self.shape), "utilization": utilization, "score": 10.0 * score}
