"""How much the expected load above a limit grows, for all machines at once: the costly part of `expected_overload`.

With the headroom ``h = limit - u``, what is added d, and the spread s after it, the overload after it is

    E = s * excess(z),   z = (h - d) / s,   s^2 = variance + e^2

with e the standard deviation of what is added.

In single precision: the growth is exact to 1e-7 of the capacity; the load itself is known less exactly. The spread
is scaled to a unit in which `scaled_excess` takes fewer passes; then ``s * scaled_excess(z)`` is twice the overload.

The headroom and the overload before do not depend on the request and are made once. A request then takes 21 passes
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

from scorer.ranking.normal import EXCESS_SCALE, Singles, scaled_excess
from scorer.snapshot.arrays import Floats

_UNITS = EXCESS_SCALE**-2
"""Of a variance."""


def known_before(utilization: Floats, variance: Floats, inverse: Floats, limit: float) -> Singles:
    """Return [K, 4, n] for `weighted_growth`: headroom, twice the overload before, variance, inverse of allocatable."""
    headroom = np.subtract(limit, utilization).astype(np.float32)
    scaled = (_UNITS * variance).astype(np.float32)
    known: Singles = np.stack([headroom, _twice_overload(headroom.copy(), scaled.copy()), scaled, inverse], axis=1)
    return known.astype(np.float32, copy=False)


def weighted_growth(known: Singles, asked: Sequence[tuple[float, float, float]]) -> Floats:
    """Return [n]: the growth of each of K resources times its weight, added up.

    ``known`` is [K, 4, n], from `known_before`; ``asked`` has weight, amount and its standard deviation of each. Rows
    are added one by one: a product of matrices would add differently for other counts.

    >>> known = known_before(np.array([[0.9]]), np.array([[0.01]]), np.array([[0.1]]), 0.9)
    >>> weighted_growth(known, [(1.0, 2.0, 0.0)]).round(4).tolist()  # 0.2 above the limit, which is two deviations
    [0.161]
    """
    headroom, twice_before, variance, inverse = known[:, 0], known[:, 1], known[:, 2], known[:, 3]
    amounts = np.array([(amount, deviation / EXCESS_SCALE) for _, amount, deviation in asked], np.float32)
    added: Singles = inverse * amounts[:, :1]
    after: Singles = inverse * amounts[:, 1:]
    after *= after
    after += variance
    growth = _twice_overload(np.subtract(headroom, added, out=added), after)
    growth -= twice_before
    first, total = asked[0][0], growth[0]
    for place in range(1, len(asked)):
        if asked[place][0] != first:
            growth[place] *= np.float32(asked[place][0] / first)
        total += growth[place]
    found: Floats = np.multiply(total, 0.5 * first, dtype=np.float64)
    return found


def _twice_overload(headroom: Singles, variance: Singles) -> Singles:
    """Return [K, n]: twice the expected part of the load above the limit; both arguments are used up."""
    spread = np.sqrt(variance, out=variance)
    headroom /= spread
    twice = scaled_excess(headroom)
    twice *= spread
    return twice
