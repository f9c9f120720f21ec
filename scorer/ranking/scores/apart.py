"""Apart: keeps the instances of one cluster on different machines while others fit."""

from collections.abc import Sequence
from dataclasses import dataclass

from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Apart(Plugin):
    """Prefer machines with few instances of the requested one's cluster: ``100 / (1 + n)`` with n of them.

    The first one on a machine costs most, so a large weight keeps a cluster apart while other machines fit. A cluster
    of more instances than machines fills them evenly, and load decides between machines with as many. Unlike ``spread``
    it depends on no other machine. So one more instance of a cluster changes the score of one machine alone.
    """

    name = "apart"

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.cluster)

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        return (machines.tally(frozenset([("cluster", request.cluster)])),)

    def own(self, request: Request, machines: Machines) -> Sequence[float]:
        return (1.0,)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"of_the_cluster": int(machines.tally(frozenset([("cluster", request.cluster)]))[position])}
