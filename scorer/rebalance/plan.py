"""A plan of moves: each cuts the expected overload of the fleet, and sees the moves before it.

Step by step, the machine with the highest expected overload gives away the instance, to the machine, that cuts the
overload of both together the most. A step is kept only if

- it cuts at least ``gain_min`` (a move costs something, too);
- the target stays at or below the limit in the mean, and below the overload that the source had;
- every filter of the profile takes the instance there, on the ledger with the moves before it;
- the target has no other instance of its cluster: what was apart stays apart.

An instance moves once in a plan, and not sooner after it came than ``rest_s``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from scorer.rebalance.loads import Loads
from scorer.snapshot.arrays import Bools, Floats, Integers

CANDIDATES = 4
"""So many instances of a source are tried on all machines in one step: those that relieve it the most."""

Allowed = Callable[[int], Bools]
"""[M] Which machines the filters let an instance go to, on the ledger with the moves before."""
Moved = Callable[[int, int], None]
"""Told of each step that is kept: an instance, and its target."""


@dataclass(frozen=True)
class Bounds:
    """What a plan may do."""

    moves_max: int = 50
    from_machine_max: int = 5
    to_machine_max: int = 5
    cluster_max: int = 1
    gain_min: float = 0.002
    """Least cut of a move, in machines of the fleet's mean size: 0.1 core of machines with 48."""

    def __post_init__(self) -> None:
        for name in ("moves_max", "from_machine_max", "to_machine_max", "cluster_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        if not 0 <= self.gain_min < float("inf"):
            raise ValueError(f"gain_min: expected zero or more, got {self.gain_min}")


@dataclass(frozen=True)
class Movable:
    """N instances as columns."""

    machine: Integers
    """[N] Place of the machine that each is on."""
    usage: Floats
    """[K, N] Expected mean usage."""
    variance: Floats
    """[K, N] Of the usage."""
    free: Bools
    """[N] Whether it may be moved."""
    cluster: Integers
    """[N] A number for each cluster; -1: of none."""


@dataclass(frozen=True)
class Step:
    """One move: places of the instance and of its machines, and the overload of both before and after."""

    instance: int
    source: int
    target: int
    gain: float
    source_before: float
    source_after: float
    target_before: float
    target_after: float
    utilization: Floats
    """[2, 2, K] Mean load of source and target (first axis), before and after (second)."""


def plan(loads: Loads, movable: Movable, bounds: Bounds, allowed: Allowed, moved: Moved) -> tuple[list[Step], Loads]:
    """Return the steps in their order, and the loads after them; ``loads`` stays as it is."""
    return _Draft(loads.copy(), movable, bounds, allowed, moved).run()


class _Draft:
    """A plan that is being made."""

    def __init__(self, loads: Loads, movable: Movable, bounds: Bounds, allowed: Allowed, moved: Moved) -> None:
        self.loads, self.movable, self.bounds = loads, movable, bounds
        self.allowed, self.moved = allowed, moved
        self.overload = loads.now()
        self.free = movable.free.copy()
        machines = len(self.overload)
        self.open = np.ones(machines, np.bool_)
        """[M] Sources that may still give something away."""
        self.given = np.zeros(machines, np.int64)
        self.taken = np.zeros(machines, np.int64)
        order = np.argsort(movable.machine, kind="stable")
        ends = np.searchsorted(movable.machine[order], np.arange(machines + 1))
        self._on: Callable[[int], Integers] = lambda m: order[ends[m] : ends[m + 1]]
        self._holders = _holders(movable)
        self._in_cluster: dict[int, int] = {}
        self.steps: list[Step] = []

    def run(self) -> tuple[list[Step], Loads]:
        """Make steps until nothing is worth one."""
        while len(self.steps) < self.bounds.moves_max:
            source = int(np.where(self.open, self.overload, -1.0).argmax()) if len(self.open) else -1
            if source < 0 or not self.open[source] or self.overload[source] < max(self.bounds.gain_min, 1e-12):
                break
            step = self._best(source)
            if step is None:
                self.open[source] = False
            else:
                self._keep(step)
        return self.steps, self.loads

    def _best(self, source: int) -> Step | None:
        there = self._on(source)
        there = there[self.free[there]]
        there = np.array([n for n in there.tolist() if self._may_go(n)], np.int64)
        if not len(there):
            return None
        cut = self.overload[source] - self.loads.without(source, self.movable.usage[:, there])
        first = np.argsort(-cut, kind="stable")[:CANDIDATES]
        steps = [self._to_best_target(int(there[k]), source, float(cut[k])) for k in first.tolist()]
        return max((step for step in steps if step is not None), key=lambda step: step.gain, default=None)

    def _may_go(self, instance: int) -> bool:
        cluster = int(self.movable.cluster[instance])
        return cluster < 0 or self._in_cluster.get(cluster, 0) < self.bounds.cluster_max

    def _to_best_target(self, instance: int, source: int, cut: float) -> Step | None:
        if cut < self.bounds.gain_min:
            return None
        usage, variance = self.movable.usage[:, instance], self.movable.variance[:, instance]
        after, fits = self.loads.with_one(usage, variance)
        gain = cut - (after - self.overload)
        fits &= (gain >= self.bounds.gain_min) & (after <= self.overload[source])
        fits &= self.taken < self.bounds.to_machine_max
        fits[source] = False
        cluster = int(self.movable.cluster[instance])
        for machine in self._holders.get(cluster, ()) if cluster >= 0 else ():
            fits[machine] = False
        if not fits.any():
            return None
        fits &= self.allowed(instance)
        if not fits.any():
            return None
        target = int(np.where(fits, gain, -np.inf).argmax())
        inverse, loads = self.loads.inverse, self.loads.utilization
        utilization = np.array(
            [
                [loads[:, source], np.maximum(loads[:, source] - usage * inverse[:, source], 0.0)],
                [loads[:, target], loads[:, target] + usage * inverse[:, target]],
            ]
        )
        before = float(self.overload[source])
        return Step(
            instance, source, target, float(gain[target]), before, before - cut,
            float(self.overload[target]), float(after[target]), utilization,
        )  # fmt: skip

    def _keep(self, step: Step) -> None:
        movable = self.movable
        self.loads.move(step.source, step.target, movable.usage[:, step.instance], movable.variance[:, step.instance])
        self.overload[step.source], self.overload[step.target] = step.source_after, step.target_after
        self.free[step.instance] = False
        self.given[step.source] += 1
        self.taken[step.target] += 1
        self.open[step.source] = self.given[step.source] < self.bounds.from_machine_max
        cluster = int(movable.cluster[step.instance])
        if cluster >= 0:
            self._in_cluster[cluster] = self._in_cluster.get(cluster, 0) + 1
            self._holders.setdefault(cluster, []).append(step.target)
        self.steps.append(step)
        self.moved(step.instance, step.target)


def _holders(movable: Movable) -> dict[int, list[int]]:
    """Return the machines of each cluster's instances."""
    found: dict[int, list[int]] = {}
    for n in np.flatnonzero(movable.cluster >= 0).tolist():
        found.setdefault(int(movable.cluster[n]), []).append(int(movable.machine[n]))
    return found


def totals(before: Loads, after: Loads) -> Mapping[str, tuple[float, float]]:
    """Return, before and after: overload in mean machines, machines above the limit, highest and std of utilization.

    Those of utilization are of the resource with the highest one before.
    """
    worst = int(before.utilization.max(axis=1).argmax()) if before.utilization.size else 0

    def of(loads: Loads) -> tuple[float, float, float, float]:
        if not loads.utilization.size:
            return 0.0, 0.0, 0.0, 0.0
        over = (loads.utilization > loads.limit).any(axis=0).sum()
        row = loads.utilization[worst]
        return float(loads.now().sum()), float(over), float(row.max()), float(row.std())

    names = ("overload", "machines_over", "highest", "std")
    return dict(zip(names, zip(of(before), of(after), strict=True), strict=True))
