"""Masters: one machine's failure must not take too many masters of one cluster."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ledger.record.limits import Limit, in_role
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Masters(Plugin):
    """Refuse machines that would hold ``share`` or more of the masters that the instance's cluster has in all.

    The request states cluster, role and ``cluster_masters``. The first master on a machine is always allowed.
    """

    name = "masters"
    reason = "too many masters of the cluster"
    looks_at = ("cluster_masters",)

    share: float = 0.5
    role: str = "master"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share: expected a share from 0 to 1, got {self.share}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip an instance that is no master, and a request that does not state the cluster's number of masters."""
        return bool(request.cluster) and request.role == self.role and request.cluster_masters > 0

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        there = machines.tally(frozenset([("cluster", request.cluster), ("role", self.role)]))
        return (there, np.full(there.shape, float(self._most(request))))

    def own(self, request: Request, machines: Machines) -> Sequence[float]:
        return (1.0, 0.0)

    def limit(self, request: Request, machines: Machines) -> Iterator[Limit]:
        yield Limit(in_role(request.cluster, self.role), self._most(request), "too many masters")

    def _most(self, request: Request) -> int:
        """Return the largest whole number below the share of the cluster's masters, at least 1."""
        return max(1, math.ceil(self.share * request.cluster_masters - 1e-9) - 1)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        there = machines.tally(frozenset([("cluster", request.cluster), ("role", self.role)]))
        return {"masters": int(there[position]) + 1, "below": self.share * request.cluster_masters}
