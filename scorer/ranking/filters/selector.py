"""Selector: the machine's labels match the request's selector."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ranking.formulas.selectors import parse_selector, select
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Selector(Plugin):
    """Refuse machines that the request's label selector does not match: `scorer.ranking.formulas.selectors`."""

    name = "selector"
    reason = "not selected by label"
    looks_at = ("selector",)

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.selector.strip())

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        return (select(request.selector, machines).astype(np.float64),)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        labels = {}
        for requirement in parse_selector(request.selector):
            column = machines.label(requirement.key)
            code = int(column.codes[position])
            labels[requirement.key] = column.values[code] if code >= 0 else None
        return {"selector": request.selector, "labels": labels}
