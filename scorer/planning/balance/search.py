"""A plan of moves: each lowers the expected overload, given the moves before it.

The gain of a move is the fall of the expected overload (`Loads.overload`) at the source less its rise at the target.

Step by step, the machine with the highest expected overload gives away the instance, to the machine, that gains the
most. A step is kept only if

- it gains at least ``gain_min`` more than its copying costs (`scorer.planning.balance.tentative`);
- the target stays at or below the limit in the mean, and its expected overload at or below what the source had;
- every filter of the profile takes the instance there, on the ledger with the moves before it;
- the target has no other instance of its cluster.

Moves whose gains differ by less than `TIE` are equal: the target that leaves the fleet most even is taken, and the
instance whose memory takes the least time to copy. An instance moves once in a plan, and not sooner after it came than
``rest_s``.
"""

from collections.abc import Callable

import numpy as np

from scorer.planning.balance.tentative import Draft, Step, part_of_gain
from scorer.snapshot.arrays import Bools, Floats, Integers

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

    def run(self, moves_max: int) -> None:
        """Add steps until no move gains enough."""
        draft, worth = self.draft, max(self.settings.gain_min, 1e-12)
        while len(draft.steps) < moves_max and draft.open.any():
            source = int(np.where(draft.open, draft.overload, -1.0).argmax())
            if draft.overload[source] < worth:
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
        cut = self.draft.overload[source] - self.loads.without(source, self.movable.usage[:, there])
        equal = np.round(cut / max(float(cut.max()), 1e-300) / TIE)
        first = np.lexsort((-cut, self.movable.memory[there], -equal))[:CANDIDATES]
        found = [self._to_best_target(int(there[k]), float(cut[k])) for k in first.tolist()]
        steps = [step for step in found if step is not None]
        if not steps:
            return None
        best = max(step.gain - step.cost for step in steps) * (1 - TIE)
        return min((one for one in steps if one.gain - one.cost >= best), key=lambda step: (step.copy_s, -step.gain))

    def _to_best_target(self, instance: int, cut: float) -> Step | None:
        if cut < self.settings.gain_min:
            return None
        after, fits = self.draft.targets(instance, under_limit=True)
        gain = cut - (after - self.draft.overload)
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
        best = int(near[self._unevenness(machines[near], self.movable.usage[:, instance]).argmin()])
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
        at_source = self.loads.rise(source, none, none, copying)
        at_target = self.loads.rise(machines, usage, variance, copying)
        part = part_of_gain(self.draft.copy_seconds(instance, machines))
        return part * (cut + at_source + at_target)

    def _unevenness(self, machines: Integers, usage: Floats) -> Floats:
        """Return [n]: how much less even the fleet becomes with an instance on each of these machines."""
        added = usage[:, None] * self.loads.inverse[:, machines]
        found: Floats = self.loads.weights @ (added * (2 * self.loads.utilization[:, machines] + added))
        return found
