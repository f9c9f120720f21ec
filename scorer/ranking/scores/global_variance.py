"""Global variance: how even the whole fleet's utilization would be after the placement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.formulas.rounding import known_or
from scorer.ranking.formulas.variance import (
    Added,
    ByWeight,
    Mean,
    means_of,
    variance_columns,
    variance_growth,
    variance_parts,
    weighted_variance_growth,
)  # fmt: skip
from scorer.ranking.plugin import Detail, Floats, Machines, Request, Scope
from scorer.ranking.scope import Parts
from scorer.snapshot.arrays import picking


@dataclass(frozen=True)
class GlobalVariance(ByWeight):
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

    name = "global_variance"
    scope = "fleet"

    over: Literal["all", "feasible"] = "all"

    def __call__(self, request: Request, machines: Machines) -> Floats:
        score = weighted_variance_growth(self._columns(machines), self._fleet(machines), self._asked(machines))
        score += 75.0
        if self._may_leave_range(machines):
            np.clip(score, 0.0, 100.0, out=score)
        return score if machines.all_have_load else np.where(machines.has_load, score, 0.0)

    def scope_for(self, request: Request, machines: Machines) -> Scope:
        """Return ``means`` for the variance over all machines, which filters do not change."""
        return "means" if self.over == "all" else "fleet"

    def parts(self, machines: Machines) -> Parts:
        """Return the parts of the score; the means are the fleet's utilizations of the resources expected to be used.

        K: those resources.
        """
        parts = variance_parts(self._columns(machines), self._fleet(machines), self._asked(machines))
        known = machines.has_load
        return parts._replace(own=np.where(known, 75.0 + parts.own, 0.0), slopes=np.where(known, parts.slopes, 0.0))

    def _asked(self, machines: Machines) -> list[Added]:
        """Return the resources with a weight that the instance is expected to use."""
        expected = machines.expected.tolist()
        return [Added(place, factor, expected[row]) for place, row, factor in self._factors if expected[row] > 0]

    def _columns(self, machines: Machines) -> Floats:
        """Return [K, 3, n] of the K resources with a weight; 0 where unknown."""
        rows = picking(self._rows)

        def inverses(m: Machines) -> Floats:
            return known_or(m.inverse_allocatable[rows] + 0.0 * m.utilization[rows], 0.0)

        def columns(m: Machines) -> Floats:
            return variance_columns(known_or(m.utilization[rows], 0.0), m.constant("inverse", inverses))

        found: Floats = machines.derived("columns", columns)
        return found

    def _may_leave_range(self, machines: Machines) -> bool:
        """Return whether any score could leave 0-100, which needs utilizations or shares above 1."""
        if machines.rows is not None:
            return True
        busiest, smallest, expected = machines.busiest, machines.smallest, machines.expected.tolist()
        return not all(busiest[row] <= 1.0 and expected[row] * smallest[row] <= 1.0 for row in self._rows)

    def _fleet(self, machines: Machines) -> list[Mean]:
        """Return the mean utilization of each of the K resources, over the machines whose variance counts."""
        rows = picking(self._rows)
        found: list[Mean]
        if self.over == "all":
            found = machines.of_fleet("means", lambda m: means_of(m.utilization[rows]))
        else:
            feasible = machines.feasible_of_all
            found = machines.once("means", lambda: means_of(machines.whole.utilization[rows][:, feasible]))
        return found

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the change of variance, and the fleet's mean utilization by resource."""
        fleet, total = self._fleet(machines), 0.0
        utilization = machines.plain("utilization", position)
        inverse = machines.plain("inverse_allocatable", position)
        for place, row, factor in self._factors:
            if not math.isnan(utilization[row]):
                added = float(machines.expected[row]) * inverse[row]
                total += factor / -25.0 * variance_growth(utilization[row], added, fleet[place])
        if all(math.isnan(value) for value in utilization):
            total = 3.0
        most = max(1.0 / each.share for each in fleet)
        means = {RESOURCES[row]: each.mean for row, each in zip(self._rows, fleet, strict=True)}
        return {"variance_change": total / most, "fleet_mean": means}
