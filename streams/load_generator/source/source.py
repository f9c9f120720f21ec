"""The sources of a fleet's load, simulated or recorded: usage at given times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from streams.agent.sampling.schedule import phase_s

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
    machines: Machines

    def usage(self, rows: NDArray[np.int64], times_s: Float) -> Float:
        """Return what machines ``rows`` [m] used at ``times_s`` [K, m], epoch s: [R, K, m], NaN where unknown."""


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


BLOCK_MACHINES = 500
"""Machines computed at a time: enough for numpy, few enough that the first of a block is not late."""


@dataclass(frozen=True)
class Block:
    """Machines with consecutive phases, in that order."""

    rows: NDArray[np.int64]
    phases_s: Float


class Replay:
    """A source cut into intervals, which machines publish in the order of their phases.

    The past and the present are one loop. An interval whose end has passed is published at once. So a fleet that starts
    an hour back publishes without pauses until it has reached the present, as does one that was delayed.
    """

    def __init__(self, source: Source, interval_s: float, reading_s: float) -> None:
        self._source = source
        self.machines = source.machines
        self._interval_s = interval_s
        self._readings = round(interval_s / reading_s)
        self._reading_s = reading_s
        phases_s = np.array([phase_s(name, interval_s) for name in source.machines.names])
        order = np.argsort(phases_s, kind="stable")
        self.blocks = [
            Block(order[start : start + BLOCK_MACHINES], phases_s[order[start : start + BLOCK_MACHINES]])
            for start in range(0, len(order), BLOCK_MACHINES)
        ]

    def last_full(self, epoch_s: float) -> int:
        """Return the number of the last interval that has ended for every machine."""
        return int(epoch_s // self._interval_s) - 1

    def intervals(self, seconds: float) -> int:
        """Return how many intervals cover so many seconds."""
        return int(np.ceil(seconds / self._interval_s))

    def ends_s(self, number: int, block: Block) -> Float:
        """Return each machine's end of an interval: its samples' ``at``."""
        return np.round(number * self._interval_s + block.phases_s, 6)

    def columns(self, number: int, block: Block) -> Columns:
        """Return the moments of an interval; readings are in the middle of their time, so none is on the end."""
        before_end_s = (np.arange(self._readings - 1, -1, -1) + 0.5) * self._reading_s
        times_s = self.ends_s(number, block) - before_end_s[:, None]
        return reduce_readings(self._source.usage(block.rows, times_s))
