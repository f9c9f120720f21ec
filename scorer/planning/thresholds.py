"""LowNodeLoad of Koordinator's descheduler: machines above a threshold give to machines below one. Pure.

Thresholds are in per cent of capacity, fixed or around the mean, and compared twice: with the usage of all instances,
and with that of production. Machines over their thresholds for all instances come first; those over the thresholds for
production follow, with the remaining room. How many overloaded rounds in a row make a machine a source is a state kept
between rounds. No target is chosen here: an instance leaves when some target would take it.

Reference: koordinator-sh/koordinator, pkg/descheduler/framework/plugins/loadaware.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scorer.ranking.profiles.rebalance_section import INSTANCES, Percents, Rebalancing
from scorer.snapshot.arrays import Bools, Floats, Integers

FORGOTTEN_S = 300.0
"""The state of a machine that was not over for this long is dropped, s."""


@dataclass(frozen=True)
class Condition:
    """When a machine counts as abnormal.

    It does from the round in which its count of overloaded rounds is **more** than ``abnormal``. That ends
    ``timeout_s`` after that round, or with more than ``normal`` normal marks in a row. With ``abnormal`` 1 nothing is
    counted.
    """

    abnormal: int = 5
    normal: int = 3
    timeout_s: float = 60.0
    forgotten_s: float = FORGOTTEN_S


@dataclass
class Detector:
    """The state of one machine. A mark of one kind ends the run of the other; a change of state ends both."""

    condition: Condition
    anomalous: bool = False
    abnormal: int = 0
    normal: int = 0
    until: float = 0.0
    over_at: float = 0.0
    """When it was last overloaded."""

    def state(self, now_s: float) -> bool:
        """Return whether the machine counts as abnormal now."""
        if self.anomalous and (self.until < now_s or self.normal > self.condition.normal):
            self._become(False, now_s)
        return self.anomalous

    def mark(self, normal: bool, now_s: float) -> bool:
        """Record a round; return the state after it."""
        self.state(now_s)
        if normal:
            self.normal, self.abnormal = self.normal + 1, 0
            if self.anomalous and self.normal > self.condition.normal:
                self._become(False, now_s)
        else:
            self.normal, self.abnormal = 0, self.abnormal + 1
            if not self.anomalous and self.abnormal > self.condition.abnormal:
                self._become(True, now_s)
        return self.state(now_s)

    def reset(self, now_s: float) -> None:
        """End the abnormal state; the count of a machine in the normal state stays."""
        if self.anomalous:
            self._become(False, now_s)

    def _become(self, anomalous: bool, now_s: float) -> None:
        self.anomalous = anomalous
        self.abnormal = self.normal = 0
        self.until = now_s + self.condition.timeout_s if anomalous else 0.0


@dataclass
class Detectors:
    """The states by machine; the state of a machine that was not overloaded for ``forgotten_s`` is dropped."""

    by_machine: dict[str, Detector] = field(default_factory=dict)

    def abnormal(self, machines: Iterable[str], condition: Condition | None, now_s: float) -> list[str]:
        """Record that these machines are overloaded, and return those that count as abnormal."""
        if condition is None or condition.abnormal == 1:
            return list(machines)
        self.by_machine = {
            machine: one for machine, one in self.by_machine.items() if now_s - one.over_at <= condition.forgotten_s
        }
        found = []
        for machine in machines:
            detector = self.by_machine.setdefault(machine, Detector(condition))
            detector.over_at = now_s
            if detector.mark(False, now_s):
                found.append(machine)
        return found

    def reset(self, machines: Iterable[str], now_s: float) -> None:
        """End the abnormal state of machines that are underloaded, or no longer overloaded."""
        for machine in machines:
            if (detector := self.by_machine.get(machine)) is not None:
                detector.reset(now_s)

    def mark_normal(self, machines: Iterable[str], now_s: float) -> None:
        """Record that these machines were relieved."""
        for machine in machines:
            if (detector := self.by_machine.get(machine)) is not None:
                detector.mark(True, now_s)


@dataclass
class SideDetectors:
    """The states for balancing by thresholds: for the usage of all instances, and for that of production."""

    machines: Detectors = field(default_factory=Detectors)
    prod: Detectors = field(default_factory=Detectors)


@dataclass(frozen=True)
class Pool:
    """K resources, M machines, N instances. Amounts are whole units, cpu in thousandths of a core.

    For `INSTANCES` each instance counts 1 on its machine, and 0 on a target that is tried.
    """

    resources: tuple[str, ...]
    machines: tuple[str, ...]
    capacity: Floats
    """[K, M] 0 where a machine has none of a resource."""
    schedulable: Bools
    """[M]"""
    system: Floats
    """[K, M] Usage that is of no instance."""
    instances: tuple[str, ...]
    machine: Integers
    """[N] Place of each instance's machine."""
    usage: Floats
    """[K, N]"""
    prod: Bools
    """[N] Whether it counts for the thresholds of production."""
    movable: Bools
    """[N]"""
    class_rank: Integers
    """[N] By `CLASS_RANK`."""
    since: Floats
    """[N] When each instance came."""
    known: Bools | None = None
    """[M] Whether there is a fresh figure of the machine; None: of all."""

    def fresh(self) -> "Pool":
        """Return the pool without machines that have no fresh data."""
        if self.known is None or self.known.all():
            return self
        kept = np.flatnonzero(self.known)
        place = np.full(len(self.machines), -1, np.int64)
        place[kept] = np.arange(len(kept))
        chosen = np.flatnonzero(place[self.machine] >= 0)
        of_machines = ("machines", "capacity", "schedulable", "system")
        of_instances = ("instances", "usage", "prod", "movable", "class_rank", "since")
        picked = {name: _picked(getattr(self, name), kept) for name in of_machines}
        picked |= {name: _picked(getattr(self, name), chosen) for name in of_instances}
        return replace(self, **picked, machine=place[self.machine[chosen]], known=None)

    def used(self, members: Bools | None = None) -> Floats:
        """Return [K, M]: the usage of system and instances; with ``members`` that of these instances alone.

        For `INSTANCES` it is their number.
        """
        chosen = np.arange(len(self.instances)) if members is None else np.flatnonzero(members)
        total = np.zeros_like(self.system) if members is not None else self.system.copy()
        for k, resource in enumerate(self.resources):
            amounts = np.ones(len(chosen)) if resource == INSTANCES else self.usage[k, chosen]
            counted = np.bincount(self.machine[chosen], amounts, len(self.machines))
            total[k] = counted if resource == INSTANCES else total[k] + counted
        return total


