"""The inputs of a plan: loads of the machines, usage of their instances, and which machines have fresh data."""

from dataclasses import dataclass

import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.instance_table import FIRST
from scorer.classes.class_usage import current_rows
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.slots import PlacedInstances
from scorer.planning.candidates import instances_on
from scorer.ranking.formulas.overload import expected_excess
from scorer.ranking.inputs import RankingInputs, machines_of
from scorer.ranking.machines import Machines
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.snapshot.arrays import Bools, Floats, Integers, known_or
from scorer.snapshot.snapshot import Snapshot


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


VARIATION = 1.0
"""The largest coefficient of variation of a running instance: its usage is known better than a new one's."""

COUNT_MIN = 6
"""The least number of reports of a figure that is used: the first minutes of an instance are not typical."""


@dataclass(frozen=True)
class Scene:
    """R resources, K of them with a weight, M machines, N instances."""

    inputs: RankingInputs
    machines: Machines
    fresh: Bools
    """[M] Whether there is a fresh figure of the machine."""
    resources: tuple[str, ...]
    """K"""
    loads: Loads
    instances: list[Instance]
    placed: PlacedInstances
    usage: Floats
    """[R, N] Measured, or else expected by the profile."""
    variance: Floats
    """[R, N] Of the usage."""
    measured: Bools
    """[N] Whether the usage is measured."""

    @property
    def snapshot(self) -> Snapshot:
        return self.inputs.snapshot

    @property
    def rows(self) -> list[int]:
        """[K] Places of the resources with a weight."""
        return [RESOURCES.index(name) for name in self.resources]


def scene_of(inputs: RankingInputs) -> Scene:
    """Return the scene of a fleet at a moment.

    Weights, limit and floor of the loads are those of the profile's `ExpectedOverload`, or its defaults; its
    coefficient of variation, too, up to `VARIATION`. The variance of a machine is ``deviation^2 + floor^2``: the
    floor is the least error of a mean over a window. Machines without fresh data have no load.
    """
    score = inputs.profile.find(ExpectedOverload) or ExpectedOverload()
    resources = tuple(name for name in RESOURCES if score.weights.get(name, 0) > 0)
    rows = [RESOURCES.index(name) for name in resources]
    weights = np.array([score.weights[name] for name in resources])
    machines = machines_of(inputs)
    fresh = machines.has_data & (machines.age_s <= inputs.profile.stale_s)
    loads = Loads.of(
        np.where(fresh, machines.utilization[rows], np.nan),
        known_or(machines.deviation[rows] * score.std_factor, 0.0) ** 2 + score.floor**2,
        machines.allocatable[rows],
        weights / weights.sum(),
        score.limit,
    )
    instances, placed = instances_on(inputs.snapshot, inputs.ledger)
    expected = machines.estimate.of_records(placed.records)
    unmeasured = (min(score.variation, VARIATION) * expected) ** 2
    usage, variance, known = measured(inputs.snapshot, placed, expected, unmeasured)
    return Scene(inputs, machines, fresh, resources, loads, instances, placed, usage, variance, known)


def measured(
    snapshot: Snapshot, placed: PlacedInstances, expected: Floats, variance: Floats
) -> tuple[Floats, Floats, Bools]:
    """Return usage and variance [R, N] of instances, measured where possible, and [N] whether they are.

    The usage is ``0.8 recent + 0.2 daily``, or the one that is known. Other instances keep the expected usage. Whether
    a report is current follows the one rule of all its readers (`scorer.classes.class_usage.current_rows`): while data
    are late a plan and an over-commit see the same use of an instance.
    """
    columns = snapshot.usages.columns
    rows = current_rows(snapshot, placed)
    rows = np.where(columns.take(columns.count, rows) >= COUNT_MIN, rows, -1)
    usage, spread = columns.take(columns.mean, rows), variance.copy()
    own = columns.take(columns.variance, rows)
    spread[:FIRST] = np.where(np.isfinite(own), own, variance[:FIRST])
    return np.where(np.isfinite(usage), usage, expected), spread, rows >= 0
