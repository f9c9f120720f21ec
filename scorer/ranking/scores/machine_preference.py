"""Machine preference: prefers machines with the labels that the request prefers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ranking.formulas.selectors import select
from scorer.ranking.kernel.layout import SHARE, SHARE_WHOLE
from scorer.ranking.plugin import Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class MachinePreference(Plugin):
    """Prefer machines that the request's ``prefer`` selectors match: the sum of their weights, 100 for the largest.

    kube-scheduler's NodeAffinity score. The largest sum among the feasible machines scores 100;
    ``rounding`` truncates as the peer does.
    """

    name = "machine_preference"
    looks_at = ("prefer",)

    rounding: bool = False

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.prefer)

    @property
    def inner(self) -> int:
        """Compare with the largest sum among the feasible machines."""
        return SHARE_WHOLE if self.rounding else SHARE

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        total = np.zeros(len(machines))
        for number, preference in enumerate(request.prefer):
            total += preference.weight * select(preference.selector, machines, f"prefer[{number}].selector")
        return (total,)
