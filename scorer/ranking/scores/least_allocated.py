"""Least allocated: kube-scheduler's NodeResourcesFit with LeastAllocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from schemas.rpc.request import Request
from scorer.ranking.formulas.allocation import Allocation, percent_of, whole
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scope import Scope
from scorer.snapshot.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class LeastAllocated(Allocation):
    """Prefer machines with much left: the weighted mean of ``(allocatable - allocated) * 100 / allocatable``.

    ``allocated`` includes the instance. A resource over its limit scores 0; one without allocatable is left out; one
    whose use is unknown scores 0. Settings: `scorer.ranking.formulas.allocation.Allocation`.

    Reference: kubernetes, pkg/scheduler/framework/plugins/noderesources/least_allocated.go.
    """

    name: ClassVar[str] = "least_allocated"
    scope: ClassVar[Scope] = "machine"

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        rows = self.rows(machines)
        if not rows:
            return np.zeros(len(machines))
        after = self.before(machines)[rows] + self.added(machines)[rows, None]
        limit = machines.allocatable[rows]
        if self.rounding:
            after, limit = whole(after, rows), whole(limit, rows)
        left = percent_of(np.where(after <= limit, limit - after, 0.0), limit, self.rounding)
        return self.weighted_mean(np.nan_to_num(left), rows, limit > 0)
