"""Shared code of the scores by the fleet's variance.

For a resource, u is the utilization of a machine, i the inverse of allocatable, e the instance's expected usage. With
the instance on the machine, n times the population variance grows by ``2 i e (u - mean) + (i e)^2 (1 - 1/n)``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.resources import RESOURCES
from scorer.ranking.formulas.allocation import check_weights
from scorer.ranking.kernel.layout import OF_MEANS
from scorer.ranking.plugin import Plugin


@dataclass(frozen=True)
class ByWeight(Plugin):
    """The base of the scores by the fleet's variance; K is the number of resources with a weight."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0, "nic": 1.0})

    def __post_init__(self) -> None:
        check_weights("weights", self.weights)

    @property
    def inner(self) -> int:
        """The values are linear in the fleet's means, and cut to 0-100."""
        return OF_MEANS

    @property
    def factors(self) -> list[float]:
        """[R] -25 times the share of each resource's weight."""
        whole = sum(self.weights.values())
        return [-25.0 * (self.weights.get(name, 0.0) / whole) for name in RESOURCES]
