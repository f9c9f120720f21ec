"""Ports: no two instances of one machine use the same port."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ledger.record.limits import Limit, one_to_a_port
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Ports(Plugin):
    """Refuse machines where an instance already has one of the requested instance's ports."""

    name = "ports"
    reason = "port taken"
    looks_at = ("ports",)

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.ports)

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        return (sum((machines.tally(frozenset([("port", port)])) for port in request.ports), np.zeros(len(machines))),)

    def own(self, request: Request, machines: Machines) -> Sequence[float]:
        return (float(len(request.ports)),)

    def limit(self, request: Request, machines: Machines) -> list[Limit]:
        return one_to_a_port(request.ports)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        taken = [port for port in request.ports if machines.tally(frozenset([("port", port)]))[position]]
        return {"ports": list(request.ports), "taken": taken}
