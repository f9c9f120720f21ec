"""A plan of moves: each lowers the objective, given the moves before it.

The objective is the expected overload of both machines, or the variance of the fleet's utilization. It gives a machine
a level, by which the source of a step is chosen. The gain of a move is the fall at the source less the rise at the
target.

Step by step, the machine with the highest level of the objective gives away the instance, to the machine, that gains
the most. A step is kept only if

- it gains at least ``gain_min`` more than its copying costs (`scorer.planning.balance.cost`);
- the target stays at or below the limit in the mean, and its expected overload at or below what the source had;
- every filter of the profile takes the instance there, on the ledger with the moves before it;
- the target has no other instance of its cluster.

Moves whose gains differ by less than `TIE` are equal: the target that leaves the fleet most even is taken, and the
instance whose memory takes the least time to copy. An instance moves once in a plan, and not sooner after it came than
``rest_s``.
"""

from collections.abc import Callable

import numpy as np

from scorer.planning.balance.cost import part_of_gain
from scorer.planning.balance.loads import Loads
from scorer.planning.balance.moves import Step
from scorer.planning.balance.tentative import Draft
from scorer.snapshot.arrays import Bools, Floats, Integers


class LeastOverload:
    """The mean of the load above the limit (`Loads.overload`), in machines of mean size."""

    def levels(self, loads: Loads, overload: Floats) -> Floats:
        """Return [M]: the expected overload; the next source is the machine with the highest."""
        return overload

    def most(self, loads: Loads, level: float) -> float:
        """Return a bound on the gain of a move from a machine with this level: a move reduces no more than all."""
        return level

    def cut(self, loads: Loads, overload: Floats, source: int, usage: Floats) -> Floats:
        """Return [n]: the fall of the source's overload without each of n instances, their usage [K, n]."""
        found: Floats = overload[source] - loads.without(source, usage)
        return found

    def added(self, loads: Loads, overload: Floats, after: Floats, usage: Floats) -> Floats:
        """Return [M]: the rise of each target with an instance, usage [K]; ``after`` [M]: its overload then."""
        found: Floats = after - overload
        return found

    def rise(self, loads: Loads, machines: Integers, usage: Floats, variance: Floats, more: Floats) -> Floats:
        """Return [n]: the rise by ``more`` [K, n] on machines that also have an instance's usage and variance [K]."""
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
        """Return the fall if the highest and the lowest machine both reach the mean."""
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
        """Return [n]: the rise of these machines' part of the sum."""
        inverse = loads.inverse[:, machines]
        before, share = loads.utilization[:, machines] + usage[:, None] * inverse, more * inverse
        found: Floats = loads.weights @ (share * (2 * (before - loads.means()) + share))
        return found


OBJECTIVES: dict[str, LeastOverload | LeastVariance] = {"overload": LeastOverload(), "variance": LeastVariance()}


CANDIDATES = 4
"""Instances of a source that are tried on all machines in one step: those that relieve it the most."""
FINALISTS = 16
"""Targets of an instance for which the cost of the copy is computed."""
TIE = 0.01
"""The part of the best gain within which moves are equal."""

Allowed = Callable[[int], Bools]
"""[M] Which machines the filters let an instance go to, on the ledger with the moves before."""


def plan(draft: Draft, allowed: Allowed, moves_max: int) -> None:
    """Add the steps to a draft that has none yet, at most ``moves_max``."""
    _Search(draft, allowed).run(moves_max)