def _picked(values: Any, places: Integers) -> Any:
    """Return the columns at these positions of the last axis."""
    return tuple(values[n] for n in places) if isinstance(values, tuple) else values[..., places]


ALWAYS = "memory"
"""A resource that is always compared, whether a threshold names it or not."""

ROUNDING = 1e-9
"""By which share of a limit a sum of usages may miss it: how a sum is rounded depends on its order, and on Python."""


def reached(limit: Floats) -> Floats:
    """Return the largest value that counts as equal to the limit.

    >>> 0.1 + 0.2 > 0.3, bool(0.1 + 0.2 > reached(np.float64(0.3)))
    (True, False)
    """
    return limit * (1 + ROUNDING)


@dataclass
class Side:
    """One of the two comparisons: all instances, or those of production."""

    name: str
    used: Floats
    """[K, M] As the thresholds, in the units of the pool."""
    low: Floats
    high: Floats
    percents: Floats
    """[K] The high ones, as compared: with ``deviation`` the mean is in them."""
    detectors: Detectors

    def over(self) -> Bools:
        """Return [M]: whether any resource is above its high threshold."""
        return np.asarray((self.used > reached(self.high)).any(axis=0))

    def under(self) -> Bools:
        """Return [M]: whether no resource is above its low threshold."""
        return np.asarray((self.used <= reached(self.low)).all(axis=0))


