"""Taint preference: prefers machines without taints of effect ``avoid``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorer.ranking.formulas.share import share_of_largest
from scorer.ranking.formulas.tolerations import untolerated
from scorer.ranking.plugin import Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class TaintPreference(Plugin):
    """Prefer machines with few taints of effect ``avoid`` that the request does not tolerate.

    kube-scheduler's TaintToleration score: 100 without any, 0 for the most among the feasible machines;
    ``rounding`` truncates as it does.
    """

    name = "taint_preference"
    scope = "fleet"

    rounding: bool = False

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while no machine has such a taint."""
        return any(taint.effect == "avoid" for taints in machines.rules.taint_sets for taint in taints)

    def __call__(self, request: Request, machines: Machines) -> Floats:
        sets = machines.rules.taint_sets
        counts = np.array([len(untolerated(taints, request.tolerations, "avoid")) for taints in sets], np.float64)
        return share_of_largest(counts[machines.rule("taint_codes")], machines.feasible, self.rounding, reverse=True)
