"""Numbers as JSON can hold them."""

from __future__ import annotations

import math
from typing import SupportsFloat


def finite(value: SupportsFloat) -> float | None:
    """Return a plain number; None for NaN and infinity, which stand for "not known" in arrays.

    >>> finite(2), finite(float("nan"))
    (2.0, None)
    """
    number = float(value)
    return number if math.isfinite(number) else None