@dataclass(frozen=True)
class Classes:
    """Positions of machines in the pool, by their role in the round."""

    low: Integers
    high: Integers
    prod_low: Integers
    prod_high: Integers
    both_low: Integers


def compared(settings: Rebalancing) -> list[str]:
    """Return the compared resources: all that a threshold names, and memory."""
    maps = (settings.low, settings.high, settings.prod_low, settings.prod_high)
    return list(dict.fromkeys([name for each in maps for name in each] + [ALWAYS]))


def sides(pool: Pool, settings: Rebalancing, memory: SideDetectors) -> tuple[Side, Side]:
    """Return both comparisons of a pool: of all instances, and of those of production.

    A resource without a low threshold has none, even where ``high`` names it: its limits are the whole capacity, which
    no machine exceeds. A threshold of 0 is valid, also as a distance from the mean, where Koordinator ignores it.
    """

    def side(name: str, used: Floats, low: Percents, high: Percents, detectors: Detectors) -> Side:
        named = {each: (low[each], high.get(each, 0.0)) for each in pool.resources if each in low}
        return Side(name, used, *limits(pool, used, named, settings.deviation), detectors)

    return (
        side("node", pool.used(), settings.low, settings.high, memory.machines),
        side("prod", pool.used(pool.prod), settings.prod_low, settings.prod_high, memory.prod),
    )


def limits(
    pool: Pool, used: Floats, named: Mapping[str, tuple[float, float]], deviation: bool
) -> tuple[Floats, Floats, Floats]:
    """Return the low and high thresholds of each machine [K, M], and the per cents of the high ones [K].

    A threshold is ``int(percent * 0.01 * capacity)``.
    ``named``: the low and the high per cent by resource; one that is not named has 100. ``deviation``: they are
    distances from the plain mean over the machines of used / capacity, cut to 0..100. A machine without a resource
    counts 0 in its mean.
    """
    percents = np.full((2, len(pool.resources)), 100.0)
    shares = np.divide(used, pool.capacity, out=np.zeros_like(used), where=pool.capacity > 0) * 100.0
    for k, name in enumerate(pool.resources):
        if name in named:
            low, high = named[name]
            mean = shares[k].sum() / max(1, len(pool.machines))
            percents[:, k] = np.clip((mean - low, mean + high), 0, 100) if deviation else (low, high)
    low_share, high_share = (np.trunc(each[:, None] * 0.01 * pool.capacity) for each in percents)
    return low_share, high_share, percents[1]


def classify(pool: Pool, node: Side, prod: Side) -> Classes:
    """Return the targets and sources; an unschedulable machine is no target."""
    is_under = pool.schedulable & node.under()
    is_over = ~is_under & node.over()
    prod_over = ~is_over & prod.over()
    prod_under = ~is_over & ~prod_over & pool.schedulable & prod.under()
    return Classes(
        low=np.flatnonzero(is_under & ~prod_over & ~prod_under),
        high=np.flatnonzero(is_over),
        prod_low=np.flatnonzero(prod_under & ~is_under),
        prod_high=np.flatnonzero(prod_over),
        both_low=np.flatnonzero(prod_under & is_under),
    )


def reason(resources: Sequence[str], side: Side, capacity: Floats, machine: int) -> str:
    """Return why a machine is a source, as text; ``capacity`` [K, M]."""
    used, high, whole = side.used[:, machine], side.high[:, machine], capacity[:, machine]
    parts = [
        f"{side.name} {resources[k]} usage({used[k] / whole[k] * 100 if whole[k] else 0:.2f}%)"
        f">threshold({side.percents[k]:.2f}%)"
        for k in sorted(np.flatnonzero(used > high).tolist(), key=lambda k: resources[k])
    ]
    return "node is overutilized, " + ", ".join(parts)


