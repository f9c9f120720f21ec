"""A score for amounts never asked for before, from a few that were: interpolation by a polynomial.

For the time between two placements, when many unlike requests look at the same fleet. Each then costs a product with
kept columns in place of a logarithm for each machine. On 5,000 machines that is 18 us, not 85; a whole ranking takes
170, not 270.

An octave is a range of amounts from A to 2 A; x is an amount's place in it by the logarithm, from -1 to 1. A smooth
function of the amount is close to the polynomial in x through its values at the Chebyshev points. The coefficients of
all machines are kept. Seven points: a function of ``sqrt(1 + amount^2)`` has its singularities a quarter turn away in
the plane of the logarithm, and each point more has a ninth of the error. Measured: at most 7e-7 of the capacity.

Rejected: to keep them beyond a placement. To renew the changed rows costs as much as one score made anew.

Reference: L. N. Trefethen, Approximation Theory and Approximation Practice, chapters 2 and 8.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from scorer.ranking.formulas.overload import Singles
from scorer.ranking.formulas.variance import Added
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

PartOf = Callable[[Added], Floats]
Key = tuple[tuple[int, int, float], ...]
"""Of each resource its place, the octave of the standard deviation, and the expected amount as a share of that."""


class Octaves:
    """The octaves that amounts were asked for in lately, with the coefficients of those asked for often."""

    def __init__(self) -> None:
        self._times: Counter[Key] = Counter()
        self._kept: dict[Key, Singles | None] = {}
        self._due = False
        """Whether any was asked for often."""

    def count(self, asked: Sequence[Added]) -> None:
        """Count a request that was computed for all machines."""
        key, _ = _octaves_of(asked)
        if key and len(self._times) < COUNTED_MAX:
            self._times[key] += 1
            self._due = self._due or self._times[key] >= OFTEN

    def read(self, asked: Sequence[Added], part: PartOf, smooth: Callable[[Sequence[Added]], bool]) -> Singles | None:
        """Return [n or more]: the sum of the parts of a score, with zeros after the n; None until asked for often.

        ``part`` makes the part [n] of one resource. ``smooth(largest)`` says whether all amounts up to the largest have
        a smooth one; where they have not, nothing is read.
        """
        if not self._due:
            return None
        key, factors = _octaves_of(asked)
        if key not in self._kept:
            if self._times[key] < OFTEN or len(self._kept) >= KEPT_MAX:
                return None
            self._kept[key] = _made(key, asked, part) if smooth(_at(2.0, key, asked)) else None
        kept = self._kept[key]
        return None if kept is None else np.array(factors, np.float32) @ kept


def _octaves_of(asked: Sequence[Added]) -> tuple[Key, list[float]]:
    """Return the octaves and the factors of their coefficients; none where an amount is larger than its deviation.

    Far from the limit the growth by such an amount is too steep for seven points.
    """
    key: list[tuple[int, int, float]] = []
    factors: list[float] = []
    for place, _, amount, deviation in asked:
        if not amount <= deviation < math.inf:
            return (), []
        mantissa, exponent = math.frexp(deviation)
        key.append((place, exponent - 1, round(amount / deviation, 9)))
        x = 2.0 * math.log2(mantissa) + 1.0
        square = x * x
        cube = square * x
        factors += (1.0, x, square, cube, square * square, square * cube, cube * cube)
    return tuple(key), factors


def _at(multiple: float, key: Key, asked: Sequence[Added]) -> list[Added]:
    """Return what would be asked at a multiple of the least amounts of the octaves."""
    scales = [multiple * 2.0**exponent for _, exponent, _ in key]  # `ldexp` would raise where it overflows
    return [
        Added(each.place, each.factor, ratio * scale, scale)
        for each, (_, _, ratio), scale in zip(asked, key, scales, strict=True)
    ]


def _made(key: Key, asked: Sequence[Added], part: PartOf) -> Singles:
    """Return [C, n or more], P coefficients of each resource; filled up with zeros to a multiple of `_LANES`.

    So a product gives machines with alike coefficients alike values, wherever they are.
    """
    points = zip(*(_at(multiple, key, asked) for multiple in POINTS.tolist()), strict=True)
    rows = [_TO_COEFFICIENTS @ np.stack([part(point) for point in of_one]) for of_one in points]
    count = rows[0].shape[1]
    found: Singles = np.zeros((len(rows) * _COUNT, -(-count // _LANES) * _LANES), np.float32)
    np.concatenate(rows, out=found[:, :count], casting="same_kind")
    return found
