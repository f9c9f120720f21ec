"""How much the expected load above a limit grows, for all machines at once: the costly part of `expected_overload`.

With the headroom ``h = limit - u``, what is added d, and the spread s after it, the overload after it is

    E = s * excess(z),   z = (h - d) / s,   s^2 = variance + e^2

with e the standard deviation of what is added.

In single precision: the growth is exact to 1e-7 of the capacity; the load itself is known less exactly. The spread
is scaled to a unit in which `scaled_excess` takes fewer passes; then ``s * scaled_excess(z)`` is twice the overload.

The headroom and the overload before do not depend on the request and are made once. A request then takes 20 passes
over [K, n], eight of them the logarithm of the excess. A pass over 10,000 numbers takes a microsecond, the root and the
exponential take more than three each. Rejected:

- a polynomial of degree 5 for the logarithm: one pass more, and 60 times the error,
- a shorter fraction: two passes less, about 5 % of the time, and 150 times the error,
- amounts instead of shares: one pass less, but one machine of no size spoils the figures of the others,
- memory that is used again: no gain up to 5,000 machines,
- a table: to read it takes as long as the fraction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scorer.ranking.formulas.normal import EXCESS_SCALE, Singles, scaled_excess
from scorer.ranking.formulas.rounding import known_or
from scorer.ranking.formulas.variance import Mean, means_of, variance_columns
from scorer.ranking.machines.machines import Machines
from scorer.snapshot.arrays import Floats, picking

_UNITS = EXCESS_SCALE**-2
"""Of a variance."""


def fixed_spread(variance: Floats, inverse: Floats) -> Singles:
    """Return [K, 3, n] of [K, n]: variance, spread and inverse of allocatable; no placement changes them."""
    found: Singles = np.empty((len(variance), 3, variance.shape[1]), np.float32)
    np.multiply(_UNITS, variance, out=found[:, 0])
    np.sqrt(found[:, 0], out=found[:, 1])
    found[:, 2] = inverse
    return found


def known_before(utilization: Floats, fixed: Singles, limit: float) -> Singles:
    """Return [K, 2, n], the headroom and twice the overload before; ``fixed`` from `fixed_spread`."""
    found: Singles = np.empty((len(fixed), 2, fixed.shape[2]), np.float32)
    headroom, spread = found[:, 0], fixed[:, 1]
    np.subtract(limit, utilization, out=headroom)
    np.multiply(scaled_excess(headroom / spread), spread, out=found[:, 1])
    return found


def weighted_growth(before: Singles, fixed: Singles, asked: Sequence[tuple[float, float, float]]) -> Singles:
    """Return [n]: the growth of each of K resources times its weight, added up.

    ``before`` is from `known_before`, ``fixed`` from `fixed_spread`; ``asked`` has weight, amount and its standard
    deviation of each. Rows are added one by one: a product of matrices would add differently for other counts.

    >>> fixed = fixed_spread(np.array([[0.01]]), np.array([[0.1]]))
    >>> before = known_before(np.array([[0.9]]), fixed, 0.9)
    >>> weighted_growth(before, fixed, [(1.0, 2.0, 0.0)]).round(4).tolist()  # 0.2 above the limit: two deviations
    [0.16099999845027924]
    """
    headroom, twice_before, variance, inverse = before[:, 0], before[:, 1], fixed[:, 0], fixed[:, 2]
    amounts = np.array([(amount, deviation / EXCESS_SCALE) for _, amount, deviation in asked], np.float32)
    added: Singles = inverse * amounts[:, :1]
    spread: Singles = inverse * amounts[:, 1:]
    spread *= spread
    spread += variance
    np.sqrt(spread, out=spread)
    np.subtract(headroom, added, out=added)
    added /= spread
    growth = scaled_excess(added)
    growth *= spread
    growth -= twice_before
    growth *= np.array([[0.5 * weight] for weight, _, _ in asked], np.float32)
    total: Singles = growth[0]
    for row in growth[1:]:
        total += row
    return total


class OverloadColumns:
    """What is kept of the machines for a score by the growth of the overload, for K resources, by their rows."""

    def __init__(self, rows: Sequence[int], limit: float, std_factor: float, floor: float) -> None:
        self._rows = rows
        self._limit = limit
        self._std_factor = std_factor
        self._floor = floor

    def growth(self, machines: Machines, asked: Sequence[tuple[int, float, float, float]]) -> Singles:
        """Return [n]: `weighted_growth`; ``asked`` has the place among K, weight, amount and its standard deviation."""
        before, fixed = machines.recent("before", self._before), machines.constant("spread", self._fixed)
        if len(asked) < len(before):
            places = picking([each[0] for each in asked])
            before, fixed = before[places], fixed[places]
        return weighted_growth(before, fixed, [each[1:] for each in asked])

    def variance(self, machines: Machines) -> Floats:
        """Return [K, n]: the square of the spread of the load."""
        found: Floats = machines.constant("variance", self._variance)
        return found

    def inverses(self, machines: Machines) -> Floats:
        """Return [K, n]; 0 where allocatable or the usage is unknown: the instance is then of no share there."""
        found: Floats = machines.constant("inverses", self._inverses)
        return found

    def evenness(self, machines: Machines) -> Floats:
        """Return [K, 3, n]: `variance_columns`, 0 where unknown."""
        found: Floats = machines.derived("columns", lambda m: variance_columns(self._load(m), self.inverses(m)))
        return found

    def means(self, machines: Machines) -> list[Mean]:
        """Return the fleet's mean utilization of each of the K resources."""
        found: list[Mean] = machines.of_fleet("means", lambda m: means_of(m.utilization[picking(self._rows)]))
        return found

    def _load(self, machines: Machines) -> Floats:
        return known_or(machines.utilization[picking(self._rows)], 0.0)

    def _before(self, machines: Machines) -> Singles:
        """Return [K, 2, n]; where the load is unknown the headroom is all of the limit."""
        return known_before(self._load(machines), machines.constant("spread", self._fixed), self._limit)

    def _fixed(self, machines: Machines) -> Singles:
        """Return [K, 3, n]."""
        return fixed_spread(self._variance(machines), self.inverses(machines))

    def _variance(self, machines: Machines) -> Floats:
        deviation = known_or(machines.deviation[self._rows], 0.0) * self._std_factor
        variance: Floats = deviation * deviation + self._floor**2
        return variance

    def _inverses(self, machines: Machines) -> Floats:
        return known_or(machines.inverse_allocatable[self._rows] + 0.0 * machines.measured_mean[self._rows], 0.0)
