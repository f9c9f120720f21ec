"""Warming: the window that the decision uses is covered well enough."""

from dataclasses import dataclass

from scorer.ranking.kernel.layout import struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Warming(Plugin):
    """Refuse machines whose window is covered by less than ``coverage_min`` of the slots it can fill.

    With 0, the default, warming machines are allowed and the answer warns of them; 0.5 refuses every warming machine.
    """

    name = "warming"
    reason = "warming"
    momentary = True
    struct = struct(coverage_min="f8")

    coverage_min: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.coverage_min <= 1:
            raise ValueError(f"coverage_min: expected a share from 0 to 1, got {self.coverage_min}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        return self.coverage_min > 0 and not machines.requests_alone

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"coverage": float(said[0]), "coverage_min": self.coverage_min}
