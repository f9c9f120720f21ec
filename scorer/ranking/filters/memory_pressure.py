"""Memory pressure: a machine about to run out of memory takes no more instances."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.values.numbers import finite
from scorer.ranking.kernel.layout import struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class MemoryPressure(Plugin):
    """Refuse machines where less than ``available_min`` of the memory (of the whole capacity) is left.

    The available part is the capacity less the measured mean of the shortest window, so that pressure is seen early.
    Unlike a threshold it counts neither the requested instance nor credits, and its basis is capacity, not allocatable.
    ``best_effort_only`` refuses only requests that ask for nothing, as kube-scheduler does.
    """

    name = "memory_pressure"
    reason = "under memory pressure"
    momentary = True
    struct = struct(available_min="f8")

    available_min: float = 0.05
    best_effort_only: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.available_min <= 1:
            raise ValueError(f"available_min: expected a share from 0 to 1, got {self.available_min}")

    def compares(self) -> Sequence[tuple[str, str]]:
        who = "of a request without amounts: " * self.best_effort_only
        what = f"{who}left (mean of the shortest window) at least {self.available_min:g} of the capacity"
        return [("memory", what)] * (self.available_min > 0)

    def wanted(self, request: Request, machines: Machines) -> bool:
        if self.best_effort_only and (machines.amounts.any() or request.limits):
            return False
        return self.available_min > 0 and not machines.requests_alone

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        """Show the share left and its limit; unknown usage is no pressure (`fresh` refuses machines without data)."""
        return {"available": finite(said[0]), "available_min": self.available_min}
