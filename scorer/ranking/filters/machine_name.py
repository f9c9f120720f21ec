"""Machine name: the request names the only machine that it accepts, or machines that it excludes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ranking.plugin import Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class MachineName(Plugin):
    """Refuse all machines except the one that the request names, and those that it excludes."""

    name = "machine_name"
    reason = "not the machine asked for"
    reasons = (reason, "excluded by the request")
    looks_at = ("machine", "not_on")

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.machine or request.not_on)

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        """Return 1 where the request excludes the machine, else 0 if it names a machine, and -1 if it names none."""
        rows, index = machines.label("machine").codes, machines.roster.index
        excluded = [row for name in request.not_on if (row := index.get(name)) is not None]
        return (np.where(np.isin(rows, excluded), 1.0, 0.0 if request.machine else -1.0),)
