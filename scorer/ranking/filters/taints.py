"""Taints: a machine that operators tainted takes only instances that tolerate the taint."""

from collections.abc import Sequence
from dataclasses import dataclass

from scorer.ranking.formulas.selectors import left_of, untolerated
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Taints(Plugin):
    """Refuse machines with a taint of effect ``refuse`` that the request does not tolerate."""

    name = "taints"
    reason = "tainted"
    looks_at = ("tolerations",)

    def wanted(self, request: Request, machines: Machines) -> bool:
        return "refuse" in machines.rules.taint_effects

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        return (left_of(machines.rules, request.tolerations, "refuse"),)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        taints = machines.rules.taint_sets[int(machines.rule("taint_codes")[position])]
        left = untolerated(taints, request.tolerations, "refuse")
        return {"taints": [f"{taint.key}={taint.value}" if taint.value else taint.key for taint in left]}
