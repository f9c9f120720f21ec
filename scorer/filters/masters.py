"""Masters: one machine's failure must not take too many masters of one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from schemas.request import Request
from scorer.machines import Machines
from scorer.snapshot import Bools


@dataclass(frozen=True)
class Masters:
    """Refuse machines that would hold ``share`` or more of the masters that the newcomer's cluster has in all.

    The request states cluster, role and ``cluster_masters``. The first master on a machine is always allowed.
    """

    name: ClassVar[str] = "masters"
    reason: ClassVar[str] = "too many masters of the cluster"

    share: float = 0.5
    role: str = "master"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share: expected a share from 0 to 1, got {self.share}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip what is no master, or whose cluster does not say how many it has."""
        return bool(request.cluster) and request.role == self.role and request.cluster_masters > 0

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        there = machines.tally(frozenset([("cluster", request.cluster), ("role", self.role)]))
        allowed: Bools = (there == 0) | (there + 1 < self.share * request.cluster_masters - 1e-9)
        return allowed

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the masters with the newcomer, and what they must stay below."""
        there = machines.tally(frozenset([("cluster", request.cluster), ("role", self.role)]))
        return {"masters": int(there[position]) + 1, "below": self.share * request.cluster_masters}
