"""Global variance: how even the whole fleet's utilization would be after the placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from schemas.request import Request
from schemas.resources import RESOURCES
from scorer.machines import Machines
from scorer.scores.allocation import check_weights
from scorer.snapshot import Bools, Floats


def variance_change(utilization: Floats, added: Floats, mean: float, machines: int) -> Floats:
    """Return [n]: n times the change of the fleet's population variance when machine i alone gets ``added[i]`` more.

    With x the utilizations and d what is added on machine i, the sum of squares about the mean grows by
    ``2 d (x_i - mean) + d^2 (1 - 1/n)``: one pass for all machines, where asking each in turn is n passes.

    >>> variance_change(np.array([0.1, 0.5]), np.array([0.2, 0.2]), 0.3, 2).round(9).tolist()
    [-0.06, 0.1]
    """
    return added * (2.0 * (utilization - mean) + added * (1.0 - 1.0 / machines))


@dataclass(frozen=True)
class GlobalVariance:
    """Prefer the machine that leaves the population variance of utilization over the fleet smallest.

    For each resource the utilization (mean with credits over allocatable) of every machine is taken, the newcomer's
    expected usage put on one machine at a time, and the variance over the fleet computed, in closed form; the
    resources are combined by weight. Unequal capacities count as they should: the same newcomer is a larger share of
    a smaller machine. The score is ``25 * (3 - n * change)``, so 75 leaves the variance as it is; the order among
    machines is that of the variance, exactly. Differences are small on a large fleet, so a profile spreads them over
    the feasible machines with ``normalise = "min-max"``.

    A resource that a machine does not report counts there as no change; a machine without any data scores 0.

    weights:
        by resource.
    over:
        the fleet whose variance is meant: ``all`` machines with data, or the ``feasible`` ones.
    """

    name: ClassVar[str] = "global_variance"
    whole_fleet: ClassVar[bool] = True

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0, "nic": 1.0})
    over: Literal["all", "feasible"] = "all"

    def __post_init__(self) -> None:
        check_weights("weights", self.weights)

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        score = 75.0 - 25.0 * self.change(machines)
        return np.clip(score, 0.0, 100.0)

    def change(self, machines: Machines) -> Floats:
        """Return [n]: n times the weighted change of variance; 3, the largest there is, for a machine without data."""
        total: Floats | None = None
        known: Bools | None = None
        for resource, weight, mean, count in self._fleet(machines):
            utilization = machines.utilization[resource]
            added = machines.expected[resource] * machines.inverse_allocatable[resource]
            part = variance_change(utilization, added, mean, count)
            if weight != 1:
                part = weight * part
            if np.isnan(part.sum()):
                here = ~np.isnan(part)
                known = here if known is None else known | here
                part = np.where(here, part, 0.0)
            else:
                known = np.ones(part.shape, np.bool_)
            total = part if total is None else total + part
        if total is None or known is None:
            return np.full(len(machines), 3.0)
        total = total / sum(self.weights.values())
        return total if known.all() else np.where(known, total, 3.0)

    def _fleet(self, machines: Machines) -> list[tuple[int, float, float, int]]:
        """Return resource, weight, mean utilization and number of machines, of the fleet whose variance is meant."""
        fleet = machines.fleet
        if self.over == "feasible":
            utilization = fleet.utilization
            mask = machines.feasible if machines.rows is None else None
            return self._means(utilization if mask is None else utilization[:, mask])
        found: list[tuple[int, float, float, int]] | None = fleet.kept.get(("global_variance", *self.weights.items()))
        if found is None:
            found = fleet.kept[("global_variance", *self.weights.items())] = self._means(fleet.utilization)
        return found

    def _means(self, utilization: Floats) -> list[tuple[int, float, float, int]]:
        found = []
        for name, weight in self.weights.items():
            resource = RESOURCES.index(name)
            values = utilization[resource]
            count = int(np.count_nonzero(~np.isnan(values)))
            if weight > 0 and count:
                found.append((resource, weight, float(np.nansum(values)) / count, count))
        return found

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the change of variance, and the fleet's mean utilization by resource."""
        fleet = self._fleet(machines)
        return {
            "variance_change": float(self.change(machines)[position]) / max((count for *_, count in fleet), default=1),
            "fleet_mean": {RESOURCES[resource]: mean for resource, _, mean, _ in fleet},
        }
