"""Cordon: operators take a machine out of placement without touching what runs on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schemas.rpc.request import Request
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scope import Scope
from scorer.snapshot.arrays import Bools


@dataclass(frozen=True)
class Cordon:
    """Refuse machines that an operator cordoned."""

    name: ClassVar[str] = "cordon"
    reason: ClassVar[str] = "cordoned"
    scope: ClassVar[Scope] = "machine"
    momentary: ClassVar[bool] = True

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while no machine is cordoned."""
        return machines.rules.has_cordon

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        return ~machines.cordon
