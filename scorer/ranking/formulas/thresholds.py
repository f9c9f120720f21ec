"""Thresholds by resource, as filters take them: shares of allocatable."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schemas.resources import RESOURCES
from scorer.snapshot.arrays import ROUNDING, Floats

Thresholds = Mapping[str, float]


def check_thresholds(name: str, thresholds: Thresholds) -> None:
    """Raise ValueError for an unknown resource or a share outside 0-1."""
    for resource, value in thresholds.items():
        if resource not in RESOURCES:
            raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
        if not 0 <= value <= 1:
            raise ValueError(f"{name}.{resource}: expected a share from 0 to 1, got {value}")


def as_column(given: Thresholds, absent: float = 0.0) -> Floats:
    """Return [R, 1] in the order of the resources; without a threshold 0."""
    return np.array([[given.get(resource, absent)] for resource in RESOURCES])


def limits_of(threshold: Floats, allocatable: Floats) -> Floats:
    """Return [rows, n]: threshold times allocatable; inf without a threshold or an allocatable amount."""
    limit: Floats = threshold * allocatable * (1 + ROUNDING)
    limited = (threshold > 0) & (allocatable > 0)
    if not limited.all():
        limit[~limited] = np.inf
    return limit


def left_below(limit: Floats, usage: Floats) -> Floats:
    """Return the limit less the usage; inf where there is no limit, known usage or not."""
    left: Floats = np.subtract(limit, usage, out=np.full(limit.shape, np.inf), where=np.isfinite(limit))
    return left
