"""Fits: the request is no more than what is left of allocatable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from schemas.request import Request
from schemas.resources import CPU, MEMORY, RESOURCES
from scorer.machines import ROUNDING, Machines, numbers
from scorer.snapshot import Bools, Floats


@dataclass(frozen=True)
class Fits:
    """Refuse machines where ``taken + request > allocatable`` in any resource that is requested.

    basis:
        ``taken`` is the larger of what is promised and what is used with credits; ``requests``: only what is promised,
        as kube-scheduler does it (NodeResourcesFit).
    default_cpu, default_memory:
        what an instance without an amount counts in cores and bytes, the newcomer and those placed (kube-scheduler
        scores with 0.1 and 200 Mi, and filters with 0).

    A requested resource whose capacity nobody knows does not fit; nor does one, by ``taken``, whose use nobody knows.
    """

    name: ClassVar[str] = "fits"
    reason: ClassVar[str] = "too small"

    basis: Literal["taken", "requests"] = "taken"
    default_cpu: float = 0.0
    default_memory: float = 0.0

    def __post_init__(self) -> None:
        if self.default_cpu < 0 or self.default_memory < 0:
            raise ValueError("default_cpu and default_memory: expected zero or more")

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request that asks for nothing."""
        return bool(self._amounts(machines).any())

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        amounts = self._amounts(machines)
        return machines.below(self._left(machines), amounts, [r for r, amount in enumerate(amounts) if amount > 0])

    def reasons(self, request: Request, machines: Machines) -> Mapping[str, Bools]:
        """Name the resource that is short."""
        found: dict[str, Bools] = {}
        amounts = self._amounts(machines)
        for resource in np.flatnonzero(amounts):
            limit = machines.allocatable[resource]
            found[f"{RESOURCES[resource]} capacity unknown"] = np.isnan(limit)
            found[f"{RESOURCES[resource]} usage unknown"] = np.isnan(self._taken(machines)[resource])
            found[f"{RESOURCES[resource]} larger than the machine"] = amounts[resource] > limit * (1 + ROUNDING)
            found[f"{RESOURCES[resource]} too full"] = ~(self._left(machines)[resource] >= amounts[resource])
        return found

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show both sides of the comparison."""
        return {
            "request": numbers(self._amounts(machines)),
            "taken": numbers(self._taken(machines)[:, position]),
            "promised": numbers(machines.requested[:, position]),
            "allocatable": numbers(machines.allocatable[:, position]),
        }

    def _amounts(self, machines: Machines) -> Floats:
        amounts = machines.amounts
        if self.default_cpu or self.default_memory:
            amounts = amounts.copy()
            amounts[CPU] = amounts[CPU] or self.default_cpu
            amounts[MEMORY] = amounts[MEMORY] or self.default_memory
        return amounts

    def _taken(self, machines: Machines) -> Floats:
        if not (self.default_cpu or self.default_memory):
            return machines.taken if self.basis == "taken" else machines.requested
        requested = machines.requested_or(self.default_cpu, self.default_memory)
        return np.maximum(requested, machines.mean) if self.basis == "taken" else requested

    def _left(self, machines: Machines) -> Floats:
        """Return [R, n]: allocatable less what is taken."""
        key = ("fits", self.basis, self.default_cpu, self.default_memory)
        left: Floats = machines.derived(key, lambda m: m.allocatable * (1 + ROUNDING) - self._taken(m))
        return left
