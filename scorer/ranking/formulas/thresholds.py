"""What filters and scores are configured with: thresholds by resource, shares of allocatable; statistics of load."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.kernel.layout import STATISTICS
from scorer.snapshot.arrays import Floats

if TYPE_CHECKING:
    ResourceName = str
else:
    ResourceName = Literal[RESOURCES]
    """One of the resources: a profile that names another is refused."""


Statistic = Literal["mean", "p50", "p90", "p95", "p99", "max"]
MISSING = {"refuse": 0, "zero": 0, "pass": 1, "estimates": 2, "mean": 3}
"""What counts where a statistic is missing, by its number in the C functions.

``estimates`` does as Koordinator: a percentile over a window less than half covered counts as missing, and the
estimates of all instances placed count instead. With ``mean`` the mean counts. Without any measurement nothing does.
"""


def number_of(statistic: Statistic) -> int:
    """Return the number by which C functions know a statistic; -1 for the mean."""
    return -1 if statistic == "mean" else STATISTICS.index(statistic)


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
