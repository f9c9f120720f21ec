"""Taints: a machine that operators tainted takes only instances that tolerate the taint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scorer.ranking.formulas.tolerations import untolerated
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Taints(Plugin):
    """Refuse machines with a taint of effect ``refuse`` that the request does not tolerate."""

    name = "taints"
    reason = "tainted"
    looks_at = ("tolerations",)
    struct = np.dtype(np.uint8)
    fixed = False

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while no machine has such a taint."""
        return any(taint.effect == "refuse" for taints in machines.rules.taint_sets for taint in taints)

    def settings(self, request: Request, machines: Machines) -> NDArray[Any]:
        """Say of each set of taints whether the request does not tolerate it."""
        sets = machines.rules.taint_sets
        return np.array([bool(untolerated(taints, request.tolerations, "refuse")) for taints in sets], np.uint8)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        taints = machines.rules.taint_sets[int(machines.rule("taint_codes")[position])]
        left = untolerated(taints, request.tolerations, "refuse")
        return {"taints": [f"{taint.key}={taint.value}" if taint.value else taint.key for taint in left]}
