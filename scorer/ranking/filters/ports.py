"""Ports: no two instances of one machine use the same port."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorer.ledger.record.limits import Limit, one_to_a_port
from scorer.ranking.plugin import Bools, Detail, Machines, Plugin, Request


@dataclass(frozen=True)
class Ports(Plugin):
    """Refuse machines where an instance already has one of the requested instance's ports."""

    name = "ports"
    reason = "port taken"
    scope = "instances"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without ports."""
        return bool(request.ports)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        free = np.ones(len(machines), np.bool_)
        for port in request.ports:
            free &= machines.tally(frozenset([("port", port)])) == 0
        return free

    def limit(self, request: Request, machines: Machines) -> list[Limit]:
        """Limit each port to one instance."""
        return one_to_a_port(request.ports)

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the ports that are taken."""
        taken = [port for port in request.ports if machines.tally(frozenset([("port", port)]))[position]]
        return {"ports": list(request.ports), "taken": taken}
