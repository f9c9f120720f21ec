"""The part that the scores of kube-scheduler's NodeResourcesFit share: which amounts count, of which resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from schemas.resources import ALL, OPTIONAL, RESOURCES
from scorer.ranking.formulas.statistics import ResourceName
from scorer.ranking.plugin import Bools, Detail, Floats, Machines, Plugin, Request
from scorer.snapshot.arrays import numbers

INTEGER_UNITS = np.array([[resource.whole_units] for resource in ALL])
"""Millicores, bytes, bytes/s: the units in which the peers count whole numbers."""


@dataclass(frozen=True, kw_only=True)
class Allocation(Plugin):
    """Settings shared by the scores that compare amounts.

    weights:
        by resource; a resource without a weight is not looked at.
    basis:
        ``requests``: the sum of what is requested, as the peer; ``used``: the mean usage with credits, and the
        requested instance's expected usage (the study's way); ``taken``: the larger of both.
    default_cpu, default_memory:
        what an instance without a request counts in cores and bytes (the peer: 0.1 and 200 Mi for each container).
    extended:
        resources that are left out when the requested instance requests none of them.
    rounding:
        the peer's integers: every division truncates.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0})
    basis: Literal["requests", "used", "taken"] = "requests"
    default_cpu: float = 0.0
    default_memory: float = 0.0
    extended: tuple[ResourceName, ...] = OPTIONAL
    rounding: bool = False

    def __post_init__(self) -> None:
        check_weights("weights", self.weights)
        if self.default_cpu < 0 or self.default_memory < 0:
            raise ValueError("default_cpu and default_memory: expected zero or more")

    def before(self, machines: Machines) -> Floats:
        """Return [R, n]: what counts as allocated, without the requested instance; NaN where unknown."""
        if self.basis == "used":
            return machines.mean
        allocated = machines.allocated
        if self.default_cpu or self.default_memory:
            allocated = machines.requested_or(self.default_cpu, self.default_memory)
        return allocated if self.basis == "requests" else np.maximum(allocated, machines.mean)

    def added(self, machines: Machines) -> Floats:
        """Return [R]: what the requested instance adds."""
        if self.basis == "used":
            return machines.expected
        return machines.amounts_or(self.default_cpu, self.default_memory)

    def rows(self, machines: Machines) -> list[int]:
        """Return the rows of the resources that count for the requested instance."""
        return [
            resource
            for resource, name in enumerate(RESOURCES)
            if self.weights.get(name, 0.0) > 0 and (name not in self.extended or machines.amounts[resource] > 0)
        ]

    def after(self, machines: Machines, rows: list[int]) -> tuple[Floats, Floats]:
        """Return [resources, n] each: what is allocated with the requested instance, and what is allocatable."""
        after = self.before(machines)[rows] + self.added(machines)[rows, None]
        return counted(after, machines.allocatable[rows], rows, self.rounding)

    def weighted_mean(self, values: Floats, rows: list[int], counts: Bools, rounding: bool = False) -> Floats:
        """Return [n]: the mean of [resources, n] over those that count on each machine; 0 where none does."""
        weights = np.array([self.weights[RESOURCES[row]] for row in rows])[:, None] * counts
        total = weights.sum(axis=0)
        mean: Floats = (values * weights).sum(axis=0) / np.where(total > 0, total, 1.0)
        return np.floor(mean + 1e-9) if rounding else mean

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the shares with the requested instance."""
        rows = self.rows(machines)
        shares = share_of(*self.after(machines, rows))
        return {"shares": numbers(shares[:, position], tuple(RESOURCES[row] for row in rows))}


def check_weights(name: str, weights: Mapping[str, float]) -> None:
    """Raise ValueError for an unknown resource, a negative weight, or no weight at all."""
    if not any(weight > 0 for weight in weights.values()):
        raise ValueError(f"{name}: expected at least one above 0")
    for resource, weight in weights.items():
        if resource not in RESOURCES:
            raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
        if not 0 <= weight < float("inf"):
            raise ValueError(f"{name}.{resource}: expected a number of zero or more, got {weight}")


def counted(amounts: Floats, limit: Floats, rows: list[int], rounding: bool) -> tuple[Floats, Floats]:
    """Return both [resources, n] as they are compared: with ``rounding`` in whole units."""
    return (whole(amounts, rows), whole(limit, rows)) if rounding else (amounts, limit)


def share_of(amounts: Floats, limit: Floats) -> Floats:
    """Return amounts / limit; NaN where the limit is 0 or unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return amounts / np.where(limit > 0, limit, np.nan)


def percent_left(used: Floats, limit: Floats, rounding: bool) -> Floats:
    """Return what is left of a limit, in per cent of it; 0 beyond it, and where either is unknown."""
    return np.nan_to_num(percent_of(np.where(used <= limit, limit - used, 0.0), limit, rounding))


def whole(values: Floats, rows: list[int]) -> Floats:
    """Return the amounts as whole numbers of the peers' units; NaN stays."""
    found: Floats = np.rint(values * INTEGER_UNITS[rows])
    return found


def percent_of(part: Floats, limit: Floats, rounding: bool) -> Floats:
    """Return 100 * part / limit, truncated for whole numbers; NaN where the limit is 0 or unknown."""
    percent = share_of(part * 100.0, limit)
    if rounding:
        # a quotient just below a whole number is that number: both sides are whole and below 2**53
        near = np.rint(percent)
        percent = np.where(near * limit == part * 100.0, near, np.trunc(percent))
    return percent
