"""Most allocated: kube-scheduler's NodeResourcesFit with MostAllocated."""

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
class MostAllocated(Allocation):
    """Prefer machines with little left, so that others empty.

    The score is the weighted mean of ``min(allocated, allocatable) * 100 / allocatable``. ``allocated`` includes the
    instance; over the limit scores 100. A resource without allocatable is left out; one whose use is unknown scores 0.
    Settings: `scorer.ranking.formulas.allocation.Allocation`.

    Reference: kubernetes, pkg/scheduler/framework/plugins/noderesources/most_allocated.go.
    """

    name: ClassVar[str] = "most_allocated"
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
        taken = percent_of(np.minimum(after, limit), limit, self.rounding)
        return self.weighted_mean(np.nan_to_num(taken), rows, limit > 0)
