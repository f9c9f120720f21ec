"""Machine name: the request names the only machine that it accepts."""

from __future__ import annotations

from dataclasses import dataclass

from scorer.ranking.plugin import Machines, Plugin, Request


@dataclass(frozen=True)
class MachineName(Plugin):
    """Refuse every machine but the one that the request names."""

    name = "machine_name"
    reason = "not the machine asked for"
    looks_at = ("machine",)

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request that names none."""
        return bool(request.machine)