class _Search:
    """Looks for the next step of a draft."""

    def __init__(self, draft: Draft, allowed: Allowed) -> None:
        self.draft, self.allowed = draft, allowed
        self.loads, self.movable, self.settings = draft.loads, draft.movable, draft.settings
        self.objective = OBJECTIVES[draft.settings.objective]

    def run(self, moves_max: int) -> None:
        """Add steps until no move gains enough."""
        draft, worth = self.draft, max(self.settings.gain_min, 1e-12)
        while len(draft.steps) < moves_max and draft.open.any():
            levels = np.where(draft.open, self.objective.levels(self.loads, draft.overload), -1.0)
            source = int(levels.argmax())
            if self.objective.most(self.loads, float(levels[source])) < worth:
                break
            step = self._best(source)
            if step is None:
                draft.open[source] = False
            else:
                draft.keep(step)

    def _best(self, source: int) -> Step | None:
        there = self.draft.candidates(source)
        if not len(there):
            return None
        cut = self.objective.cut(self.loads, self.draft.overload, source, self.movable.usage[:, there])
        equal = np.round(cut / max(float(cut.max()), 1e-300) / TIE)
        first = np.lexsort((-cut, self.movable.memory[there], -equal))[:CANDIDATES]
        found = [self._to_best_target(int(there[k]), float(cut[k])) for k in first.tolist()]
        steps = [step for step in found if step is not None]
        if not steps:
            return None
        best = max(step.gain - step.cost for step in steps) * (1 - TIE)
        return min((one for one in steps if one.gain - one.cost >= best), key=lambda step: (step.copy_s, -step.gain))

    def _to_best_target(self, instance: int, cut: float) -> Step | None:
        if self.settings.objective == "overload" and cut < self.settings.gain_min:
            return None
        after, fits = self.draft.targets(instance, under_limit=True)
        usage = self.movable.usage[:, instance]
        gain = cut - self.objective.added(self.loads, self.draft.overload, after, usage)
        fits &= (gain >= self.settings.gain_min) & (gain > 0)
        if not fits.any():
            return None
        fits &= self.allowed(instance)
        if not fits.any():
            return None
        machines = self._finalists(instance, cut, gain, np.flatnonzero(fits))
        cost = self._cost(instance, cut, machines)
        net = gain[machines] - cost
        if net.max() < self.settings.gain_min or net.max() <= 0:
            return None
        near = np.flatnonzero(net >= net.max() * (1 - TIE))
        best = int(near[self._unevenness(machines[near], usage).argmin()])
        target = int(machines[best])
        return self.draft.step(instance, target, float(gain[target]), float(cost[best]))

    def _finalists(self, instance: int, cut: float, gain: Floats, machines: Integers) -> Integers:
        """Return at most `FINALISTS` of some machines: those with the highest gain without the cost of copying.

        Among equal gains it prefers machines that leave the fleet most even.
        """
        if len(machines) <= FINALISTS:
            return machines
        most = gain[machines] - part_of_gain(self.draft.copy_seconds(instance, machines)) * cut
        near = np.flatnonzero(most >= most.max() * (1 - TIE))
        if len(near) <= FINALISTS:
            return machines[np.argpartition(-most, FINALISTS)[:FINALISTS]]
        uneven = self._unevenness(machines[near], self.movable.usage[:, instance])
        return machines[near[np.argpartition(uneven, FINALISTS)[:FINALISTS]]]

    def _cost(self, instance: int, cut: float, machines: Integers) -> Floats:
        """Return [n]: the cost of copying an instance to each of these machines."""
        movable, copying = self.movable, self.draft.copying(instance, machines)
        source, none = np.full(len(machines), movable.machine[instance]), np.zeros(len(copying))
        usage, variance = movable.usage[:, instance], movable.variance[:, instance]
        at_source = self.objective.rise(self.loads, source, none, none, copying)
        at_target = self.objective.rise(self.loads, machines, usage, variance, copying)
        part = part_of_gain(self.draft.copy_seconds(instance, machines))
        return part * (cut + at_source + at_target)

    def _unevenness(self, machines: Integers, usage: Floats) -> Floats:
        """Return [n]: how much less even the fleet becomes with an instance on each of these machines."""
        added = usage[:, None] * self.loads.inverse[:, machines]
        found: Floats = self.loads.weights @ (added * (2 * self.loads.utilization[:, machines] + added))
        return found
