"""Settings and amounts of the scores of kube-scheduler's NodeResourcesFit, and of those by the fleet's variance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from schemas.resources import ALL, OPTIONAL, RESOURCES
from scorer.ranking.kernel.layout import OF_MEANS, POINTS_MAX, R, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request, ResourceName, by_resource

INTEGER_UNITS = np.array([[resource.whole_units] for resource in ALL])
"""Millicores, bytes, bytes/s: the units in which the peers count whole numbers."""


@dataclass(frozen=True, kw_only=True)
class Allocation(Plugin):
    """Settings shared by the scores that compare amounts.

    weights:
        by resource; a resource without a weight is ignored.
    basis:
        ``requests``: the sum of the requests, as in the peer; ``used``: the mean usage with credits, and the
        requested instance's expected usage (the study's way); ``taken``: the larger of both.
    default_cpu, default_memory:
        the cores and bytes assumed for an instance without a request (the peer: 0.1 and 200 Mi for each container).
    extended:
        resources that are left out when the requested instance requests none of them.
    rounding:
        the peer's integers: every division truncates.
    """

    struct = struct(
        weights=("f8", R), missing=("f8", R), units=("f8", R), extended=("?", R), basis="i4", rounding="i4", form="i4",
        points="i4", utilization=("f8", POINTS_MAX), score=("f8", POINTS_MAX),
    )  # fmt: skip

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

    def added(self, machines: Machines) -> Floats:
        """Return [R]: the amounts that the requested instance adds."""
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

    def derived(self) -> dict[str, Any]:
        return {
            "missing": [self.default_cpu, self.default_memory, *[0.0] * (R - 2)],
            "units": INTEGER_UNITS[:, 0],
            "basis": ("requests", "used", "taken").index(self.basis),
            **dict.fromkeys(("form", "points", "utilization", "score"), 0),
        }

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"shares": by_resource(said, 0, tuple(RESOURCES[row] for row in self.rows(machines)))}


def check_weights(name: str, weights: Mapping[str, float]) -> None:
    """Raise ValueError for an unknown resource, a negative weight, or no weight at all."""
    if not any(weight > 0 for weight in weights.values()):
        raise ValueError(f"{name}: expected at least one above 0")
    for resource, weight in weights.items():
        if resource not in RESOURCES:
            raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
        if not 0 <= weight < float("inf"):
            raise ValueError(f"{name}.{resource}: expected a number of zero or more, got {weight}")


@dataclass(frozen=True)
class ByWeight(Plugin):
    """The base of the scores by the fleet's variance.

    For a resource, u is the utilization of a machine, i the inverse of allocatable, e the instance's expected usage.
    With the instance on the machine, n times the population variance grows by
    ``2 i e (u - mean) + (i e)^2 (1 - 1/n)``.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0, "nic": 1.0})

    def __post_init__(self) -> None:
        check_weights("weights", self.weights)

    @property
    def inner(self) -> int:
        """The values are linear in the fleet's means, and cut to 0-100."""
        return OF_MEANS

    @property
    def factor(self) -> list[float]:
        """[R] -25 times the share of each resource's weight."""
        whole = sum(self.weights.values())
        return [-25.0 * (self.weights.get(name, 0.0) / whole) for name in RESOURCES]
