"""The roundings of the peers, for whole arrays."""

from __future__ import annotations

import numpy as np

from scorer.snapshot.arrays import Floats


def round_half_away(values: Floats) -> Floats:
    """Round to whole numbers, halves away from zero, as Go's ``math.Round``.

    A fraction within 1e-9 below a half counts as a half: the peers compute with whole amounts, which are floats here.

    >>> round_half_away(np.array([62.5, -2.5, 2.4, 77.49999999999999])).tolist()
    [63.0, -3.0, 2.0, 78.0]
    """
    return np.copysign(np.floor(np.abs(values) + (0.5 + 1e-9)), values)


def known_or(values: Floats, otherwise: float) -> Floats:
    """Return the values with NaN replaced; the same array when there is none.

    >>> known_or(np.array([1.0, np.nan]), 0.0).tolist()
    [1.0, 0.0]
    """
    if not np.isnan(values.sum()):
        return values
    found: Floats = np.where(np.isnan(values), otherwise, values)
    return found
