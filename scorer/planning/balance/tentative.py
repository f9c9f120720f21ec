"""A plan in progress (`Draft`), and the search for its steps: each lowers the expected overload, given those before it.

The gain of a move is the fall of the expected overload (`Loads.overload`) at the source less its rise at the target.

Step by step, the machine with the highest expected overload gives away the instance, to the machine, that gains the
most. A step is kept only if

- it gains at least ``gain_min`` more than its copying costs (`part_of_gain`);
- the target stays at or below the limit in the mean, and its expected overload at or below what the source had;
- every filter of the profile takes the instance there, on the ledger with the moves before it;
- the target has no other instance of its cluster.

Moves whose gains differ by less than `TIE` are equal: the target that leaves the fleet most even is taken, and the
instance whose memory takes the least time to copy. An instance moves once in a plan, and not sooner after it came than
``rest_s``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from scorer.planning.balance.scene import Loads
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.snapshot.arrays import Bools, Floats, Integers, by_row, known_or

UNKNOWN_NIC = 125e6
"""Bytes/s of a NIC whose speed is not known: 1 Gbit/s."""
UNKNOWN_MEMORY = 4 * 2.0**30
"""Bytes for each core that an instance asks for, when its memory is unknown."""
COPY_CORES = 1.0
"""Cores that the copying takes on each of both machines."""
LASTS_S = 1800.0
"""How long a gain lasts, s: the expected overload is calibrated for the next half hour (docs/results/tuning.md)."""


def copy_rates(nic: Floats, share: float, unknown: float = UNKNOWN_NIC) -> Floats:
    """Return [M] the rate of a copy on each machine's NIC, bytes/s; ``nic`` [M]: the capacities.

    >>> copy_rates(np.array([1.25e9, np.nan]), 0.5).tolist()
    [625000000.0, 62500000.0]
    """
    found: Floats = np.where(known_or(nic, 0.0) > 0, known_or(nic, 0.0), unknown) * share
    return found


def copy_seconds(memory_bytes: float, source: float, target: Floats) -> Floats:
    """Return the seconds that a copy takes at the slower of two rates; both machines are busy meanwhile.

    >>> float(copy_seconds(12.5e9, 625e6, np.float64(62.5e6)))
    200.0
    """
    found: Floats = memory_bytes / np.minimum(source, target)
    return found


def memory_of(usage: Floats, cores: Floats) -> Floats:
    """Return [N] the bytes that a move copies: the memory used, or `UNKNOWN_MEMORY` for each requested core.

    >>> memory_of(np.array([1e9, 0.0, np.nan]), np.array([2.0, 2.0, 0.5])).tolist()
    [1000000000.0, 8589934592.0, 2147483648.0]
    """
    known = known_or(usage, 0.0)
    found: Floats = np.where(known > 0, known, UNKNOWN_MEMORY * cores)
    return found


def part_of_gain(seconds: Floats) -> Floats:
    """Return [n] the part of `LASTS_S` that copies of these durations take, at most 1: what a move costs of its gain.

    The memory of the instance is copied over the NICs of both machines. Until the copy is done both carry the instance
    and the copying: `COPY_CORES`, and the bytes on the NIC. The load is assumed to last for `LASTS_S`. Over that time
    the mean effect of a move is its gain less

        cost = t / LASTS_S * (cut + rise of the source + rise of the target),   t: seconds of the copy, LASTS_S at most

    in machines of mean size. During the copy the source keeps the load that the move removes (``cut``), and the copying
    adds the two rises: to the source as it is, and to the target with the instance.

    >>> part_of_gain(np.array([0.0, 450.0, 1e9])).tolist()
    [0.0, 0.25, 1.0]
    """
    found: Floats = np.minimum(seconds / LASTS_S, 1.0)
    return found


NEGLIGIBLE = 1e-6
"""Expected overload, in machines of mean size, that counts as none."""

Moved = Callable[[int, int], None]
"""Called with the instance and the target of each step that is kept."""


@dataclass(frozen=True)
class Movable:
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
    memory: Floats
    """[N] Bytes that a move copies."""


@dataclass(frozen=True)
class Hosts:
    """M machines as columns: the number of moves that each may have in a plan."""

    gives: Bools
    """[M] Whether it may give instances away."""
    takes: Bools
    """[M] Whether it may take them."""
    ceiling: Floats
    """[K] The share that a target stays at or below; infinite: none."""
    copy_rate: Floats
    """[M] Bytes/s that a copy may take of its NIC."""
    given: Integers
    """[M] Instances that it gave away in the last hour."""
    taken: Integers
    """[M] Instances that it took in the last hour."""
    copy_cores: Floats
    """[K] The load of a copy on each resource besides the NIC, on either machine."""
    copied: Floats
    """[K] The load of a copy for each byte/s of its rate: 1 of the NIC, 0 of the others."""


@dataclass(frozen=True)
class Step:
    """One move: the positions of the instance and its machines, and the overload of both before and after."""

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
    cost: float = 0.0
    """The cost of the copying, in the unit of the gain (`scorer.planning.balance.tentative`)."""
    copy_bytes: float = 0.0
    copy_s: float = 0.0
    """How long the copy of its memory takes, s."""
    reason: str = field(default="", compare=False)
    """The reason that the rule gives, if any."""


class Draft:
    """The steps so far; `keep` adds one and changes ``loads``."""

    def __init__(
        self, loads: Loads, movable: Movable, settings: Rebalancing, hosts: Hosts, moved: Moved = lambda *_: None
    ) -> None:
        self.loads, self.movable, self.settings, self.hosts = loads, movable, settings, hosts
        self._moved = moved
        self.overload = loads.now()
        self.free = movable.free.copy()
        machines = len(self.overload)
        self._given, self._taken = hosts.given.copy(), hosts.taken.copy()
        self.open = hosts.gives & (self._given < settings.from_machine_max)
        """[M] Whether a source may still give an instance away."""
        self._on = by_row(movable.machine, machines)
        self._holders = _holders(movable)
        self._in_cluster: dict[int, int] = {}
        self.steps: list[Step] = []

    def candidates(self, source: int) -> Integers:
        """Return the instances of a machine that may leave it."""
        there = self._on(source)
        return np.array([n for n in there[self.free[there]].tolist() if self.may_go(n)], np.int64)

    def may_go(self, instance: int) -> bool:
        """Return whether an instance may move, and its cluster and its machine have moves left."""
        cluster = int(self.movable.cluster[instance])
        in_cluster = cluster < 0 or self._in_cluster.get(cluster, 0) < self.settings.cluster_max
        return bool(
            self.free[instance]
            and in_cluster
            and self._given[self.movable.machine[instance]] < self.settings.from_machine_max
        )

    def takes(self) -> Bools:
        """Return [M]: the machines that may take one more."""
        return self.hosts.takes & (self._taken < self.settings.to_machine_max)

    def targets(self, instance: int, under_limit: bool) -> tuple[Floats, Bools]:
        """Return [M]: each machine's overload with an instance, and whether it may take it.

        A target then stays at or below the source's present overload, or `NEGLIGIBLE`, and has no other instance of its
        cluster. ``under_limit``: its mean load also stays at or below the limit.
        """
        usage, source = self.movable.usage[:, instance], int(self.movable.machine[instance])
        after, fits = self.loads.with_one(usage, self.movable.variance[:, instance])
        fits = (fits if under_limit else True) & self.takes() & (after <= max(self.overload[source], NEGLIGIBLE))
        fits[source] = False
        cluster = int(self.movable.cluster[instance])
        for machine in self._holders.get(cluster, ()) if cluster >= 0 else ():
            fits[machine] = False
        if np.isfinite(self.hosts.ceiling).any():
            added = usage[:, None] * self.loads.inverse
            below = self.loads.utilization + added <= self.hosts.ceiling[:, None]
            fits &= (below | (added == 0)).all(axis=0)
        return after, fits

    def copy_seconds(self, instance: int, targets: Integers) -> Floats:
        """Return [n]: the seconds that it takes to copy an instance's memory to each of these machines."""
        rate, source = self.hosts.copy_rate, int(self.movable.machine[instance])
        return copy_seconds(float(self.movable.memory[instance]), float(rate[source]), rate[targets])

    def copying(self, instance: int, targets: Integers) -> Floats:
        """Return [K, n]: the load of the copying on source and target, which is the same on both."""
        rate, source = self.hosts.copy_rate, int(self.movable.machine[instance])
        found: Floats = self.hosts.copy_cores[:, None] + self.hosts.copied[:, None] * np.minimum(
            rate[source], rate[targets]
        )
        return found

    def step(self, instance: int, target: int, gain: float | None = None, cost: float = 0.0) -> Step:
        """Return the move of an instance; ``gain`` defaults to the fall of the expected overload of both machines."""
        source, usage = int(self.movable.machine[instance]), self.movable.usage[:, instance]
        inverse, loads = self.loads.inverse, self.loads.utilization
        utilization = np.array(
            [
                [loads[:, source], np.maximum(loads[:, source] - usage * inverse[:, source], 0.0)],
                [loads[:, target], loads[:, target] + usage * inverse[:, target]],
            ]
        )
        before = float(self.overload[source]), float(self.overload[target])
        source_after = float(self.loads.without(source, usage[:, None])[0])
        target_after = self.loads.one_with(target, usage, self.movable.variance[:, instance])
        gain = sum(before) - source_after - target_after if gain is None else gain
        return Step(
            instance, source, target, gain, before[0], source_after, before[1], target_after, utilization,
            cost, float(self.movable.memory[instance]), float(self.copy_seconds(instance, np.array([target]))[0]),
        )  # fmt: skip

    def keep(self, step: Step) -> None:
        self._make(step.instance, step.source, step.target)
        self.overload[step.source], self.overload[step.target] = step.source_after, step.target_after
        self.steps.append(step)

    def take_as_made(self, instance: int, target: int) -> None:
        """Count a move under way as made."""
        source = int(self.movable.machine[instance])
        self._make(instance, source, target)
        for machine in (source, target):
            self.overload[machine] = self.loads.of_one(machine)

    def see_leaving(self, instance: int, target: int | None) -> None:
        """Remove an instance from its machine, since its target is reserved and has its load already."""
        movable, source = self.movable, int(self.movable.machine[instance])
        self.loads.leave(source, movable.usage[:, instance])
        self.overload[source] = self.loads.of_one(source)
        cluster = int(movable.cluster[instance])
        if cluster >= 0:
            self._in_cluster[cluster] = self._in_cluster.get(cluster, 0) + 1
            if target is not None:
                self._holders.setdefault(cluster, []).append(target)

    def relief(self, instance: int, other: int, usage: Floats) -> float:
        """Return by how much the overload of both machines falls if an instance hands this usage [K] to another.

        It is infinitely negative where the other's machine takes nothing, or would be above the limit in the mean.
        """
        source, target = self.movable.machine[[instance, other]].tolist()
        after, added = self.loads.one_with(target, usage, np.zeros_like(usage)), usage * self.loads.inverse[:, target]
        over = (self.loads.utilization[:, target] + added > self.loads.limit) & (added > 0)
        if not self.hosts.takes[target] or over.any():
            return -np.inf
        falls = self.overload[source] - self.loads.without(source, usage[:, None])[0]
        return float(falls + self.overload[target] - after)

    def hand_over(self, instance: int, other: int, usage: Floats) -> float:
        """Move a part [K] of an instance's load to another's machine; return by how much the overload of both falls."""
        source, target = ends = self.movable.machine[[instance, other]].tolist()
        before = self.overload[ends].sum()
        self.loads.move(source, target, usage, np.zeros_like(usage))
        self.overload[ends] = [self.loads.of_one(machine) for machine in ends]
        return float(before - self.overload[ends].sum())

    def engage(self, *instances: int) -> None:
        """Let instances of a cluster stay from now on, as one change of it."""
        self.free[[*instances]] = False
        cluster = int(self.movable.cluster[instances[0]])
        if cluster >= 0:
            self._in_cluster[cluster] = self._in_cluster.get(cluster, 0) + 1

    def _make(self, instance: int, source: int, target: int) -> None:
        movable = self.movable
        self.loads.move(source, target, movable.usage[:, instance], movable.variance[:, instance])
        self.engage(instance)
        self._given[source] += 1
        self._taken[target] += 1
        self.open[source] &= self._given[source] < self.settings.from_machine_max
        cluster = int(movable.cluster[instance])
        if cluster >= 0:
            self._holders.setdefault(cluster, []).append(target)
        self._moved(instance, target)


def _holders(movable: Movable) -> dict[int, list[int]]:
    """Return the machines of each cluster's instances."""
    found: dict[int, list[int]] = {}
    for n in np.flatnonzero(movable.cluster >= 0).tolist():
        found.setdefault(int(movable.cluster[n]), []).append(int(movable.machine[n]))
    return found


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
