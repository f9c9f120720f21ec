"""The types of columns, the machine always the last axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


def picking(rows: Sequence[int]) -> slice | list[int]:
    """Return what picks these rows of a column [R, n]: a slice where they follow each other, so that none is copied.

    >>> picking((1, 2)), picking((0, 2))
    (slice(1, 3, None), [0, 2])
    """
    together = bool(rows) and list(rows) == list(range(rows[0], rows[-1] + 1))
    return slice(rows[0], rows[-1] + 1) if together else list(rows)
