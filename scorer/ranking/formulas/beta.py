"""The beta distribution on arrays: matching moments and its cumulative distribution, without scipy."""

from __future__ import annotations

import numpy as np

from scorer.snapshot.arrays import Bools, Floats

_LANCZOS_G = 7.0
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
_MILLS = (
    (0.0033315286809597893, 0.03912353209862956, 0.22100990682699798, 0.7244148619124923, 1.3759453335931793,
     1.2533141360165734),
    (0.003331528684763353, 0.039123529476814516, 0.22434173124348017, 0.7635256553646191, 1.590574292419883,
     1.8957300120467193, 1.0),
)  # fmt: skip
"""Numerator and denominator, the highest power first; fitted over 0 to 10,000 to a relative error of 1.1e-9."""
_TINY = 1e-300
_STEPS = 300
_PRECISION = 1e-14


def log_gamma(x: Floats) -> Floats:
    """Return the logarithm of the gamma function of positive numbers (Lanczos), good to 14 digits.

    >>> bool(abs(log_gamma(np.array([5.0]))[0] - np.log(24.0)) < 1e-13)
    True
    """
    z = x - 1.0
    series = np.full_like(z, _LANCZOS[0])
    for number, coefficient in enumerate(_LANCZOS[1:], 1):
        series = series + coefficient / (z + number)
    t = z + _LANCZOS_G + 0.5
    found: Floats = 0.5 * np.log(2.0 * np.pi) + (z + 0.5) * np.log(t) - t + np.log(series)
    return found


def mills_ratio(z: Floats) -> Floats:
    """Return [...] ``Q(z) / phi(z)`` for z of 0 and more: upper tail and density of the standard normal distribution.

    It falls slowly, so one quotient of polynomials does; a tail as a difference from 1 is lost beyond 8 deviations.

    >>> mills_ratio(np.array([0.0, 40.0])).round(6).tolist()
    [1.253314, 0.024984]
    """
    ratio: Floats = np.polyval(_MILLS[0], z) / np.polyval(_MILLS[1], z)
    return ratio


def match(mean: Floats, variance: Floats) -> tuple[Floats, Floats, Bools]:
    """Return alpha, beta and where they exist: the beta distribution with this mean and variance.

    ``t = mean * (1 - mean) / variance - 1``, ``alpha = mean * t``, ``beta = (1 - mean) * t``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = mean * (1.0 - mean) / variance - 1.0
        alpha, beta = mean * t, (1.0 - mean) * t
    fits = (variance > 0) & (alpha > 0) & (beta > 0) & np.isfinite(t)
    return alpha, beta, fits


def distribution(x: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return the regularized incomplete beta function: the probability of a value up to x.

    By the continued fraction (Lentz), all elements at once. Where both parameters are very large, and it would take
    thousands of steps, by Temme's expansion; with one small parameter that would be wrong by up to 1. Good to 7e-6 for
    parameters from 0.01 to 1e9. 0 for parameters that are not positive, as for x <= 0; 1 for x >= 1.
    """
    good = (alpha > 0) & (beta > 0)
    inside = good & (x > 0) & (x < 1)
    a, b, at = np.where(inside, alpha, 1.0), np.where(inside, beta, 1.0), np.where(inside, x, 0.5)
    swapped = at > (a + 1.0) / (a + b + 2.0)
    a, b, at = np.where(swapped, b, a), np.where(swapped, a, b), np.where(swapped, 1.0 - at, at)
    front = np.exp(
        np.minimum(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * np.log(at) + b * np.log1p(-at), 700.0)
    )
    tail = front * _fraction(at, a, b) / a
    large = np.minimum(a, b) > 20_000.0
    if large.any():
        tail = np.where(large, _normal_tail(at, a, b), tail)
    value = np.clip(np.where(swapped, 1.0 - tail, tail), 0.0, 1.0)
    found: Floats = np.where(inside, value, np.where(good & (x >= 1), 1.0, 0.0))
    return found


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """Return the continued fraction of the incomplete beta function."""
    c = np.ones_like(x)
    d = _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    d = 1.0 / d
    h = d.copy()
    for m in range(1, _STEPS):
        step = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + step * d)
        c = _away_from_zero(1.0 + step / c)
        h = h * d * c
        step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _away_from_zero(1.0 + step * d)
        c = _away_from_zero(1.0 + step / c)
        change = d * c
        h = h * change
        if np.all(np.abs(change - 1.0) < _PRECISION):
            break
    return h


def _away_from_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < _TINY, _TINY, values)


def _normal_tail(x: Floats, a: Floats, b: Floats) -> Floats:
    """Return the probability up to x for large parameters, by Temme's expansion: a normal tail and one correction.

    With ``n = a + b`` and mean m, ``z^2 / 2 = n (m log(m / x) + (1 - m) log((1 - m) / (1 - x)))``, z with the sign of
    x - m. The quotient of two such tails holds, however far out: the density is their common factor.
    """
    n = a + b
    mean = a / n
    away, deviation = x - mean, np.sqrt(mean * (1.0 - mean))
    exponent = mean * np.log1p(away / mean) + (1.0 - mean) * np.log1p(-away / (1.0 - mean))
    root = np.sign(away) * np.sqrt(np.maximum(-2.0 * exponent, 0.0))
    near = np.abs(away) < 1e-4 * deviation
    safe_root, safe_away = np.where(near, 1.0, root), np.where(near, 1.0, away)
    correction = np.where(near, (1.0 - 2.0 * mean) / (3.0 * deviation), 1.0 / safe_root - deviation / safe_away)
    z = np.clip(root * np.sqrt(n), -1e4, 1e4)
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    tail = density * mills_ratio(np.abs(z))
    found: Floats = np.where(z < 0, tail, 1.0 - tail) + density * correction / np.sqrt(n)
    return found
