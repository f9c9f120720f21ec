"""Selector: the machine's labels match the request's selector."""

from __future__ import annotations

from dataclasses import dataclass

from scorer.ranking.formulas.selectors import parse_selector, select
from scorer.ranking.plugin import Bools, Detail, Machines, Plugin, Request


@dataclass(frozen=True)
class Selector(Plugin):
    """Refuse machines that the request's label selector does not match: `scorer.ranking.formulas.selectors`."""

    name = "selector"
    reason = "not selected by label"
    scope = "machine"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without a selector."""
        return bool(request.selector.strip())

    def __call__(self, request: Request, machines: Machines) -> Bools:
        return select(request.selector, machines)

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the labels that the selector asks for."""
        labels = {}
        for requirement in parse_selector(request.selector):
            column = machines.label(requirement.key)
            code = int(column.codes[position])
            labels[requirement.key] = column.values[code] if code >= 0 else None
        return {"selector": request.selector, "labels": labels}