CLASS_RANK: Mapping[str, int] = {"free": 1, "batch": 2, "mid": 3, "prod": 4}
"""A lower rank leaves first; an instance of no class leaves last."""
NO_CLASS = 5


def usefulness(usage: Floats, excess: Floats, weights: Floats) -> Floats:
    """Return [n]: how well the usage [K, n] of each instance covers the excess [K] of its machine.

    The mean by weight over the resources that are exceeded of f(x), x being usage / excess: x below 1, and 1 + 1/x from
    there on. An instance that just covers the excess is the best, 2; a far larger one is worth little more than 1.
    Weights of resources that are not exceeded do not count; 0 without any weight.

    Reference: Koordinator, ``sorter.ResourceUsageScorerPod``.
    """
    over = np.flatnonzero(excess > 0)
    weights = weights[over]
    if not weights.sum():
        return np.zeros(usage.shape[1])
    ratio = usage[over] / excess[over, None]
    worth = np.where(ratio >= 1, 1 + 1 / np.maximum(ratio, 1), ratio)
    score: Floats = weights @ worth / weights.sum()
    return score


def eviction_order(class_rank: Integers, score: Floats, since: Floats) -> Integers:
    """Return the positions of instances [n] in the order in which they leave.

    By class, then by `usefulness`, then the newest; ``since``: the start of each.
    """
    return np.lexsort((-since, -score, class_rank))


Fits = Callable[[int, Integers], Integers]
"""Returns which of some machines could take an instance by its request; all are positions in the pool."""


@dataclass(frozen=True)
class Eviction:
    """An instance that should leave its machine."""

    instance: str
    machine: str
    reason: str


@dataclass(frozen=True)
class Rules:
    """The settings of a profile, and the other inputs of a round."""

    settings: Rebalancing
    condition: Condition | None
    """How many rounds in a row make a machine a source; None: each that is over is one."""
    moves_max: int
    """The move limit of this round: the profile's, less the moves of the last hour and those under way."""


def low_node_load(pool: Pool, rules: Rules, fits: Fits, memory: SideDetectors, now_s: float) -> list[Eviction]:
    """Return the evictions of a round; ``memory`` is updated.

    The pool has only machines with fresh data; its resources are those `compared` by the settings.
    """
    both = sides(pool, rules.settings, memory)
    found = classify(pool, *both)
    if not len(found.high) and not len(found.prod_high):
        return []
    sources = []
    for side, places in zip(both, (found.high, found.prod_high), strict=True):
        abnormal = {*side.detectors.abnormal(_names(pool, places), rules.condition, now_s)}
        sources.append(np.array([m for m in places.tolist() if pool.machines[m] in abnormal], np.int64))
    targets = len(found.low) + len(found.prod_low) + len(found.both_low)
    if not any(map(len, sources)) or not targets:
        return []
    memory.machines.reset(_names(pool, np.r_[found.low, found.both_low]), now_s)
    memory.prod.reset(_names(pool, found.prod_low), now_s)
    if targets <= rules.settings.machines_min or targets == len(pool.machines):
        return []
    round_ = _Round(pool, rules, fits, both, now_s)
    round_.run(found, *sources)
    for side, places in zip(both, sources, strict=True):
        side.detectors.mark_normal(_names(pool, places), now_s)
    return round_.evictions


