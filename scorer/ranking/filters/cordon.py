"""Cordon: operators take a machine out of placement without touching what runs on it."""

from dataclasses import dataclass

from scorer.ranking.plugin import Machines, Plugin, Request


@dataclass(frozen=True)
class Cordon(Plugin):
    """Refuse machines that an operator cordoned."""

    name = "cordon"
    reason = "cordoned"
    momentary = True

    def wanted(self, request: Request, machines: Machines) -> bool:
        return machines.rules.has_cordon
