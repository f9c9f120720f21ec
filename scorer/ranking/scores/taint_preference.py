"""Taint preference: prefers machines without taints of effect ``avoid``."""

from collections.abc import Sequence
from dataclasses import dataclass

from scorer.ranking.formulas.selectors import left_of
from scorer.ranking.kernel.layout import SHARE_REVERSED, SHARE_REVERSED_WHOLE
from scorer.ranking.plugin import Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class TaintPreference(Plugin):
    """Prefer machines with few taints of effect ``avoid`` that the request does not tolerate.

    kube-scheduler's TaintToleration score: 100 without any, 0 for the most among the feasible machines;
    ``rounding`` truncates as it does.
    """

    name = "taint_preference"

    rounding: bool = False

    def wanted(self, request: Request, machines: Machines) -> bool:
        return "avoid" in machines.rules.taint_effects

    @property
    def inner(self) -> int:
        """Compare with the largest number of such taints among the feasible machines."""
        return SHARE_REVERSED_WHOLE if self.rounding else SHARE_REVERSED

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        return (left_of(machines.rules, request.tolerations, "avoid"),)
