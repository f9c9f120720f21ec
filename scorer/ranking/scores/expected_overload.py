"""Expected overload: by how much the load above a limit grows, in the mean over what the load may be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from schemas.request import Request
from schemas.resources import RESOURCES
from scorer.ranking.allocation import check_weights
from scorer.ranking.machines import Machines
from scorer.ranking.normal import Singles, expected_excess_of, expected_excess_single, upper_tail_of
from scorer.ranking.rounding import known_or
from scorer.ranking.scope import Parts, Scope
from scorer.snapshot.arrays import Bools, Floats

WITHOUT_DATA = 3.0
"""The growth of a machine without any data: the largest there is."""


@dataclass(frozen=True)
class ExpectedOverload:
    """Prefer the machine where the expected load above a limit grows least: hot machines are avoided, none is refused.

    All as shares of allocatable, for each resource of a machine: u the mean with credits and debits, s its spread with
    ``s^2 = (std_factor * std)^2 + floor^2``, d the expected usage of the requested instance. The load is taken to be
    normal. Its expected part above the limit L is ``E(u, s) = s * (phi(z) - z * Q(z))`` with ``z = (L - u) / s``. The
    instance adds d to the mean and ``(variation * d)^2`` to the variance. The growth is

        E(u + d, sqrt(s^2 + (variation * d)^2)) - E(u, s) + evenness * (2 d (u - mean) + d^2 (1 - 1/n))

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
    variation:
        coefficient of variation of an instance that is not measured yet.
    evenness:
        weight of the growth of the fleet's variance.

    Reference: E[max(0, X - L)] of a normal X, the expected shortfall of the newsvendor problem.
    """

    name: ClassVar[str] = "expected_overload"
    scope: ClassVar[Scope] = "means"

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0, "nic": 1.0})
    limit: float = 0.9
    std_factor: float = 1.0
    floor: float = 0.05
    variation: float = 1.0
    evenness: float = 0.1

    def __post_init__(self) -> None:
        check_weights("weights", self.weights)
        if not 0 < self.limit < math.inf:
            raise ValueError(f"limit: expected more than 0, got {self.limit}")
        if not 0 < self.floor < math.inf:
            raise ValueError(f"floor: expected more than 0, got {self.floor}")
        for name in ("std_factor", "variation", "evenness"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: expected zero or more, got {getattr(self, name)}")

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        asked = self._asked(machines)
        if not asked:
            score = np.full(len(machines), 75.0)
        else:
            score = np.add(self._overload_term(machines, asked), 75.0, dtype=np.float64)
            if self.evenness:
                product, inverse = self._columns(machines)
                count = len(product)
                factors = [0.0] * (3 * count)
                for (place, weight, expected), (mean, share) in zip(asked, self._fleet(machines, asked), strict=True):
                    factor = -25.0 * self.evenness * weight * expected
                    factors[place] = 2.0 * factor
                    factors[count + place] = -2.0 * factor * mean
                    factors[2 * count + place] = factor * expected * (1.0 - share)
                score += np.array(factors[:count]) @ product
                score += np.array(factors[count:]) @ inverse
        if self._may_leave_range(machines, asked):
            np.clip(score, 0.0, 100.0, out=score)
        known = self._known(machines)
        return score if known.all() else np.where(known, score, 75.0 - 25.0 * WITHOUT_DATA)

    def _may_leave_range(self, machines: Machines, asked: Sequence[tuple[int, float, float]]) -> bool:
        """Return whether any growth could leave -1 to 3: no overload grows more than the load and its spread do."""
        if machines.rows is not None:
            return True
        most = 0.0
        for place, weight, expected in asked:
            row = self._rows[place]
            added, busiest = expected * machines.smallest[row], max(machines.busiest[row], 1.0)
            most += weight * added * (1.0 + 0.4 * self.variation + self.evenness * (2.0 * busiest + added))
        return not most <= 1.0

    def parts(self, machines: Machines) -> Parts:
        """Return the score taken apart; the means are the fleet's utilizations of the resources it is expected to use.

        K: those resources.
        """
        asked = self._asked(machines)
        own, none = np.full(len(machines), 75.0), np.zeros((0, len(machines)))
        slopes, steps, means = none, none, np.zeros(0)
        if asked:
            own += self._overload_term(machines, asked)
        if asked and self.evenness:
            places, weights, expected = (np.array(each) for each in zip(*asked, strict=True))
            means, shares = np.array(self._fleet(machines, asked)).T
            factor = -25.0 * self.evenness * weights * expected
            product, powers = self._columns(machines)
            inverse, square = powers[places], powers[len(product) + places]
            own += (2.0 * factor) @ product[places] + (factor * expected * (1.0 - shares)) @ square
            slopes = (2.0 * factor)[:, None] * inverse
            steps = (expected * shares)[:, None] * inverse
        known = self._known(machines)
        if not known.all():
            own, slopes = np.where(known, own, 75.0 - 25.0 * WITHOUT_DATA), np.where(known, slopes, 0.0)
        return Parts(own, slopes, means, steps)

    @cached_property
    def _rows(self) -> list[int]:
        """The resources with a weight."""
        return [RESOURCES.index(name) for name, weight in self.weights.items() if weight > 0]

    @cached_property
    def _shares(self) -> list[float]:
        """The share of each of their weights."""
        weights = [self.weights[RESOURCES[row]] for row in self._rows]
        return [weight / sum(weights) for weight in weights]

    def _asked(self, machines: Machines) -> list[tuple[int, float, float]]:
        """Return which of them the instance is expected to use, with its weight's share and the amount."""
        expected = machines.expected.tolist()
        shares = zip(self._rows, self._shares, strict=True)
        return [(place, share, expected[row]) for place, (row, share) in enumerate(shares) if expected[row] > 0]

    def _overload_term(self, machines: Machines, asked: Sequence[tuple[int, float, float]]) -> Singles:
        """Return [n]: -25 times the weighted growth of the expected overload.

        In single precision: the growth is right to 1e-7 of the capacity, and the load itself is not known so well.
        """
        places = [place for place, _, _ in asked]
        load, before = machines.derived("load", self._load)
        variance, inverse = machines.constant("spread", self._spread)
        if len(places) < len(self._rows):
            of: Any = slice(places[0], places[-1] + 1) if len(places) == places[-1] + 1 - places[0] else places
            load, before, variance, inverse = load[of], before[of], variance[of], inverse[of]
        added = inverse * np.array([[expected] for _, _, expected in asked], np.float32)
        after = added * added
        if self.variation != 1.0:
            after *= self.variation**2
        after += variance
        added += load
        growth = self._overload(added, after)
        growth -= before
        growth *= np.array([[-25.0 * weight] for _, weight, _ in asked], np.float32)
        term: Singles = growth[0]
        for other in growth[1:]:  # not by a product of matrices: a sum must not depend on how many machines there are
            term += other
        return term

    def _overload(self, utilization: Singles, variance: Singles) -> Singles:
        """Return [K, n]: the expected part of the load above the limit; both arguments are used up."""
        spread = np.sqrt(variance, out=variance)
        z = np.subtract(self.limit, utilization, out=utilization)
        z /= spread
        overload = expected_excess_single(z)
        overload *= spread
        return overload

    def _load(self, machines: Machines) -> Singles:
        """Return [2, K, n]: utilization, 0 where unknown, and expected overload, both without the instance."""
        load = known_or(machines.utilization[self._rows], 0.0).astype(np.float32)
        variance: Singles = machines.constant("spread", self._spread)[0]
        return np.array([load, self._overload(load.copy(), variance.copy())])

    def _spread(self, machines: Machines) -> Singles:
        """Return [2, K, n]: variance of the load without the instance, and the inverse of allocatable."""
        found: Singles = np.array([self._variance(machines), self._inverses(machines)], np.float32)
        return found

    def _variance(self, machines: Machines) -> Floats:
        """Return [K, n]."""
        deviation = known_or(machines.deviation[self._rows], 0.0) * self.std_factor
        variance: Floats = deviation * deviation + self.floor**2
        return variance

    def _inverses(self, machines: Machines) -> Floats:
        """Return [K, n]; 0 where allocatable or the usage is unknown: the instance is then of no share there."""
        return known_or(machines.inverse_allocatable[self._rows] + 0.0 * machines.measured_mean[self._rows], 0.0)

    def _columns(self, machines: Machines) -> tuple[Floats, Floats]:
        """Return [K, n] u i, and [2 K, n] i and i^2, with i the inverse of allocatable; 0 where unknown."""

        def powers(m: Machines) -> Floats:
            inverse = self._inverses(m)
            return np.concatenate([inverse, inverse * inverse])

        inverse: Floats = machines.constant("inverse", powers)
        product: Floats = machines.derived(
            "product", lambda m: known_or(m.utilization[self._rows], 0.0) * self._inverses(m)
        )
        return product, inverse

    def _fleet(self, machines: Machines, asked: Sequence[tuple[int, float, float]]) -> list[tuple[float, float]]:
        """Return the fleet's mean utilization, and one over the machines that report it, of each of these resources."""
        means = machines.of_fleet("means", self._means)
        return [means[place] for place, _, _ in asked]

    def _means(self, machines: Machines) -> list[tuple[float, float]]:
        load = machines.utilization[self._rows]
        count = np.maximum(np.isfinite(load).sum(axis=1), 1)
        return list(zip((np.nansum(load, axis=1) / count).tolist(), (1.0 / count).tolist(), strict=True))

    @staticmethod
    def _known(machines: Machines) -> Bools:
        known: Bools = machines.constant("any_data", lambda m: np.isfinite(m.utilization).any(axis=0))
        return known

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show, by resource: the chance of load above the limit with the instance, the overload with and without."""
        usual = machines.plain("utilization", position)
        expected = machines.expected.tolist()
        inverse = self._columns(machines)[1][:, position].tolist()
        variances = machines.constant("variance", self._variance)[:, position].tolist()
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
            after = math.hypot(before, self.variation * added)  # a power would raise where it overflows
            z = (self.limit - load - added) / after
            chance[name] = upper_tail_of(z)
            overload[name] = after * expected_excess_of(z)
            overload_before[name] = before * expected_excess_of((self.limit - load) / before)
        return {
            f"chance_above_{self.limit:.0%}".replace("%", "_percent"): chance,
            "overload": overload,
            "overload_before": overload_before,
        }
