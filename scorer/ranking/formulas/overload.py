"""How much the expected load above a limit grows, for all machines at once, the load being normal; without scipy.

``phi`` is the density of the standard normal distribution, Q its upper tail. The expected excess over z is ``phi(z) -
z Q(z)``. With the headroom ``h = limit - u``, what is added d, and the spread s after it, the overload after it is

    E = s * excess(z),   z = (h - d) / s,   s^2 = variance + e^2

with e the standard deviation of what is added.

**Tails.** ``1 - z Q(z) / phi(z)`` is smooth and falls slowly, so one quotient of polynomials approximates it from 0 to
infinity, and nothing is a difference of nearly equal numbers. ``phi(z) - z Q(z)`` itself is lost beyond 5 deviations.
The coefficients were fitted over 0 to 10,000 for the least relative error, 1.6e-6.

**All machines** are computed in single precision. The growth is exact to 1e-7 of the capacity; the load itself is
known less exactly. The spread is scaled to a unit in which `scaled_excess` takes fewer passes; then ``s *
scaled_excess(z)`` is twice the overload. The headroom and the overload before do not depend on the request and are made
once. A request then takes 20 passes over [K, n], eight of them the logarithm of the excess. A pass over 10,000 numbers
takes a microsecond, the root and the exponential take more than three each. Rejected:

- a polynomial of degree 5 for the logarithm: one pass more, and 60 times the error,
- a shorter fraction: two passes less, about 5 % of the time, and 150 times the error,
- amounts instead of shares: one pass less, but one machine of no size spoils the figures of the others,
- memory that is used again: no gain up to 5,000 machines,
- a table: to read it takes as long as the fraction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from scorer.ranking.formulas.variance import Added
from scorer.snapshot.arrays import Floats

Singles = NDArray[np.float32]
_EXCESS = (
    (1.0000015594203706, 0.6303405334600394, 0.1880216679572804, 0.0272997369121808),
    (1.0, 1.8837377780320343, 1.5482309056380268, 0.7130407960201296, 0.1880065221423089, 0.02729978202845611),
)
"""Numerator and denominator of the excess as a part of the density, the lowest power first."""
_FARTHEST = 1e4
"""Larger arguments are cut to this: the excess is 0 there."""
_PEAK = 0.3989422804014327
"""The density at 0: 1 / sqrt(2 pi)."""
_ROOT_HALF = math.sqrt(0.5)
_LOGARITHM = (
    -0.9189385148614617, 0.4840331375308859, 1.0295402451746505, 51.8339105007946, 8.742905762577873, 33.23167856394451,
)  # fmt: skip
"""Of the logarithm of the excess: ``c0 - c1 z (z + c2 + c3 / (z^2 + c4 z + c5))``; it falls from 0 to infinity.

