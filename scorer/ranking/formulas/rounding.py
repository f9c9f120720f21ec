"""Numbers that are not known, in whole arrays."""

from __future__ import annotations

import numpy as np

from scorer.snapshot.arrays import Floats


def known_or(values: Floats, otherwise: float) -> Floats:
    """Return the values with NaN replaced; the same array when there is none.

    >>> known_or(np.array([1.0, np.nan]), 0.0).tolist()
    [1.0, 0.0]
    """
    if not np.isnan(values.sum()):
        return values
    found: Floats = np.where(np.isnan(values), otherwise, values)
    return found
