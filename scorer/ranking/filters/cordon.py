"""Cordon: operators take a machine out of placement without touching what runs on it."""

from __future__ import annotations

from dataclasses import dataclass

from scorer.ranking.plugin import Bools, Machines, Plugin, Request


@dataclass(frozen=True)
class Cordon(Plugin):
    """Refuse machines that an operator cordoned."""

    name = "cordon"
    reason = "cordoned"
    scope = "machine"
    momentary = True

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while no machine is cordoned."""
        return machines.rules.has_cordon

    def __call__(self, request: Request, machines: Machines) -> Bools:
        return ~machines.cordon
