"""Expected overload: the growth of the load above a limit, in the mean over the distribution of the load."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.calibration import Stated, calibrated
from scorer.ranking.formulas.allocation import ByWeight
from scorer.ranking.formulas.overload import upper_tail
from scorer.ranking.kernel.layout import R, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Request, by_resource

FACTOR_MAX = 1e6
"""The largest factor that a setting may be: squares of larger ones are no numbers."""
FLOOR_MIN = 1e-15
"""The smallest floor: the square of a smaller one is 0 in single precision, and a load without spread has no score."""


@dataclass(frozen=True)
class ExpectedOverload(ByWeight):
    """Prefer the machine where the expected load above a limit grows least: hot machines are avoided, none is refused.

    All as shares of allocatable, for each resource of a machine: u the mean with credits and debits, s its spread with
    ``s^2 = (std_factor * std)^2 + floor^2``, d the expected usage of the requested instance. The load is taken to be
    normal. Its expected part above the limit L is ``E(u, s) = s * (phi(z) - z * Q(z))`` with ``z = (L - u) / s``. The
    instance adds d to the mean and e^2 to the variance, with e = ``variation * d``. The growth is

        E(u + d, sqrt(s^2 + e^2)) - E(u, s) + evenness * (2 d (u - mean) + d^2 (1 - 1/n))

    where the last part is n times the growth of the fleet's variance: it decides where no machine is near the limit.
    The score is ``25 * (3 - growth)``, the growth being the mean over the resources by weight. A profile spreads it
    over the feasible machines with ``normalise = "min-max"``. A resource that a machine does not report counts as no
    growth; a machine without any data scores 0.

    weights:
        by resource.
    limit:
        share of allocatable above which load counts as overload.
    std_factor, floor:
        the calibrated spread: of the load in the next minutes, from the std inside the window. 0.05 of the capacity is
        the least error of a one-hour mean.
    variation, variation_of:
        standard deviation of the usage of an instance that is not measured yet, as a share of its ``expected`` usage
        or of what it ``requests``. A learned factor predicts one instance badly: an instance that asks for much may
        use much, however little the fleet uses in the mean. For an explicit ``expected`` it is always the share.
        ``learned``: of what it requests, but where instances like it are measured.
    learned_variation:
        with ``learned``, the factor of the measured deviation.
    evenness:
        weight of the growth of the fleet's variance.

    Reference: E[max(0, X - L)] of a normal X, the expected shortfall of the newsvendor problem.
    """

    name = "expected_overload"
    struct = struct(
        factor=("f8", R), limit="f8", std_factor="f8", floor="f8", evenness="f8", variation="f8",
        learned_variation="f8", of_requests="i4", learned="i4",
    )  # fmt: skip

    limit: float = 0.9
    std_factor: float = 1.0
    floor: float = 0.05
    variation: float = 1.0
    variation_of: Literal["expected", "requests", "learned"] = "expected"
    learned_variation: float = 1.0
    evenness: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.limit <= FACTOR_MAX:
            raise ValueError(f"limit: expected more than 0 and at most {FACTOR_MAX:g}, got {self.limit}")
        if not FLOOR_MIN <= self.floor <= FACTOR_MAX:
            raise ValueError(f"floor: expected from {FLOOR_MIN:g} to {FACTOR_MAX:g}, got {self.floor}")
        for name in ("std_factor", "variation", "learned_variation", "evenness"):
            if not 0 <= getattr(self, name) <= FACTOR_MAX:
                raise ValueError(f"{name}: expected from 0 to {FACTOR_MAX:g}, got {getattr(self, name)}")
        if self.variation_of not in ("expected", "requests", "learned"):
            raise ValueError(f"variation_of: expected 'expected', 'requests' or 'learned', got {self.variation_of!r}")

    def derived(self) -> dict[str, Any]:
        return {"of_requests": self.variation_of != "expected", "learned": self.variation_of == "learned"}

    def stated(self, machines: Machines) -> Stated:
        """Return the stated chances for all machines without a new instance, uncorrected."""
        chances = {}
        for row, name in enumerate(RESOURCES):
            if self.weights.get(name, 0.0) > 0:
                own = np.nan_to_num(machines.deviation[row]) * self.std_factor
                spread = np.sqrt(own * own + self.floor**2)
                chances[name] = upper_tail((self.limit - machines.utilization[row]) / spread)
        return Stated(chances, self.limit, self.std_factor, self.floor)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        """Show, by resource: the chance of load above the limit with the instance, the overload with and without.

        The chance is corrected by the frequency observed before (`scorer.ranking.calibration`); the overload is not.
        """
        weighted = [name for name in self.weights if self.weights[name] > 0]
        seen, own = machines.estimate.chances, (self.limit, self.std_factor, self.floor)
        came_true = seen.bins if seen and (seen.limit, seen.std_factor, seen.floor) == own else {}
        chances = {
            name: None if chance is None else calibrated(came_true.get(name, ()), chance)
            for name, chance in by_resource(said, 0, weighted).items()
        }
        return {
            f"chance_above_{self.limit:.0%}".replace("%", "_percent"): chances,
            "overload": by_resource(said, 1, weighted),
            "overload_before": by_resource(said, 2, weighted),
        }
