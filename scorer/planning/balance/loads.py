"""The load of machines, changed by the moves of a plan, and its expected part above a limit."""

from dataclasses import dataclass

import numpy as np

from scorer.ranking.formulas.overload import expected_excess
from scorer.snapshot.arrays import Bools, Floats, Integers


@dataclass
class Loads:
    """K resources, M machines. Shares are of a machine's allocatable amount; an unknown one counts as no load."""

    utilization: Floats
    """[K, M] Mean load as a share."""
    variance: Floats
    """[K, M] Of the load, as a share squared."""
    inverse: Floats
    """[K, M] 1 / allocatable; 0 where unknown."""
    size: Floats
    """[K, M] Allocatable over the fleet's mean of it, times the resource's weight; 0 where unknown."""
    limit: float
    """The share above which load is overload."""
    weights: Floats
    """[K] They sum to 1."""

    @classmethod
    def of(cls, utilization: Floats, variance: Floats, allocatable: Floats, weights: Floats, limit: float) -> "Loads":
        """Return the loads of a fleet, all arguments [K, M]; ``weights`` [K] sum to 1."""
        known = np.isfinite(utilization) & (allocatable > 0)
        there = np.where(known, allocatable, 0.0)
        mean = there.sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
        size = np.divide(there, mean, out=np.zeros_like(there), where=mean > 0) * weights[:, None]
        inverse = np.divide(1.0, allocatable, out=np.zeros_like(there), where=known)
        return cls(np.where(known, utilization, 0.0), variance, inverse, size, limit, weights)

    def overload(self, utilization: Floats, variance: Floats, size: Floats) -> Floats:
        """Return [n]: the expected load above the limit, in mean machines, of loads [K, n].

        ``sum_k size * s * (phi(z) - z Q(z))`` with ``z = (limit - u) / s``, the load being normal.
        """
        spread = np.sqrt(variance)
        found: Floats = (size * spread * expected_excess((self.limit - utilization) / spread)).sum(axis=0)
        return found

    def now(self) -> Floats:
        """Return [M]: the expected overload of each machine."""
        return self.overload(self.utilization, self.variance, self.size)

    def of_one(self, machine: int) -> float:
        """Return the expected overload of one machine."""
        one = slice(machine, machine + 1)
        return float(self.overload(self.utilization[:, one], self.variance[:, one], self.size[:, one])[0])

    def without(self, machine: int, usage: Floats) -> Floats:
        """Return [n]: the overload of one machine without each of n instances, their usage [K, n].

        The variance stays unchanged, since the part of one instance is not known.
        """
        left = np.maximum(self.utilization[:, machine, None] - usage * self.inverse[:, machine, None], 0.0)
        return self.overload(left, self.variance[:, machine, None], self.size[:, machine, None])

    def with_one(self, usage: Floats, variance: Floats) -> tuple[Floats, Bools]:
        """Return [M]: the overload of each machine with one instance more, its usage and variance [K].

        Also return whether its mean load stays at or below the limit for every resource that the instance uses.
        """
        added = usage[:, None] * self.inverse
        after = self.utilization + added
        fits = ((after <= self.limit) | (added == 0)).all(axis=0)
        return self.overload(after, self.variance + variance[:, None] * self.inverse**2, self.size), fits

    def one_with(self, machine: int, usage: Floats, variance: Floats) -> float:
        """Return the overload of one machine with one instance more, its usage and variance [K]."""
        one, inverse = slice(machine, machine + 1), self.inverse[:, machine, None]
        after = self.utilization[:, one] + usage[:, None] * inverse
        spread = self.variance[:, one] + variance[:, None] * inverse**2
        return float(self.overload(after, spread, self.size[:, one])[0])

    def rise(self, machines: Integers, usage: Floats, variance: Floats, more: Floats) -> Floats:
        """Return [n]: the rise of the overload by ``more`` [K, n] on machines that also have an instance [K]."""
        inverse, size = self.inverse[:, machines], self.size[:, machines]
        before = self.utilization[:, machines] + usage[:, None] * inverse
        spread = self.variance[:, machines] + variance[:, None] * inverse**2
        return self.overload(before + more * inverse, spread, size) - self.overload(before, spread, size)

    def move(self, source: int, target: int, usage: Floats, variance: Floats) -> None:
        """Move an instance's usage and variance [K] from one machine to another."""
        self.leave(source, usage)
        self.utilization[:, target] += usage * self.inverse[:, target]
        self.variance[:, target] += variance * self.inverse[:, target] ** 2

    def leave(self, source: int, usage: Floats) -> None:
        """Take an instance's usage [K] off a machine."""
        self.utilization[:, source] = np.maximum(self.utilization[:, source] - usage * self.inverse[:, source], 0.0)

    def copy(self) -> "Loads":
        """Return a copy that can be changed."""
        return Loads(self.utilization.copy(), self.variance.copy(), self.inverse, self.size, self.limit, self.weights)
