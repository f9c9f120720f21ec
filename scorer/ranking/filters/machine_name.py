"""Machine name: the request names the only machine that it accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from schemas.rpc.request import Request
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scope import Scope
from scorer.snapshot.arrays import Bools


@dataclass(frozen=True)
class MachineName:
    """Refuse every machine but the one that the request names."""

    name: ClassVar[str] = "machine_name"
    reason: ClassVar[str] = "not the machine asked for"
    scope: ClassVar[Scope] = "machine"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request that names none."""
        return bool(request.machine)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        row = machines.roster.index.get(request.machine, -1)
        rows = np.arange(len(machines)) if machines.rows is None else machines.rows
        named: Bools = rows == row
        return named
