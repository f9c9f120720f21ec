"""Spread: prefers machines without instances of the same group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.rpc.request import Affinity
from scorer.ranking.formulas.share import share_of_largest
from scorer.ranking.formulas.topology import instances_near
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Spread(Plugin):
    """Prefer machines, or topology values, with few instances of the same group: 100 for none, 0 for the most.

    by:
        what makes the group: ``cluster`` (with the same role if ``role``), ``kind``, or ``labels`` (all of them).
    topology:
        ``machine``, or a label such as a rack's.
    """

    name = "spread"
    scope = "fleet"

    by: Literal["cluster", "kind", "labels"] = "cluster"
    role: bool = False
    topology: str = "machine"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request that belongs to no group."""
        return bool(self._group(request))

    def __call__(self, request: Request, machines: Machines) -> Floats:
        return share_of_largest(self._near(request, machines), machines.feasible, reverse=True)

    def _near(self, request: Request, machines: Machines) -> Floats:
        return instances_near(Affinity(self._group(request), self.topology), machines).astype(np.float64)

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show how many instances of the group are near."""
        return {"near": int(self._near(request, machines)[position])}

    def _group(self, request: Request) -> dict[str, str]:
        if self.by == "labels":
            return request.labels
        if self.by == "kind":
            return {"kind": request.kind} if request.kind else {}
        group = {"cluster": request.cluster} if request.cluster else {}
        return group | ({"role": request.role} if group and self.role and request.role else {})
