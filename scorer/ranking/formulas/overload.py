"""Tails of the standard normal distribution for arrays, without scipy.

``phi`` is the density, Q the upper tail; the expected excess over z is ``phi(z) - z Q(z)``. ``1 - z Q(z) / phi(z)`` is
smooth and falls slowly, so one quotient of polynomials approximates it from 0 to infinity, and nothing is a difference
of nearly equal numbers: ``phi(z) - z Q(z)`` itself is lost beyond 5 deviations. The coefficients were fitted over 0 to
10,000 for the least relative error, 1.6e-6. The scores of a decision use a table of cubics (``kernel/normal.h``).
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from scorer.snapshot.arrays import Floats

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


def upper_tail_of(z: float) -> float:
    """Return the probability of a value more than z deviations above the mean.

    >>> f"{upper_tail_of(10.0):.5g}"
    '7.6199e-24'
    """
    return 0.5 * math.erfc(z * _ROOT_HALF)


def upper_tail(z: Floats) -> Floats:
    """Return [...] the probabilities for an array, from a table: accurate to 4e-6; NaN where z is NaN.

    >>> upper_tail(np.array([-np.inf, 0.0, np.inf])).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.interp(z, *_tails(), left=1.0, right=0.0)


@cache
def _tails() -> tuple[Floats, Floats]:
    at = np.linspace(-8.0, 8.0, 2_001)
    return at, np.array([upper_tail_of(each) for each in at.tolist()])


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
