"""Memory pressure: a machine about to run out of memory takes no more instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.resources import MEMORY
from scorer.ranking.plugin import Bools, Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class MemoryPressure(Plugin):
    """Refuse machines where less than ``available_min`` of the memory (of the whole capacity) is left.

    What is left is the capacity less the measured mean of the shortest window, so that pressure is seen early. Unlike a
    threshold it counts neither the requested instance nor credits, and its basis is capacity, not allocatable.
    ``best_effort_only`` refuses only requests that ask for nothing, as kube-scheduler does.
    """

    name = "memory_pressure"
    reason = "under memory pressure"
    scope = "machine"
    momentary = True

    available_min: float = 0.05
    best_effort_only: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.available_min <= 1:
            raise ValueError(f"available_min: expected a share from 0 to 1, got {self.available_min}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip when switched off by 0, or for a request that asks for something."""
        if self.best_effort_only and (machines.amounts.any() or request.limits):
            return False
        return self.available_min > 0 and not machines.requests_alone

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]; unknown usage is no pressure (the filter `fresh` refuses machines without data)."""
        allowed: Bools = machines.constant("allowed", lambda m: ~(self._left(m) < self.available_min))
        return allowed

    @staticmethod
    def _left(machines: Machines) -> Floats:
        """Return [n]: the share of the memory that is left, over the shortest window there is."""
        left: Floats = 1.0 - machines.shortest_mean[MEMORY] / machines.capacity[MEMORY]
        return left

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the share left and its limit."""
        left = self._left(machines)[position]
        return {"available": float(left) if np.isfinite(left) else None, "available_min": self.available_min}
