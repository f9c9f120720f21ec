"""A value of every machine at any amount of an octave, from a few kept ones: interpolation by a polynomial.

An octave is a range of amounts from A to 2 A; x is an amount's place in it by the logarithm, from -1 to 1. A smooth
function of the amount is close to the polynomial in x through its values at the Chebyshev points. The coefficients of
all machines are kept. One product with the powers of x then gives the values at an amount not asked for before.

Seven points: a function of ``sqrt(1 + amount^2)`` has its singularities a quarter turn away in the plane of the
logarithm, and each point more has a ninth of the error. Measured: at most 7e-7 of the capacity.

Rejected: to keep them beyond a placement. To renew the changed rows costs as much as one score made anew.

Reference: L. N. Trefethen, Approximation Theory and Approximation Practice, chapters 2 and 8.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from scorer.ranking.formulas.normal import Singles
from scorer.snapshot.arrays import Floats

OFTEN = 16
"""Coefficients are kept after so many requests: to make them costs about as much as these."""
KEPT_MAX, COUNTED_MAX = 16, 1024
"""Coefficients are kept of so many combinations of octaves, and requests are counted of so many."""
_COUNT = 7
_X = -np.cos((np.arange(_COUNT) + 0.5) * math.pi / _COUNT)
POINTS: Floats = np.exp2(0.5 * (_X + 1.0))
"""[P] The amounts at which a function is computed, as multiples of the least of the octave."""
_TO_COEFFICIENTS = np.linalg.inv(np.vander(_X, increasing=True))
_LANES = 16
"""Columns are filled up to a multiple of this: some processors add the last ones of other numbers in another order."""

PartOf = Callable[["Asked"], Floats]
Asked = tuple[int, float, float, float]
"""A resource's place, the share of its weight, the expected amount, and the standard deviation of that."""
Key = tuple[tuple[int, int, float], ...]
"""Of each resource its place, the octave of the standard deviation, and the expected amount as a share of that."""


def place_in_octave(amount: float) -> tuple[int, float]:
    """Return the exponent of the octave's least amount, and the amount's place x in it: -1 to less than 1.

    >>> place_in_octave(4.0)
    (2, -1.0)
    """
    mantissa, exponent = math.frexp(amount)
    return exponent - 1, 2.0 * math.log2(mantissa) + 1.0


def coefficients(values: Floats) -> Floats:
    """Return [P, n] of the values [P, n] at `POINTS`: the lowest power first.

    >>> coefficients(POINTS[:, None] ** 0.5)[:2, 0].round(4).tolist()  # 2^(x / 4 + 1 / 4)
    [1.1892, 0.2061]
    """
    found: Floats = _TO_COEFFICIENTS @ values
    return found


def powers(x: float) -> list[float]:
    """Return [P]: what the coefficients are multiplied by."""
    square = x * x
    cube = square * x
    return [1.0, x, square, cube, square * square, square * cube, cube * cube]


class Octaves:
    """The octaves that amounts were asked for in lately, with the coefficients of those asked for often."""

    def __init__(self) -> None:
        self._times: Counter[Key] = Counter()
        self._kept: dict[Key, Singles | None] = {}
        self._due = False
        """Whether any was asked for often."""

    def count(self, asked: Sequence[Asked]) -> None:
        """Count a request that was computed for all machines."""
        key, _ = _octaves_of(asked)
        if key and len(self._times) < COUNTED_MAX:
            self._times[key] += 1
            self._due = self._due or self._times[key] >= OFTEN

    def read(self, asked: Sequence[Asked], parts: Callable[[Sequence[Asked]], PartOf | None]) -> Singles | None:
        """Return [n or more]: the sum of the parts of a score, with zeros after the n; None until asked for often.

        ``parts(largest)`` returns the function from one resource asked for to its part [n], or None when not all
        amounts up to the largest have a smooth one.
        """
        if not self._due:
            return None
        key, factors = _octaves_of(asked)
        if key not in self._kept:
            if self._times[key] < OFTEN or len(self._kept) >= KEPT_MAX:
                return None
            self._kept[key] = _made(key, asked, parts)
        kept = self._kept[key]
        return None if kept is None else np.array(factors, np.float32) @ kept


def _octaves_of(asked: Sequence[Asked]) -> tuple[Key, list[float]]:
    """Return the octaves and the factors of their coefficients; none where an amount is larger than its deviation.

    Far from the limit the growth by such an amount is too steep for seven points.
    """
    key: list[tuple[int, int, float]] = []
    factors: list[float] = []
    for place, _, amount, deviation in asked:
        if not amount <= deviation < math.inf:
            return (), []
        exponent, x = place_in_octave(deviation)
        key.append((place, exponent, round(amount / deviation, 9)))
        factors += powers(x)
    return tuple(key), factors


def _made(key: Key, asked: Sequence[Asked], parts: Callable[[Sequence[Asked]], PartOf | None]) -> Singles | None:
    """Return [C, n or more], P coefficients of each resource; filled up with zeros to a multiple of `_LANES`.

    So a product gives machines with alike coefficients alike values, wherever they are.
    """

    def at(multiple: float) -> list[Asked]:
        scales = [multiple * 2.0**exponent for _, exponent, _ in key]  # `ldexp` would raise where it overflows
        return [
            (place, share, ratio * scale, scale)
            for (place, share, _, _), (_, _, ratio), scale in zip(asked, key, scales, strict=True)
        ]

    part = parts(at(2.0))
    if part is None:
        return None
    points = [at(multiple) for multiple in POINTS.tolist()]
    rows = [coefficients(np.stack([part(point[each]) for point in points])) for each in range(len(asked))]
    count = rows[0].shape[1]
    found: Singles = np.zeros((len(rows) * _COUNT, -(-count // _LANES) * _LANES), np.float32)
    np.concatenate(rows, out=found[:, :count], casting="same_kind")
    return found
