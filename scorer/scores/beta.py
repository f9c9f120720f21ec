"""The beta distribution on arrays: matching moments and its cumulative distribution, without scipy."""

from __future__ import annotations

import numpy as np

from scorer.snapshot import Bools, Floats

_LANCZOS_G = 7.0
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
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


def moments(alpha: float, beta: float) -> tuple[float, float, float]:
    """Return the first three moments about 0.

    >>> moments(1.0, 1.0)[:1]
    (0.5,)
    """
    first = alpha / (alpha + beta)
    second = first * (alpha + 1.0) / (alpha + beta + 1.0)
    return first, second, second * (alpha + 2.0) / (alpha + beta + 2.0)


def match(mean: Floats, variance: Floats) -> tuple[Floats, Floats, Bools]:
    """Return alpha, beta and where they exist: the beta distribution with this mean and variance.

    ``t = mean * (1 - mean) / variance - 1``, ``alpha = mean * t``, ``beta = (1 - mean) * t``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = mean * (1.0 - mean) / variance - 1.0
        alpha, beta = mean * t, (1.0 - mean) * t
    fits = (variance > 0) & (alpha > 0) & (beta > 0) & np.isfinite(t)
    return alpha, beta, fits


def density(x: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return the probability density at 0 < x < 1; 0 for parameters that are not positive."""
    good = (alpha > 0) & (beta > 0) & (x > 0) & (x < 1)
    a, b, at = np.where(good, alpha, 1.0), np.where(good, beta, 1.0), np.where(good, x, 0.5)
    logarithm = (a - 1.0) * np.log(at) + (b - 1.0) * np.log1p(-at) + log_gamma(a + b) - log_gamma(a) - log_gamma(b)
    found: Floats = np.where(good, np.exp(logarithm), 0.0)
    return found


def distribution(x: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return the regularized incomplete beta function: the probability of a value up to x.

    By the continued fraction (Lentz), all elements at once; for very large parameters, where it would take
    thousands of steps, by the normal approximation of Peizer and Pratt, good to 1e-6 there. 0 for parameters that are
    not positive, as for x <= 0; 1 for x >= 1.
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
    large = a + b > 20_000.0
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
    """Return the probability up to x for large parameters: cube roots make the distribution nearly normal."""
    w1, w2 = np.cbrt(b * x), np.cbrt(a * (1.0 - x))
    z = 3.0 * (w1 * (1.0 - 1.0 / (9.0 * b)) - w2 * (1.0 - 1.0 / (9.0 * a))) / np.sqrt(w1**2 / b + w2**2 / a)
    return _normal_distribution(z)


def _normal_distribution(z: Floats) -> Floats:
    """Return the standard normal distribution, by Abramowitz and Stegun 7.1.26 (error below 1.5e-7)."""
    t = 1.0 / (1.0 + 0.3275911 * np.abs(z) / np.sqrt(2.0))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = 1.0 - poly * np.exp(-z * z / 2.0)
    found: Floats = np.where(z >= 0, 0.5 * (1.0 + erf), 0.5 * (1.0 - erf))
    return found
