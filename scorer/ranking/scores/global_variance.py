"""Global variance: how even the whole fleet's utilization would be after the placement."""

from dataclasses import dataclass
from typing import Literal

from schemas.resources import RESOURCES
from scorer.ranking.formulas.allocation import ByWeight
from scorer.ranking.kernel.layout import R, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Request


@dataclass(frozen=True)
class GlobalVariance(ByWeight):
    """Prefer the machine that leaves the population variance of utilization over the fleet smallest.

    Utilization is the mean with credits over allocatable. For each resource and machine, the instance's expected usage
    is added to that machine's usage. The variance over the fleet then follows in closed form. The resources are
    combined by weight. Unequal capacities count as they should: the same instance is a larger share of a smaller
    machine. The score is ``25 * (3 - n * change)``, so 75 leaves the variance as it is. Machines are ordered exactly as
    by the variance. Differences are small on a large fleet, so a profile spreads them over the feasible machines with
    ``normalise = "min-max"``.

    A resource that a machine does not report counts there as no change; a machine without any data scores 0.

    weights:
        by resource.
    over:
        the machines whose variance counts: ``all`` with data, or the ``feasible`` ones.
    """

    name = "global_variance"
    struct = struct(factor=("f8", R))

    over: Literal["all", "feasible"] = "all"

    @property
    def among_feasible(self) -> bool:
        """Whether the means are those of the feasible machines, which are only known after the filters."""
        return self.over == "feasible"

    def far(self, request: Request, machines: Machines) -> bool:
        """Return whether one more instance changes which machines count."""
        return self.over == "feasible"

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        means = {name: float(said[1 + RESOURCES.index(name)]) for name, weight in self.weights.items() if weight > 0}
        return {"variance_change": float(said[0]), "fleet_mean": means}
