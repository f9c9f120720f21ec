"""The sources of a fleet's load, simulated or recorded: usage at given times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The machines of the fleet; R resources in the order of `schemas.resources`, M machines."""

    names: Sequence[str]
    labels: Sequence[dict[str, str]]
    capacity: Float
    """[R, M] in the resource's unit, NaN where the machine has none that is known."""


def by_resource(known: Mapping[int, NDArray[np.floating[Any]]]) -> Float:
    """Return arrays of one shape stacked in the order of `schemas.resources`; NaN for a resource that is not given.

    >>> by_resource({0: np.ones(2)})[:2]
    array([[ 1.,  1.],
           [nan, nan]])
    """
    stacked = np.full((len(RESOURCES), *next(iter(known.values())).shape), np.nan)
    for resource, values in known.items():
        stacked[resource] = values
    return stacked


class Source(Protocol):
    """A simulated or a recorded fleet."""

    machines: Machines

    def usage(self, rows: NDArray[np.int64], times_s: Float) -> Float:
        """Return what machines ``rows`` [m] used at ``times_s`` [K, m], epoch s: [R, K, m], NaN where unknown."""

    def over(self, epoch_s: float) -> bool:
        """Return whether the source has ended at a time."""


@dataclass(frozen=True)
class Columns:
    """The moments of one interval of m machines: n, mean, m2, max, each [R, m]; n is 0 where nothing was read."""

    n: NDArray[np.int64]
    mean: Float
    m2: Float
    max: Float


def reduce_readings(usage: Float) -> Columns:
    """Return the moments over the readings [R, K, m] that are not NaN.

    mean = Σx / n,  m2 = Σ(x - mean)²
    """
    read = ~np.isnan(usage)
    n = read.sum(axis=1)
    divisor = np.maximum(n, 1)
    known = np.where(read, usage, 0.0)
    mean = known.sum(axis=1) / divisor
    distance = np.where(read, usage - mean[:, None, :], 0.0)
    mean += distance.sum(axis=1) / divisor
    highest = known.max(axis=1)
    return Columns(n, np.minimum(mean, highest), (distance * distance).sum(axis=1), highest)
