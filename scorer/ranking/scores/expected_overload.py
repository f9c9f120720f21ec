"""Expected overload: the growth of the load above a limit, in the mean over the distribution of the load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.learned import ChanceBin
from scorer.ranking.formulas.overload import (
    Singles,
    expected_excess_of,
    fixed_spread,
    known_before,
    upper_tail,
    upper_tail_of,
    weighted_growth,
)
from scorer.ranking.formulas.rounding import known_or
from scorer.ranking.formulas.variance import (
    Added,
    ByWeight,
    Mean,
    means_of,
    variance_columns,
    variance_parts,
    weighted_variance_growth,
)
from scorer.ranking.plugin import Detail, Floats, Machines, Request
from scorer.ranking.scope import Parts
from scorer.ranking.true_chance import Stated, corrected
from scorer.snapshot.arrays import picking

FACTOR_MAX = 1e6
"""The largest factor that a setting may be: squares of larger ones are no numbers."""
FLOOR_MIN = 1e-15
"""The smallest floor: the square of a smaller one is 0 in single precision, and a load without spread has no score."""
WITHOUT_DATA = 3.0
"""The growth of a machine without any data: the largest there is."""


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
        what a one-hour mean misses at the least.
    variation, variation_of:
        standard deviation of the usage of an instance that is not measured yet, as a share of its ``expected`` usage
        or of what it ``requests``. A learned factor says little of one instance: an instance that asks for much may
        use much, however little the fleet uses in the mean. Of an explicit ``expected`` it is always the share.
        ``learned``: of what it requests, but where instances like it are measured.
    learned_variation:
        with ``learned``, what the measured deviation is multiplied by.
    evenness:
        weight of the growth of the fleet's variance.

    Reference: E[max(0, X - L)] of a normal X, the expected shortfall of the newsvendor problem.
    """

    name = "expected_overload"
    scope = "means"

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

    def __call__(self, request: Request, machines: Machines) -> Floats:
        asked = self._asked(machines)
        score = self._overload_term(machines, asked) + 75.0
        if self.evenness:
            score += self._even_term(machines, asked)
        if self._may_leave_range(machines, asked):
            np.clip(score, 0.0, 100.0, out=score)
        return score if machines.all_have_load else np.where(machines.has_load, score, 75.0 - 25.0 * WITHOUT_DATA)

    def _may_leave_range(self, machines: Machines, asked: Sequence[Added]) -> bool:
        """Return whether any growth could leave -1 to 3: no overload grows more than the load and its spread do."""
        if machines.rows is not None:
            return True
        most, smallest, busiest = 0.0, machines.smallest, machines.busiest
        if any(math.isnan(busiest[row]) for row in self._rows):
            busiest = machines.busiest_known
        for place, factor, amount, deviation in asked:
            row = self._rows[place]
            added, load = amount * smallest[row], max(busiest[row], 1.0)
            most -= factor * (added * (1.0 + self.evenness * (2.0 * load + added)) + 0.4 * deviation * smallest[row])
        return not most <= 25.0

    def parts(self, machines: Machines) -> Parts:
        """Return the score taken apart; the means are the fleet's utilizations of the resources it is expected to use.

        K: those resources.
        """
        asked = self._asked(machines)
        even = asked if self.evenness else []
        parts = variance_parts(self._even_columns(machines), self._means(machines), even, self.evenness)
        own, known = parts.own + 75.0 + self._overload_term(machines, asked), machines.has_load
        own = np.where(known, own, 75.0 - 25.0 * WITHOUT_DATA)
        return parts._replace(own=own, slopes=np.where(known, parts.slopes, 0.0))

    # ---- what the instance adds

    def _asked(self, machines: Machines) -> list[Added]:
        """Return what the instance adds to the resources with a weight that it is expected to use."""
        expected, deviations = machines.expected.tolist(), self._deviations(machines)
        return [
            Added(place, factor, expected[row], deviations[row])
            for place, row, factor in self._factors
            if expected[row] > 0
        ]

    def _deviations(self, machines: Machines) -> list[float]:
        """Return [R]: the standard deviation of the instance's usage."""
        expected: list[float] = machines.expected.tolist()
        if self.variation_of != "expected":
            said, both = machines.request.expected, zip(RESOURCES, expected, machines.amounts.tolist(), strict=True)
            expected = [each if name in said else max(each, amount) for name, each, amount in both]
        deviations = [self.variation * each for each in expected]
        learned = machines.requested_instance.learned_deviation if self.variation_of == "learned" else None
        if learned is None:
            return deviations
        pairs = zip(learned.tolist(), deviations, strict=True)
        return [self.learned_variation * each if math.isfinite(each) else other for each, other in pairs]

    # ---- -25 times the weighted growth

    def _overload_term(self, machines: Machines, asked: Sequence[Added]) -> Floats:
        """Return [n]: that of the expected overload."""
        if not asked:
            return np.zeros(len(machines))

        found: Singles = machines.recent(("growth", *asked), lambda m: self._growth(m, asked))
        return found.astype(np.float64)

    def _growth(self, machines: Machines, asked: Sequence[Added]) -> Singles:
        """Return [n]: the same, made anew."""
        before, fixed = machines.recent("before", self._before), machines.constant("spread", self._fixed)
        if len(asked) < len(before):
            places = picking([each.place for each in asked])
            before, fixed = before[places], fixed[places]
        return weighted_growth(before, fixed, asked)

    def _even_term(self, machines: Machines, asked: Sequence[Added]) -> Floats:
        """Return [n]: that of the fleet's variance."""
        return weighted_variance_growth(self._even_columns(machines), self._means(machines), asked, self.evenness)

    # ---- what is kept of the machines, for the K resources of `_rows`

    def _even_columns(self, machines: Machines) -> Floats:
        """Return [K, 3, n]: `variance_columns`, 0 where unknown."""
        found: Floats = machines.derived("columns", lambda m: variance_columns(self._load(m), self._inverses(m)))
        return found

    def _means(self, machines: Machines) -> list[Mean]:
        """Return the fleet's mean utilization of each resource."""
        found: list[Mean] = machines.of_fleet("means", lambda m: means_of(m.utilization[picking(self._rows)]))
        return found

    def _load(self, machines: Machines) -> Floats:
        return known_or(machines.utilization[picking(self._rows)], 0.0)

    def _before(self, machines: Machines) -> Singles:
        """Return [K, 2, n]; where the load is unknown the headroom is all of the limit."""
        return known_before(self._load(machines), machines.constant("spread", self._fixed), self.limit)

    def _fixed(self, machines: Machines) -> Singles:
        """Return [K, 3, n]."""
        return fixed_spread(self._variance(machines), self._inverses(machines))

    def _variance(self, machines: Machines) -> Floats:
        """Return [K, n]: the square of the spread of the load."""
        deviation = known_or(machines.deviation[self._rows], 0.0) * self.std_factor
        variance: Floats = deviation * deviation + self.floor**2
        return variance

    def _inverses(self, machines: Machines) -> Floats:
        """Return [K, n]; 0 where allocatable or the usage is unknown: the instance is then of no share there."""

        def inverses(m: Machines) -> Floats:
            return known_or(m.inverse_allocatable[self._rows] + 0.0 * m.measured_mean[self._rows], 0.0)

        found: Floats = machines.constant("inverses", inverses)
        return found

    def _plain(self, machines: Machines) -> tuple[list[float], list[float], list[list[float]], list[list[float]]]:
        """Return as plain numbers what the instance adds [R], its deviations [R], and [n][K] inverses and variances."""
        inverses, variances = self._inverses(machines), machines.constant("variance", self._variance)
        return machines.expected.tolist(), self._deviations(machines), inverses.T.tolist(), variances.T.tolist()

    def stated(self, machines: Machines) -> Stated:
        """Return what it states of all machines without an instance, uncorrected."""
        known, spread = machines.utilization[picking(self._rows)], np.sqrt(self._variance(machines))
        chances = dict(
            zip((RESOURCES[row] for row in self._rows), upper_tail((self.limit - known) / spread), strict=True)
        )
        return Stated(chances, self.limit, self.std_factor, self.floor)

    def _came_true(self, machines: Machines) -> Mapping[str, Sequence[ChanceBin]]:
        """Return by resource what became of chances that were stated like these."""
        seen = machines.requested_instance.chances
        same = seen is not None and (seen.limit, seen.std_factor, seen.floor) == (
            self.limit,
            self.std_factor,
            self.floor,
        )
        return seen.bins if seen is not None and same else {}

    @cached_property
    def _chance_above(self) -> str:
        return f"chance_above_{self.limit:.0%}".replace("%", "_percent")

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show, by resource: the chance of load above the limit with the instance, the overload with and without.

        The chance is corrected by what came true before (`scorer.ranking.true_chance`); the overload is not.
        """
        usual = machines.plain("utilization", position)
        expected, deviations, inverses, all_variances = machines.once("plain", lambda: self._plain(machines))
        inverse, variances = inverses[position], all_variances[position]
        came_true = machines.once("came_true", lambda: self._came_true(machines))
        chance: dict[str, float | None] = {}
        overload: dict[str, float | None] = {}
        overload_before: dict[str, float | None] = {}
        for place, row in enumerate(self._rows):
            name, load = RESOURCES[row], usual[row]
            if not math.isfinite(load):
                chance[name] = overload[name] = overload_before[name] = None
                continue
            added = expected[row] * inverse[place]
            before = math.sqrt(variances[place])
            after = math.hypot(before, deviations[row] * inverse[place])  # a power would raise where it overflows
            z = (self.limit - load - added) / after
            chance[name] = corrected(came_true.get(name, ()), upper_tail_of(z))
            overload[name] = after * expected_excess_of(z)
            overload_before[name] = before * expected_excess_of((self.limit - load) / before)
        return {
            self._chance_above: chance,
            "overload": overload,
            "overload_before": overload_before,
        }
