"""Thresholds by resource, as filters take them: shares of allocatable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.resources import RESOURCES
from scorer.snapshot.arrays import Floats

Thresholds = Mapping[str, float]


def check_thresholds(name: str, thresholds: Thresholds) -> None:
    """Raise ValueError for an unknown resource or a share outside 0-1."""
    for resource, value in thresholds.items():
        if resource not in RESOURCES:
            raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
        if not 0 <= value <= 1:
            raise ValueError(f"{name}.{resource}: expected a share from 0 to 1, got {value}")


def picking(rows: Sequence[int]) -> slice | Sequence[int]:
    """Return what picks these rows of a column [R, n]: a slice where they follow each other, so that none is copied.

    >>> picking([1, 2]), picking([0, 2])
    (slice(1, 3, None), [0, 2])
    """
    together = bool(rows) and list(rows) == list(range(rows[0], rows[-1] + 1))
    return slice(rows[0], rows[-1] + 1) if together else rows


def as_column(thresholds: Thresholds) -> Floats:
    """Return [R, 1]; 0 (no threshold) where not given."""
    return np.array([[thresholds.get(resource, 0.0)] for resource in RESOURCES])
