"""The pool of machines, and when one is over or under: thresholds in per cent of capacity, fixed or around the mean.

Koordinator's LowNodeLoad compares twice: the usage of all instances, and that of production.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorer.planning.thresholds.anomaly import Detectors, SideDetectors
from scorer.ranking.profiles.rebalance_section import INSTANCES, Percents, Rebalancing
from scorer.snapshot.arrays import Bools, Floats, Integers


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
    low_share, high_share = (_share(each[:, None], pool.capacity) for each in percents)
    return low_share, high_share, percents[1]


def _share(percent: Floats, capacity: Floats) -> Floats:
    found: Floats = np.trunc(percent * 0.01 * capacity)
    return found


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
