"""A workload: instances with their requests, lives and usage, and the fleet on which they are placed.

Time is in whole minutes from the workload's origin: minute k covers [origin + 60 k, origin + 60 (k + 1)) s.

Letters: R resources in the order of `schemas.resources`, M machines, K instances, N readings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.names import WINDOWS_S
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import Request
from scorer.snapshot.arrays import Bools, Floats, Integers

MINUTE_S = 60
DAY_MINUTES = 1_440
LEAD_MINUTES = WINDOWS_S[-1] // MINUTE_S
"""Minutes before the origin in which the fleet is empty, so that no window is warming."""
ORIGIN_S = 1_376_265_600
"""The default origin, epoch s: Monday 2013-08-12, 00:00 UTC."""
CELLS_MAX = 200_000_000
"""The most minutes of instances, and of machines, that are read: a cell takes 16 to 32 bytes of memory."""


class WorkloadError(ValueError):
    """A workload or a trace that cannot be replayed; the message names file, column and row."""


@dataclass(frozen=True, eq=False)
class Usage:
    """The usage of instances by minute: each has a stretch of readings, which is repeated.

    ``usage[r, k](t) = min(most[r, k], scale[r, k] * values[r, base[k] + (shift[k] + t) mod length[k]])``

    Instances may share a stretch. A resource whose readings are NaN is not measured; others have no NaN.
    """

    values: NDArray[np.float32]
    """[R, N] readings."""
    base: Integers
    length: Integers
    shift: Integers
    """[K] in minutes."""
    scale: Floats
    most: Floats
    """[R, K]"""

    @classmethod
    def plain(cls, values: NDArray[np.float32], base: Integers, length: Integers, shift: Integers) -> "Usage":
        """Return the usage as it was read, unscaled and without bounds."""
        shape = (len(RESOURCES), len(base))
        return cls(values, base, length, shift, np.ones(shape), np.full(shape, np.inf))

    def of(self, instance: int, resource: int, first: int, last: int) -> Floats:
        """Return [last - first]: one instance's usage of one resource in the minutes from ``first``."""
        base, length = int(self.base[instance]), int(self.length[instance])
        at, left = (int(self.shift[instance]) + first) % length, last - first
        if at + left <= length:
            readings = self.values[resource, base + at : base + at + left]
        else:
            readings = self.values[resource, base + (at + np.arange(left)) % length]
        used: Floats = np.multiply(readings, self.scale[resource, instance], dtype=np.float64)
        found: Floats = np.minimum(used, self.most[resource, instance])
        return found

    def at(self, instances: Integers, resources: Integers, minute: int) -> Floats:
        """Return [r, k]: the usage of some resources by some instances in one minute."""
        where = self.base[instances] + (self.shift[instances] + minute) % self.length[instances]
        at = np.ix_(resources, instances)
        used = self.values[np.ix_(resources, where)] * self.scale[at]
        found: Floats = np.minimum(used, self.most[at])
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    name: str
    machines: Sequence[str]
    capacity: Floats
    """[R, M] NaN where unknown."""
    instances: Sequence[str]
    asked: Floats
    """[R, K] 0 where nothing is requested."""
    given: tuple[int, ...] = ()
    """Resources of which every instance gives an amount: a 0 of these is in its request."""
    start: Integers
    """[K] minute of the first try, in ascending order."""
    life: Integers
    """[K] minutes from the placement to the end; at least 1."""
    usage: Usage
    minutes: int
    """The length of the workload; nothing is measured after it."""
    fill_minutes: int = 0
    """The first minutes, in which the fleet fills: history, shown apart."""
    origin_s: int = ORIGIN_S
    seed: int = 0
    machine_labels: Sequence[Mapping[str, str]] = ()
    kinds: Sequence[str] = ()
    """[K], or empty: no kinds."""
    labels: Sequence[Mapping[str, str]] = ()
    """[K], or empty: no labels."""
    roles: Sequence[tuple[str, str]] = ()
    """[K] cluster and role, or empty: of none."""
    classes: Sequence[str] = ()
    """[K] priority classes, or empty: all prod."""
    expected: Floats = field(default_factory=lambda: np.full((len(RESOURCES), 0), np.nan))
    """[R, K] NaN where the deployer gives none; or [R, 0]."""
    requests: Sequence[Request] = ()
    """[K], or empty: made of the columns above."""
    system: Floats | None = None
    """[r, M, T] of the measured resources: load that belongs to no instance, or None."""
    placed_on: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """[K] row of the machine where each really was placed, -1 where that is not known; or empty."""

    @property
    def measured(self) -> Bools:
        """[R] Resources that the fleet has and any instance reports."""
        values = self.usage.values
        reported = np.isfinite(values[:, 0]) if values.shape[1] else np.zeros(len(values), np.bool_)
        found: Bools = np.isfinite(self.capacity).all(axis=1) & reported
        return found

    @cached_property
    def lower(self) -> Bools:
        """[K] Whether an instance is of class batch or free."""
        classes = [one.priority_class for one in self.requests] or self.classes or ["prod"] * len(self.instances)
        found: Bools = np.isin(classes, PRIORITY_CLASSES[2:])
        return found

    def request(self, instance: int) -> Request:
        if self.requests:
            return self.requests[instance]
        given: dict[str, Any] = {
            name: float(self.asked[r, instance])
            for r, name in enumerate(RESOURCES)
            if r in self.given or self.asked[r, instance]
        }
        if self.expected.shape[1]:
            column = self.expected[:, instance]
            given["expected"] = {name: float(column[r]) for r, name in enumerate(RESOURCES) if np.isfinite(column[r])}
        if self.kinds:
            given["kind"] = self.kinds[instance]
        if self.labels:
            given["labels"] = dict(self.labels[instance])
        if self.roles:
            given["cluster"], given["role"] = self.roles[instance]
        if self.classes:
            given["priority_class"] = self.classes[instance]
        return Request(id=self.instances[instance], **given)


def row_of(where: NDArray[np.bool_], first: int = 1) -> int:
    """Return the row of the first True, plus ``first``."""
    return int(np.flatnonzero(where)[0]) + first
