"""Selector: the machine's labels match the request's selector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from schemas.rpc.request import Request
from scorer.ranking.formulas.selectors import parse_selector, select
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scope import Scope
from scorer.snapshot.arrays import Bools


@dataclass(frozen=True)
class Selector:
    """Refuse machines that the request's label selector does not match: `scorer.ranking.formulas.selectors`."""

    name: ClassVar[str] = "selector"
    reason: ClassVar[str] = "not selected by label"
    scope: ClassVar[Scope] = "machine"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without a selector."""
        return bool(request.selector.strip())

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        return select(request.selector, machines)

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the labels that the selector asks for."""
        labels = {}
        for requirement in parse_selector(request.selector):
            column = machines.label(requirement.key)
            code = int(column.codes[position])
            labels[requirement.key] = column.values[code] if code >= 0 else None
        return {"selector": request.selector, "labels": labels}
