"""Taints: a machine that operators tainted takes only instances that tolerate the taint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.messages.operator import Taint
from scorer.ranking.formulas.tolerations import untolerated
from scorer.ranking.plugin import Bools, Detail, Machines, Plugin, Request


@dataclass(frozen=True)
class Taints(Plugin):
    """Refuse machines with a taint of effect ``refuse`` that the request does not tolerate."""

    name = "taints"
    reason = "tainted"
    scope = "machine"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while no machine has such a taint."""
        return any(taint.effect == "refuse" for taints in self._sets(machines) for taint in taints)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]; computed once for each distinct set of taints."""
        tolerated = [not untolerated(taints, request.tolerations, "refuse") for taints in self._sets(machines)]
        allowed: Bools = np.array(tolerated, np.bool_)[machines.rule("taint_codes")]
        return allowed

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the taints not tolerated."""
        taints = self._sets(machines)[int(machines.rule("taint_codes")[position])]
        left = untolerated(taints, request.tolerations, "refuse")
        return {"taints": [f"{taint.key}={taint.value}" if taint.value else taint.key for taint in left]}

    @staticmethod
    def _sets(machines: Machines) -> Sequence[Sequence[Taint]]:
        return machines.rules.taint_sets
