"""Balancing by thresholds: instances leave machines that are over, while machines that are under have room.

The rules of Koordinator's LowNodeLoad. Machines over their thresholds for all instances come first. Those over the
thresholds for production follow, with the remaining room. No target is chosen here: an instance leaves when some target
would take it.

Reference: koordinator-sh/koordinator, pkg/descheduler/framework/plugins/loadaware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scorer.planning.thresholds.anomaly import Condition
from scorer.planning.thresholds.eviction_order import eviction_order, usefulness
from scorer.planning.thresholds.pool import INSTANCES, Pool
from scorer.planning.thresholds.sides import Classes, Memory, Side, classify, reason, usage_score
from scorer.planning.thresholds.thresholds import Settings, limits
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
    """The plugin's settings, with its defaults; thresholds have none."""

    thresholds: Settings
    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    condition: Condition | None = field(default_factory=Condition)
    machines_min: int = 0
    """Nothing is done unless more machines than these are under."""
    must_fit: bool = True
    moves_max: int | None = None


def low_node_load(pool: Pool, rules: Rules, fits: Fits, memory: Memory, now_s: float) -> list[Eviction]:
    """Return the evictions of a round; ``memory`` is updated.

    The pool has only machines with fresh data; its resources are ``rules.thresholds.resources()``.
    """
    sides = _sides(pool, rules, memory)
    found = classify(pool, *sides)
    if not len(found.high) and not len(found.prod_high):
        return []
    sources = [
        _places(pool, side.detectors.abnormal(_names(pool, places), rules.condition, now_s))
        for side, places in zip(sides, (found.high, found.prod_high), strict=True)
    ]
    targets = len(found.low) + len(found.prod_low) + len(found.both_low)
    if not any(map(len, sources)) or not targets:
        return []
    memory.machines.reset(_names(pool, np.r_[found.low, found.both_low]), now_s)
    memory.prod.reset(_names(pool, found.prod_low), now_s)
    if targets <= rules.machines_min or targets == len(pool.machines):
        return []
    round_ = _Round(pool, rules, fits, sides, now_s)
    round_.run(found, *sources)
    for side, places in zip(sides, sources, strict=True):
        side.detectors.mark_normal(_names(pool, places), now_s)
    return round_.evictions


def _sides(pool: Pool, rules: Rules, memory: Memory) -> tuple[Side, Side]:
    low, high, prod_low, prod_high = rules.thresholds.completed()
    deviation = rules.thresholds.deviation
    used, prod = pool.used(), pool.used(pool.prod)
    return (
        Side("node", used, limits(pool, used, low, high, deviation), high, memory.machines),
        Side("prod", prod, limits(pool, prod, prod_low, prod_high, deviation), prod_high, memory.prod),
    )


class _Round:
    """A round under way: usage of machines and room change as instances leave."""

    def __init__(self, pool: Pool, rules: Rules, fits: Fits, sides: tuple[Side, Side], now_s: float) -> None:
        self.pool, self.rules, self.fits, self.now_s = pool, rules, fits, now_s
        self.node, self.prod = sides
        self.weights = np.array([float(rules.weights.get(name, 0)) for name in pool.resources])
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
        weights = self.weights.tolist()
        scores = [usage_score(side.used[:, m].tolist(), self.pool.capacity[:, m].tolist(), weights) for m in places]
        return places[np.argsort([-score for score in scores], kind="stable")]

    @staticmethod
    def _room(places: Integers, side: Side) -> Floats:
        room: Floats = (side.limits.high - side.used)[:, places].sum(axis=1)
        return room

    def _balance(self, sources: Integers, targets: Integers, side: Side, room: Floats) -> None:
        if not len(targets):
            return
        for machine in sources.tolist():
            there = np.flatnonzero(self.pool.machine == machine)
            there = there[self.pool.movable[there] & (self.pool.prod[there] if side is self.prod else True)]
            removable = np.array(
                [n for n in there.tolist() if n not in self.gone and self._fits(n, targets, side)], int
            )
            if len(removable):
                self._evict(self._ordered(removable, machine, side), machine, side, room)

    def _fits(self, instance: int, targets: Integers, side: Side) -> bool:
        """Return whether a target would take it and stay below its threshold; its usage is then added there."""
        if not self.rules.must_fit:
            return True
        if not self.pool.measured[instance]:
            return False
        able = self.fits(instance, targets)
        added = self._looked_at(instance)[:, None]
        stays = able[(side.used[:, able] + added <= side.limits.high[:, able]).all(axis=0)]
        if not len(stays):
            return False
        side.used[:, stays[0]] += added[:, 0]
        return True

    def _looked_at(self, instance: int) -> Floats:
        return np.where(self.counted, 0.0, self.pool.usage[:, instance])

    def _ordered(self, removable: Integers, machine: int, side: Side) -> Integers:
        excess = (side.used - side.limits.high)[:, machine]
        usage = np.where(self.counted[:, None], 0.0, self.pool.usage[:, removable])
        score = usefulness(usage, excess, self.weights)
        return removable[eviction_order(self.pool.order.take(removable), self.pool.measured[removable], score)]

    def _evict(self, instances: Integers, machine: int, side: Side, room: Floats) -> None:
        for instance in instances.tolist():
            if not (side.used[:, machine] > side.limits.high[:, machine]).any():
                side.detectors.reset([self.pool.machines[machine]], self.now_s)
                return
            if (room <= 0).any():
                return
            if self.rules.moves_max is not None and len(self.evictions) >= self.rules.moves_max:
                return
            self.gone.add(instance)
            why = reason(
                self.pool.resources,
                side.name,
                side.used[:, machine],
                self.pool.capacity[:, machine],
                side.limits.high[:, machine],
                side.percents,
            )
            self.evictions.append(Eviction(self.pool.instances[instance], self.pool.machines[machine], why))
            if not self.pool.measured[instance]:
                continue
            amounts = np.where(self.counted, 1.0, self.pool.usage[:, instance])
            room -= amounts
            self.node.used[:, machine] -= amounts
            if side is self.prod:
                self.prod.used[:, machine] -= amounts


def _names(pool: Pool, places: Integers) -> list[str]:
    return [pool.machines[m] for m in places]


def _places(pool: Pool, names: Sequence[str]) -> Integers:
    row = {name: m for m, name in enumerate(pool.machines)}
    return np.array([row[name] for name in names], np.int64)
