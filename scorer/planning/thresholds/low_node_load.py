"""Balancing by thresholds: instances leave machines that are over, while machines that are under have room.

The rules of Koordinator's LowNodeLoad. Machines over their thresholds for all instances come first. Those over the
thresholds for production follow, with the remaining room. No target is chosen here: an instance leaves when some target
would take it.

Reference: koordinator-sh/koordinator, pkg/descheduler/framework/plugins/loadaware.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scorer.planning.thresholds.anomaly import Condition, SideDetectors
from scorer.planning.thresholds.thresholds import (
    ROUNDING,
    Classes,
    Pool,
    Side,
    classify,
    eviction_order,
    reached,
    reason,
    sides,
    usefulness,
)
from scorer.ranking.profiles.rebalance_section import INSTANCES, Rebalancing
from scorer.snapshot.arrays import Floats, Integers

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
