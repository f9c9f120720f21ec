"""Machine name: the request names the only machine that it accepts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorer.ranking.plugin import Bools, Machines, Plugin, Request


@dataclass(frozen=True)
class MachineName(Plugin):
    """Refuse every machine but the one that the request names."""

    name = "machine_name"
    reason = "not the machine asked for"
    scope = "machine"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request that names none."""
        return bool(request.machine)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        row = machines.roster.index.get(request.machine, -1)
        rows = np.arange(len(machines)) if machines.rows is None else machines.rows
        named: Bools = rows == row
        return named
