"""Thresholds by resource, as filters take them: shares of allocatable."""

from collections.abc import Mapping

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


def as_column(given: Thresholds, absent: float = 0.0) -> Floats:
    """Return [R, 1] in the order of the resources; without a threshold 0."""
    return np.array([[given.get(resource, absent)] for resource in RESOURCES])
