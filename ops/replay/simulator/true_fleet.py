"""The true state of a simulation: the machine of each instance, and the past and future load of every machine.

The future load is known because the usage of each instance is. Compared policies never read it, only references do. The
load of a machine is the sum of the usage of its instances; demand beyond its capacity is lost.
"""

from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from ops.replay.workload import MINUTE_S, Workload
from schemas.resources import CPU
from scorer.snapshot.arrays import Floats, Integers

HOT = 0.9
"""A machine is hot in a minute in which its CPU demand is above this share of its cores."""


class Fleet:
    """Machines with the instances placed so far."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.usage = replace(workload.usage, scale=workload.usage.scale.copy())
        """What each uses by its role now."""
        self.measured: Integers = np.flatnonzero(workload.measured)
        """Resources that are measured."""
        self.capacity: Floats = workload.capacity[self.measured]
        """[r, M] of those."""
        shape = (len(workload.machines), workload.minutes)
        self.load: Floats = np.zeros((len(self.measured), *shape))
        """[r, M, T] demand by minute."""
        self.count: NDArray[np.int32] = np.zeros(shape, np.int32)
        """[M, T] instances by minute."""
        self.lower: Floats = np.zeros_like(self.load) if workload.lower.any() else self.load[:, :, :0]
        """[r, M, T] the part of the load of classes batch and free; [r, M, 0] when no instance is of these."""
        self.lower_count: NDArray[np.int32] = np.zeros(self.lower.shape[1:], np.int32)
        """[M, T] those instances by minute."""
        self.overhead: Floats = np.zeros_like(self.load)
        """[r, M, T] the part of the load of no instance: the copying of moves, and the workload's own."""
        if workload.system is not None:
            self.load += workload.system
            self.overhead += workload.system
        self.machine_of: Integers = np.full(len(workload.instances), -1, np.int64)
        """[K] row of the machine, of an ended instance its last one; -1 before the placement."""
        self.placed: Integers = np.full(len(workload.instances), -1, np.int64)
        """[K] minute of the placement; -1 before it, and while an evicted instance waits."""
        self.end: Integers = np.full(len(workload.instances), -1, np.int64)
        """[K] minute of the end; -1 before the placement."""

    @property
    def cpu(self) -> int:
        return int(np.flatnonzero(self.measured == CPU)[0])

    def now_s(self, minute: int) -> float:
        """Return the epoch time at which a minute begins."""
        return float(self.workload.origin_s + MINUTE_S * minute)

    def demand(self, instance: int, first: int, last: int) -> Floats:
        """Return [r, last - first]: the instance's usage of the measured resources."""
        return np.array([self.usage.of(instance, resource, first, last) for resource in self.measured])

    def place(self, instance: int, row: int, minute: int) -> None:
        """Start an instance on a machine; it ends when its life is over."""
        self.machine_of[instance] = row
        self.placed[instance] = minute
        self.end[instance] = minute + self.workload.life[instance]
        self._add(instance, row, minute, 1)

    def move(self, instance: int, row: int, minute: int) -> None:
        """Take a running instance to another machine from this minute on."""
        self._add(instance, int(self.machine_of[instance]), minute, -1)
        self.machine_of[instance] = row
        self._add(instance, row, minute, 1)

    def exchange(self, instance: int, other: int, minute: int) -> None:
        """Let two running instances with the same readings exchange their roles, and so their shares of these."""
        pair = [instance, other]
        for one in pair:
            self._add(one, int(self.machine_of[one]), minute, -1)
        self.usage.scale[:, pair] = self.usage.scale[:, pair[::-1]]
        for one in pair:
            self._add(one, int(self.machine_of[one]), minute, 1)

    def evict(self, instance: int, minute: int) -> None:
        """End a running instance before its time."""
        self._add(instance, int(self.machine_of[instance]), minute, -1)
        self.placed[instance] = -1
        self.end[instance] = minute

    def copying(self, instance: int, source: int, minute: int, minutes: float, cores: float) -> None:
        """Add the load of a move to both machines from a minute on, for ``minutes`` (the last one in part).

        The source still carries the instance, and each machine the ``cores``. `move` was called before.
        """
        last = min(minute + ceil(minutes), int(self.end[instance]), self.workload.minutes)
        if last <= minute:
            return
        part = np.clip(minutes - np.arange(last - minute), 0.0, 1.0)
        copying = np.where(self.measured == CPU, cores, 0.0)[:, None] * part
        for row, cost in (
            (source, copying + self.demand(instance, minute, last) * part),
            (int(self.machine_of[instance]), copying),
        ):
            self.overhead[:, row, minute:last] += cost
            self.load[:, row, minute:last] += cost

    def running(self, minute: int) -> Integers:
        """Return the instances that run in this minute; not those that were evicted later."""
        return np.flatnonzero((self.placed >= 0) & (self.placed <= minute) & (self.end > minute))

    def readings(self, first: int, last: int) -> Floats:
        """Return [r, M, last - first]: the usage that agents would measure, which is the demand up to the capacity."""
        return np.minimum(self.load[:, :, first:last], self.capacity[:, :, None])

    def _add(self, instance: int, row: int, minute: int, sign: int) -> None:
        last = min(int(self.end[instance]), self.workload.minutes)
        if last > minute:
            demand = sign * self.demand(instance, minute, last)
            self.load[:, row, minute:last] += demand
            self.count[row, minute:last] += sign
            if self.workload.lower[instance]:
                self.lower[:, row, minute:last] += demand
                self.lower_count[row, minute:last] += sign
