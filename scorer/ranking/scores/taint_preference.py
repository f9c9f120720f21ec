"""Taint preference: prefers machines without taints of effect ``avoid``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ranking.formulas.tolerations import untolerated
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
        """Skip while no machine has such a taint."""
        return any(taint.effect == "avoid" for taints in machines.rules.taint_sets for taint in taints)

    @property
    def inner(self) -> int:
        """Compare with the most such taints among the feasible machines."""
        return SHARE_REVERSED_WHOLE if self.rounding else SHARE_REVERSED

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        """Count the taints that the request does not tolerate."""
        sets = machines.rules.taint_sets
        counts = np.array([len(untolerated(taints, request.tolerations, "avoid")) for taints in sets], np.float64)
        return (counts[machines.rule("taint_codes")],)
