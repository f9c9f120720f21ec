"""Spread: prefers machines without instances of the same group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.rpc.request import Affinity
from scorer.ledger.record.facets import facets
from scorer.ranking.formulas.topology import instances_near
from scorer.ranking.kernel.layout import SHARE_REVERSED
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Spread(Plugin):
    """Prefer machines, or topology values, with few instances of the same group: 100 for none, 0 for the most.

    A machine without the label scores 0, since its topology is unknown.

    by:
        what makes the group: ``cluster`` (with the same role if ``role``), ``kind``, or ``labels`` (all of them).
    topology:
        ``machine``, or a label such as a rack's.
    """

    name = "spread"

    by: Literal["cluster", "kind", "labels"] = "cluster"
    role: bool = False
    topology: str = "machine"

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(self._group(request))

    @property
    def inner(self) -> int:
        """Compare with the largest number of such instances near a feasible machine."""
        return SHARE_REVERSED

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        return (self._near(request, machines),)

    def own(self, request: Request, machines: Machines) -> Sequence[float]:
        return (1.0,)

    def far(self, request: Request, machines: Machines) -> bool:
        """Return whether instances on other machines count."""
        return self.topology != "machine"

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        near = float(self._near(request, machines)[position])
        return {"near": None if np.isnan(near) else int(near)}

    def _near(self, request: Request, machines: Machines) -> Floats:
        near = instances_near(facets(Affinity(self._group(request))), self.topology, machines)
        if self.topology != "machine":
            near[machines.label(self.topology).codes < 0] = np.nan
        return near

    def _group(self, request: Request) -> dict[str, str]:
        if self.by == "labels":
            return request.labels
        if self.by == "kind":
            return {"kind": request.kind} if request.kind else {}
        group = {"cluster": request.cluster} if request.cluster else {}
        return group | ({"role": request.role} if group and self.role and request.role else {})