def usage_score(used: Sequence[float], capacity: Sequence[float], weights: Sequence[int]) -> int:
    """Return the sort key of sources: ``sum(min(used, cap) * 1000 // cap * w) // sum(w)``; 0 without weight.

    >>> usage_score([500, 1024], [1000, 2048], [2, 3])
    500
    """
    total = sum(weights)
    score = sum(int(min(u, c)) * 1000 // int(c) * w for u, c, w in zip(used, capacity, weights, strict=True) if c > 0)
    return score // total if total else 0


class _Round:
    """A round under way: usage of machines and room change as instances leave."""

    def __init__(self, pool: Pool, rules: Rules, fits: Fits, both: tuple[Side, Side], now_s: float) -> None:
        self.pool, self.rules, self.fits, self.now_s = pool, rules, fits, now_s
        self.node, self.prod = both
        self.weights = [rules.settings.weights.get(name, 0) for name in pool.resources]
        self.counted = np.array([name == INSTANCES for name in pool.resources])
        self.gone: set[int] = set()
        self.evictions: list[Eviction] = []

    def run(self, found: Classes, sources: Integers, prod_sources: Integers) -> None:
        """Balance all instances, then those of production."""
        node, prod = self.node, self.prod
        sources = self._by_usage(sources, node)
        prod_sources = self._by_usage(prod_sources, prod)
        room, both = self._room(found.low, node), self._room(found.both_low, node)
        prod_room, prod_both = self._room(found.prod_low, prod), self._room(found.both_low, prod)
        room += both
        self._balance(sources, np.r_[found.low, found.both_low], node, room)
        prod_room += np.minimum(prod_both, np.minimum(both, room))
        self._balance(prod_sources, np.r_[found.prod_low, found.both_low], prod, prod_room)

    def _by_usage(self, places: Integers, side: Side) -> Integers:
        used, capacity = side.used.T.tolist(), self.pool.capacity.T.tolist()
        scores = [usage_score(used[m], capacity[m], self.weights) for m in places]
        return places[np.argsort([-score for score in scores], kind="stable")]

    @staticmethod
    def _room(places: Integers, side: Side) -> Floats:
        room: Floats = (side.high - side.used)[:, places].sum(axis=1)
        return room

    def _balance(self, sources: Integers, targets: Integers, side: Side, room: Floats) -> None:
        if not len(targets):
            return
        for machine in sources.tolist():
            there = np.flatnonzero(self.pool.machine == machine)
            there = there[self.pool.movable[there] & (self.pool.prod[there] if side is self.prod else True)]
            removable = [n for n in there.tolist() if n not in self.gone and self._fits(n, targets, side)]
            if removable:
                self._evict(self._ordered(np.array(removable), machine, side), machine, side, room)

    def _fits(self, instance: int, targets: Integers, side: Side) -> bool:
        """Return whether a target has room for it below its threshold; its usage is then added there."""
        able = self.fits(instance, targets)
        added = np.where(self.counted, 0.0, self.pool.usage[:, instance])[:, None]
        stays = able[(side.used[:, able] + added <= reached(side.high[:, able])).all(axis=0)]
        if not len(stays):
            return False
        side.used[:, stays[0]] += added[:, 0]
        return True

    def _ordered(self, removable: Integers, machine: int, side: Side) -> Integers:
        excess = (side.used - side.high)[:, machine]
        usage = np.where(self.counted[:, None], 0.0, self.pool.usage[:, removable])
        score = usefulness(usage, excess, np.array(self.weights, float))
        return removable[eviction_order(self.pool.class_rank[removable], score, self.pool.since[removable])]

    def _evict(self, instances: Integers, machine: int, side: Side, room: Floats) -> None:
        for instance in instances.tolist():
            if not (side.used[:, machine] > reached(side.high[:, machine])).any():
                side.detectors.reset([self.pool.machines[machine]], self.now_s)
                return
            if (room <= ROUNDING * self.pool.capacity.max(axis=1)).any() or len(self.evictions) >= self.rules.moves_max:
                return
            self.gone.add(instance)
            why = reason(self.pool.resources, side, self.pool.capacity, machine)
            self.evictions.append(Eviction(self.pool.instances[instance], self.pool.machines[machine], why))
            amounts = np.where(self.counted, 1.0, self.pool.usage[:, instance])
            room -= amounts
            self.node.used[:, machine] -= amounts
            if side is self.prod:
                self.prod.used[:, machine] -= amounts


def _names(pool: Pool, places: Integers) -> list[str]:
    return [pool.machines[m] for m in places]