Fitted over 0 to 7 for the least error of the excess, 8e-9. At 6 deviations it is right to a hundredth, at 9 to a tenth.
"""
EXCESS_SCALE = math.sqrt(_LOGARITHM[1])
"""What deviations are multiplied by for `scaled_excess`."""
_UNITS = EXCESS_SCALE**-2
"""Of a variance."""
_AT_0, _ADDED, _NUMERATOR, _LINEAR, _CONSTANT = (
    np.array(coefficient, np.float32)
    for coefficient in (
        _LOGARITHM[0] + math.log(2.0 * EXCESS_SCALE),
        *(_LOGARITHM[place] * EXCESS_SCALE**power for place, power in ((2, 1), (3, 3), (4, 1), (5, 2))),
    )
)
"""The same for scaled deviations. Arrays without an axis: a plain number takes a tenth longer."""


def upper_tail_of(z: float) -> float:
    """Return the probability of more than z deviations above the mean, of one number.

    >>> f"{upper_tail_of(10.0):.5g}"
    '7.6199e-24'
    """
    return 0.5 * math.erfc(z * _ROOT_HALF)


def upper_tail(z: Floats) -> Floats:
    """Return [...] the same of many, read from a table: right to 4e-6; NaN where z is.

    >>> upper_tail(np.array([-np.inf, 0.0, np.inf])).tolist()
    [1.0, 0.5, 0.0]
    """
    found: Floats = np.interp(z, *_tails(), left=1.0, right=0.0)
    return found


@cache
def _tails() -> tuple[Floats, Floats]:
    at = np.linspace(-8.0, 8.0, 2_001)
    return at, np.array([upper_tail_of(each) for each in at.tolist()])


def expected_excess_of(z: float) -> float:
    """Return ``phi(z) - z Q(z)`` of one number. The difference is exact enough here, since the tail is.

    >>> f"{expected_excess_of(0.0):.6f}", f"{expected_excess_of(10.0):.4g}"
    ('0.398942', '7.475e-25')
    """
    return max(_PEAK * math.exp(-0.5 * z * z) - z * upper_tail_of(z), 0.0)


def expected_excess(z: Floats) -> Floats:
    """Return [...] ``E[max(0, X - z)] = phi(z) - z Q(z)`` of a standard normal X; NaN where z is.

    >>> [f"{excess:.5g}" for excess in expected_excess(np.array([-3.0, 0.0, 3.0, 20.0]))]
    ['3.0004', '0.39894', '0.00038215', '1.37e-90']
    """
    far = np.minimum(np.abs(z), _FARTHEST)
    excess = _polynomial(_EXCESS[0], far)
    excess /= _polynomial(_EXCESS[1], far)
    excess *= _PEAK * np.exp(-0.5 * far * far)
    excess -= np.minimum(z, 0.0)
    return excess


def _polynomial(coefficients: Sequence[float], z: Floats) -> Floats:
    """Return the polynomial by Horner's rule, in place."""
    *rest, before, last = coefficients
    value = z * last
    value += before
    for coefficient in reversed(rest):
        value *= z
        value += coefficient
    return value


def scaled_excess(x: Singles) -> Singles:
    """Return [...] ``2 k E[max(0, X - x / k)]`` with k of `EXCESS_SCALE`, in single precision; right to 1e-7 of 2 k.

    By its logarithm, which a short fraction follows closely: a sixth of the time. For scores, that ask for thousands.
    So scaled the square in the logarithm has the factor -1, and ``|x| - x``, twice what lies below 0, needs no half:
    two passes less. A minimum with a plain number would take three times as long.

    >>> x = np.array([-3.0, 0.0, 3.0], np.float32) * EXCESS_SCALE
    >>> [f"{excess / (2 * EXCESS_SCALE):.4f}" for excess in scaled_excess(x)]
    ['3.0004', '0.3989', '0.0004']
    """
    far = np.abs(x)
    excess = far + _LINEAR
    excess *= far
    excess += _CONSTANT
    np.divide(_NUMERATOR, excess, out=excess)
    excess += far
    excess += _ADDED
    excess *= far
    np.subtract(_AT_0, excess, out=excess)
    np.exp(excess, out=excess)
    far -= x
    excess += far
    return excess


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


def weighted_growth(before: Singles, fixed: Singles, asked: Sequence[Added]) -> Singles:
    """Return [n]: the growth of each of K resources times its factor, added up.

    ``before`` is from `known_before`, ``fixed`` from `fixed_spread`, both of the resources asked for. Rows are added
    one by one: a product of matrices would add differently for other counts.

    >>> fixed = fixed_spread(np.array([[0.01]]), np.array([[0.1]]))
    >>> before = known_before(np.array([[0.9]]), fixed, 0.9)
    >>> weighted_growth(before, fixed, [Added(0, 1.0, 2.0)]).round(4).tolist()  # 0.2 above the limit: two deviations
    [0.16099999845027924]
    """
    headroom, twice_before, variance, inverse = before[:, 0], before[:, 1], fixed[:, 0], fixed[:, 2]
    amounts = np.array([(each.amount, each.deviation / EXCESS_SCALE) for each in asked], np.float32)
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
    growth *= np.array([[0.5 * each.factor] for each in asked], np.float32)
    total: Singles = growth[0]
    for row in growth[1:]:
        total += row
    return total
