"""Global variance: how even the whole fleet's utilization would be after the placement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from schemas.request import Request
from schemas.resources import RESOURCES
from scorer.ranking.allocation import check_weights
from scorer.ranking.machines import Machines
from scorer.ranking.rounding import known_or
from scorer.ranking.scope import Parts, Scope
from scorer.snapshot.arrays import Bools, Floats

Number = TypeVar("Number", float, Floats)


def variance_change(utilization: Number, added: Number, mean: float, machines: int) -> Number:
    """Return n times the change of the fleet's population variance when machine i alone gets ``added[i]`` more; [n].

    With x the utilizations and d what is added on machine i, the sum of squares about the mean grows by
    ``2 d (x_i - mean) + d^2 (1 - 1/n)``. So one pass serves all machines.

    >>> variance_change(np.array([0.1, 0.5]), np.array([0.2, 0.2]), 0.3, 2).round(9).tolist()
    [-0.06, 0.1]
    """
    return added * (2.0 * (utilization - mean) + added * (1.0 - 1.0 / machines))


@dataclass(frozen=True)
class GlobalVariance:
    """Prefer the machine that leaves the population variance of utilization over the fleet smallest.

    Utilization is the mean with credits over allocatable. For each resource and machine, the instance's expected usage
    is added to that machine's usage. The variance over the fleet then follows in closed form. The resources are
    combined by weight. Unequal capacities count as they should: the same instance is a larger share of a smaller
    machine. The score is ``25 * (3 - n * change)``, so 75 leaves the variance as it is. The order among machines is
    that of the variance, exactly. Differences are small on a large fleet, so a profile spreads them over the feasible
    machines with ``normalise = "min-max"``.

    A resource that a machine does not report counts there as no change; a machine without any data scores 0.

    weights:
        by resource.
    over:
        the machines whose variance counts: ``all`` with data, or the ``feasible`` ones.
    """

    name: ClassVar[str] = "global_variance"
    scope: ClassVar[Scope] = "fleet"

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0, "nic": 1.0})
    over: Literal["all", "feasible"] = "all"

    def __post_init__(self) -> None:
        check_weights("weights", self.weights)

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        score = self.change(machines)
        score *= -25.0
        score += 75.0
        return np.clip(score, 0.0, 100.0, out=score) if self._may_leave_range(machines) else score

    def change(self, machines: Machines) -> Floats:
        """Return [n]: n times the weighted change of variance; 3, the largest there is, for a machine without data.

        It is `variance_change` multiplied out, so that columns without the request are computed once. With u the
        utilization, i the inverse of allocatable and e the expected usage, each resource adds
        ``2 u i e - 2 mean i e + (i e)^2 (1 - 1/n)``: products of a vector with the columns u i, and i and i^2.
        """
        weights = sum(self.weights.values())
        expected = machines.expected.tolist()
        products, inverses, squares = [], [], []
        for resource, weight, mean, count in self._fleet(machines):
            factor = expected[resource] * weight / weights
            products.append(2.0 * factor)
            inverses.append(-2.0 * mean * factor)
            squares.append(expected[resource] * (1.0 - 1.0 / count) * factor)
        product, inverse = self._columns(machines)
        total: Floats = np.array(products) @ product
        total += np.array(inverses + squares) @ inverse
        known: Bools = machines.constant("any_data", lambda m: np.isfinite(m.utilization).any(axis=0))
        return total if known.all() else np.where(known, total, 3.0)

    def scope_for(self, request: Request, machines: Machines) -> Scope:
        """Return ``means`` for the variance over all machines, which filters do not change."""
        return "means" if self.over == "all" else "fleet"

    def parts(self, machines: Machines) -> Parts:
        """Return the parts of the score; the means are the fleet's utilizations of the resources expected to be used.

        K: those resources.
        """
        weights = sum(self.weights.values())
        products, inverses = self._columns(machines)
        own = np.full(len(machines), 75.0)
        slopes, means, steps = [], [], []
        for place, (resource, weight, mean, count) in enumerate(self._fleet(machines)):
            expected = float(machines.expected[resource])
            if expected > 0:
                factor = -25.0 * expected * weight / weights
                inverse = inverses[place]
                own += factor * (inverse * inverse * (expected * (1.0 - 1.0 / count)) + 2.0 * products[place])
                slopes.append(2.0 * factor * inverse)
                means.append(mean)
                steps.append(expected * inverse / count)
        known: Bools = machines.constant("any_data", lambda m: np.isfinite(m.utilization).any(axis=0))
        own = np.where(known, own, 0.0)
        shape = (len(means), len(machines))
        slopes_ = np.where(known, np.array(slopes).reshape(shape), 0.0)
        return Parts(own, slopes_, np.array(means), np.array(steps).reshape(shape))

    def _columns(self, machines: Machines) -> tuple[Floats, Floats]:
        """Return [K, n] u i, and [2 K, n] i and i^2, of the K resources with a weight; 0 where unknown."""
        rows = [RESOURCES.index(name) for name, weight in self.weights.items() if weight > 0]

        def inverses(m: Machines) -> Floats:
            inverse = known_or(m.inverse_allocatable[rows] + 0.0 * m.utilization[rows], 0.0)
            return np.concatenate([inverse, inverse * inverse])

        inverse: Floats = machines.constant("inverse", inverses)
        product: Floats = machines.derived(
            "product",
            lambda m: known_or(m.utilization[rows], 0.0) * m.constant("inverse", inverses)[: len(rows)],
        )
        return product, inverse

    def _may_leave_range(self, machines: Machines) -> bool:
        """Return whether any score could leave 0-100, which needs utilizations or shares above 1."""
        if machines.rows is not None:
            return True
        busiest, smallest, expected = machines.busiest, machines.smallest, machines.expected.tolist()
        looked_at = [RESOURCES.index(name) for name, weight in self.weights.items() if weight > 0]
        return not all(busiest[row] <= 1.0 and expected[row] * smallest[row] <= 1.0 for row in looked_at)

    def _fleet(self, machines: Machines) -> list[tuple[int, float, float, int]]:
        """Return resource, weight, mean utilization and number of the machines whose variance counts."""
        found: list[tuple[int, float, float, int]]
        if self.over == "feasible":
            feasible = machines.feasible_of_all
            found = machines.once("means", lambda: self._means(machines.whole.utilization[:, feasible]))
        else:
            found = machines.of_fleet("means", lambda m: self._means(m.utilization))
        return found

    def _means(self, utilization: Floats) -> list[tuple[int, float, float, int]]:
        found = []
        totals = utilization.sum(axis=1).tolist()
        for name, weight in self.weights.items():
            resource = RESOURCES.index(name)
            total, count = totals[resource], utilization.shape[1]
            if math.isnan(total):
                count = int(np.count_nonzero(~np.isnan(utilization[resource])))
                total = float(np.nansum(utilization[resource]))
            if weight > 0:
                found.append((resource, weight, total / max(count, 1), max(count, 1)))
        return found

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the change of variance, and the fleet's mean utilization by resource."""
        fleet, weights, total, most = self._fleet(machines), sum(self.weights.values()), 0.0, 1
        utilization = machines.plain("utilization", position)
        inverse = machines.plain("inverse_allocatable", position)
        for resource, weight, mean, count in fleet:
            most = max(most, count)
            if not math.isnan(utilization[resource]):
                added = float(machines.expected[resource]) * inverse[resource]
                total += weight / weights * variance_change(utilization[resource], added, mean, count)
        if all(math.isnan(value) for value in utilization):
            total = 3.0
        return {"variance_change": total / most, "fleet_mean": {RESOURCES[row]: mean for row, _, mean, _ in fleet}}
