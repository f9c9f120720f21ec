"""The objective of a plan: the expected overload of both machines, or the variance of the fleet's utilization.

Each objective gives a machine a level; the source of a step is chosen by it. It also says what a move cuts at the
source and adds at the target. The gain of a move is the difference.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from scorer.planning.balance.loads import Loads
from scorer.snapshot.arrays import Floats, Integers


class Objective(Protocol):
    """A higher value is worse in all results but the bound."""

    def levels(self, loads: Loads, overload: Floats) -> Floats:
        """Return [M]: the level of each machine, by which the next source is chosen."""

    def most(self, loads: Loads, level: float) -> float:
        """Return a bound on the gain of one move from a machine with this level."""

    def cut(self, loads: Loads, overload: Floats, source: int, usage: Floats) -> Floats:
        """Return [n]: the fall of the source's part without each of n instances, their usage [K, n]."""

    def added(self, loads: Loads, overload: Floats, after: Floats, usage: Floats) -> Floats:
        """Return [M]: the rise of each target's part with an instance, usage [K]; ``after`` [M]: its overload then."""

    def rise(self, loads: Loads, machines: Integers, usage: Floats, variance: Floats, more: Floats) -> Floats:
        """Return [n]: the rise by ``more`` [K, n] on machines that also have an instance's usage and variance [K]."""


class LeastOverload:
    """The mean of the load above the limit (`Loads.overload`), in machines of mean size."""

    def levels(self, loads: Loads, overload: Floats) -> Floats:
        """Return [M]: the expected overload."""
        return overload

    def most(self, loads: Loads, level: float) -> float:
        """Return the level: a move cannot cut more."""
        return level

    def cut(self, loads: Loads, overload: Floats, source: int, usage: Floats) -> Floats:
        """Return [n]: the fall of the source's overload."""
        found: Floats = overload[source] - loads.without(source, usage)
        return found

    def added(self, loads: Loads, overload: Floats, after: Floats, usage: Floats) -> Floats:
        """Return [M]: the rise of each target's overload."""
        found: Floats = after - overload
        return found

    def rise(self, loads: Loads, machines: Integers, usage: Floats, variance: Floats, more: Floats) -> Floats:
        """Return [n]: the rise of the overload."""
        inverse = loads.inverse[:, machines]
        before = loads.utilization[:, machines] + usage[:, None] * inverse
        spread, size = loads.variance[:, machines] + variance[:, None] * inverse**2, loads.size[:, machines]
        found: Floats = loads.overload(before + more * inverse, spread, size) - loads.overload(before, spread, size)
        return found


class LeastVariance:
    """The sum over the machines of ``sum_k w_k (u - mean)^2``: n times the variance of the utilization, by weight.

    The mean is that before the step. The true fall of the variance is never smaller, since the mean minimises the sum.
    """

    def levels(self, loads: Loads, overload: Floats) -> Floats:
        """Return [M]: by how much a machine is above the mean, squared."""
        above = np.maximum(loads.utilization - loads.means(), 0.0) * (loads.inverse > 0)
        found: Floats = loads.weights @ above**2
        return found

    def most(self, loads: Loads, level: float) -> float:
        """Return the fall when the highest and the lowest machine both come to the mean."""
        known, means = loads.inverse > 0, loads.means()
        above = np.where(known, loads.utilization - means, 0.0).max(axis=1, initial=0.0)
        below = np.where(known, means - loads.utilization, 0.0).max(axis=1, initial=0.0)
        return float(loads.weights @ (above**2 + below**2)) if level > 0 else 0.0

    def cut(self, loads: Loads, overload: Floats, source: int, usage: Floats) -> Floats:
        """Return [n]: the fall of the source's part of the sum."""
        here = loads.utilization[:, source, None]
        removed = np.minimum(usage * loads.inverse[:, source, None], here)
        found: Floats = loads.weights @ (removed * (2 * (here - loads.means()) - removed))
        return found

    def added(self, loads: Loads, overload: Floats, after: Floats, usage: Floats) -> Floats:
        """Return [M]: the rise of each target's part of the sum."""
        more = usage[:, None] * loads.inverse
        found: Floats = loads.weights @ (more * (2 * (loads.utilization - loads.means()) + more))
        return found

    def rise(self, loads: Loads, machines: Integers, usage: Floats, variance: Floats, more: Floats) -> Floats:
        """Return [n]: the rise of their part of the sum."""
        inverse = loads.inverse[:, machines]
        before, share = loads.utilization[:, machines] + usage[:, None] * inverse, more * inverse
        found: Floats = loads.weights @ (share * (2 * (before - loads.means()) + share))
        return found


OBJECTIVES: dict[str, Objective] = {"overload": LeastOverload(), "variance": LeastVariance()}
