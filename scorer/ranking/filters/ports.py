"""Ports: no two instances of one machine use the same port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.limits import Limit, one_to_a_port
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scope import Scope
from scorer.snapshot.arrays import Bools


@dataclass(frozen=True)
class Ports:
    """Refuse machines where an instance already has one of the requested instance's ports."""

    name: ClassVar[str] = "ports"
    reason: ClassVar[str] = "port taken"
    scope: ClassVar[Scope] = "instances"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without ports."""
        return bool(request.ports)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        free = np.ones(len(machines), np.bool_)
        for port in request.ports:
            free &= machines.tally(frozenset([("port", port)])) == 0
        return free

    def limit(self, request: Request, machines: Machines) -> list[Limit]:
        """Limit each port to one instance."""
        return one_to_a_port(request.ports)

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the ports that are taken."""
        taken = [port for port in request.ports if machines.tally(frozenset([("port", port)]))[position]]
        return {"ports": list(request.ports), "taken": taken}
