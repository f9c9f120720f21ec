"""Instances as columns by slot, which grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.kind import kind_of
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.usage_columns import pair_digest

_R = len(RESOURCES)
NO_ROWS: Integers = np.zeros(0, np.int64)
_CLASS = {name: position for position, name in enumerate(PRIORITY_CLASSES)}
KEEPS = "keeps"
"""The label of an instance that names resources of which lower classes get nothing that it asked for: ``keeps=cpu``."""


@dataclass(eq=False)
class PlacedInstances:
    """Columns over K instances of the ledger, live ones or leavers. Read-only; frozen it would take 2 us to make."""

    rows: Integers
    """[K] row of the machine."""
    started_at: Floats
    """[K] 0 until confirmed started."""
    reserved_at: Floats
    amounts: Floats
    """[R, K] 0 where not given."""
    missing: Bools
    """[R, K] Whether the amount was not given."""
    limits: Floats
    """[R, K] NaN where not declared."""
    expected: Floats
    """[R, K] NaN where it was not given."""
    ended_at: Floats
    """[K] 0 for a live instance."""
    kinds: Integers
    """[K] `code_of_kind` of each."""
    classes: NDArray[np.int8]
    """[K] position in `schemas.resources.PRIORITY_CLASSES`."""
    pairs: Integers
    """[K] `scorer.snapshot.usage_columns.pair_digest` of each, to look up its usage."""
    keeps: NDArray[np.int8]
    """[K] Bit r is set where the instance keeps what it asked for of resource r: `KEEPS`."""
    at: Integers = field(default_factory=lambda: NO_ROWS, init=False, repr=False)
    """[K] place of each one's machine among those that were asked for; given by `scorer.ledger.view.seats`."""
    estimated: tuple[object, Floats] | None = field(default=None, init=False, repr=False)
    """The last estimate and its [R, K]: several columns are made from it (`scorer.ranking.estimates.credits`)."""

    @staticmethod
    def joined(first: PlacedInstances, second: PlacedInstances) -> PlacedInstances:
        """Return the instances of both."""
        if not second.rows.size:
            return first
        if not first.rows.size:
            return second
        names = (each.name for each in fields(PlacedInstances) if each.init)
        parts = {name: np.concatenate([getattr(first, name), getattr(second, name)], axis=-1) for name in names}
        return PlacedInstances(**parts)

    def some(self, which: Bools) -> PlacedInstances:
        """Return those of the instances where ``which`` [K] is True."""
        names = (each.name for each in fields(PlacedInstances) if each.init)
        return PlacedInstances(**{name: getattr(self, name)[..., which] for name in names})

    @property
    def placed_at(self) -> Floats:
        """[K] time of the start; that of the reservation until the instance is confirmed."""
        return np.where(self.started_at > 0, self.started_at, self.reserved_at)


def code_of_kind(kind: str) -> int:
    """Return the number of a kind in a column, the same in every process; 0: none."""
    return crc32(kind.encode()) if kind else 0


def keeps_of(labels: Mapping[str, str]) -> int:
    """Return the bits of the resources that an instance keeps; unknown names are ignored.

    >>> keeps_of({"keeps": "cpu"}), keeps_of({"keeps": "cpu, memory"}), keeps_of({"app": "shop"})
    (1, 3, 0)
    """
    named = labels.get(KEEPS)
    if named is None:
        return 0
    names = {name.strip() for name in named.split(",")}
    return sum(1 << row for row, name in enumerate(RESOURCES) if name in names)


class Slots:
    """Growing columns of instances; a removed instance's slot is used again."""

    def __init__(self, size: int) -> None:
        self.used = 0
        self.machines: Integers = np.full(size, -1, np.int64)
        """[K] number of the machine in its view; -1 where the slot is empty."""
        self.started_at: Floats = np.zeros(size)
        self.reserved_at: Floats = np.zeros(size)
        self.ended_at: Floats = np.zeros(size)
        self.maxmemory: Floats = np.zeros(size)
        self.kinds: Integers = np.zeros(size, np.int64)
        self.classes: NDArray[np.int8] = np.zeros(size, np.int8)
        self.pairs: Integers = np.zeros(size, np.int64)
        self.keeps: NDArray[np.int8] = np.zeros(size, np.int8)
        self.amounts: Floats = np.zeros((_R, size))
        self.missing: Bools = np.zeros((_R, size), np.bool_)
        self.limits: Floats = np.full((_R, size), np.nan)
        self.expected: Floats = np.full((_R, size), np.nan)
        self._declares: Bools = np.zeros(size, np.bool_)
        """[K] Whether the slot has, or had before it was cleared, limits or expected usage that are not NaN."""

    def copy(self) -> Slots:
        """Return the same columns, which changes of these leave alone."""
        found = Slots(0)
        for name, value in vars(self).items():
            setattr(found, name, value.copy() if isinstance(value, np.ndarray) else value)
        return found

    def next(self) -> int:
        """Return a slot never used."""
        return self.more(1)[0]

    def more(self, count: int) -> range:
        """Return so many slots never used, growing the columns by half, or by what is needed, when they are full."""
        used = range(self.used, self.used + count)
        if used.stop > self.machines.size:
            more = max(self.used // 2 + 1, used.stop - self.machines.size)
            for name, column in vars(self).items():
                if isinstance(column, np.ndarray):
                    empty = np.nan if name in ("limits", "expected") else 0
                    grown = np.full((*column.shape[:-1], more), empty, column.dtype)
                    setattr(self, name, np.concatenate([column, grown], axis=-1))
            self.machines[self.used :] = -1
        self.used = used.stop
        return used

    def write(self, slot: int, instance: Instance, machine: int) -> None:
        """Put one instance into a slot."""
        self.machines[slot] = machine
        self.started_at[slot] = instance.started_at
        self.reserved_at[slot] = instance.reserved_at
        self.ended_at[slot] = instance.ended_at
        self.maxmemory[slot] = instance.maxmemory
        self.kinds[slot] = code_of_kind(kind_of(instance))
        self.classes[slot] = _CLASS[instance.priority_class]
        self.pairs[slot] = pair_digest(instance.machine, instance.id)
        self.keeps[slot] = keeps_of(instance.labels) if instance.labels else 0
        self.amounts[:, slot] = [amount or 0.0 for amount in instance.amounts]
        self.missing[:, slot] = [amount is None for amount in instance.amounts]
        self._write_declared(slot, instance)

    def write_all(
        self,
        slots: Sequence[int],
        instances: Sequence[Instance],
        machines: Sequence[int],
        firsts: Sequence[Instance],
        groups: Sequence[int],
    ) -> None:
        """Put some instances into slots, a column at a time; grouped by `scorer.ledger.record.facets.alike`."""
        at, group = np.array(slots, np.int64), np.array(groups, np.int64)
        self.machines[at] = machines
        for name in ("started_at", "reserved_at", "ended_at", "maxmemory"):
            getattr(self, name)[at] = list(map(attrgetter(name), instances))
        self.classes[at] = [_CLASS[one.priority_class] for one in instances]
        self.pairs[at] = [pair_digest(one.machine, one.id) for one in instances]
        self.kinds[at] = np.array([code_of_kind(kind_of(one)) for one in firsts], np.int64)[group]
        self.keeps[at] = np.array([keeps_of(one.labels) if one.labels else 0 for one in firsts], np.int8)[group]
        sizes: dict[tuple[float | None, ...], int] = {}
        size = np.array([sizes.setdefault(one.amounts, len(sizes)) for one in instances], np.int64)
        amounts = np.array(list(sizes), np.float64).T[:, size]
        self.missing[:, at] = np.isnan(amounts)
        self.amounts[:, at] = np.nan_to_num(amounts)
        if self._declares[at].any() or any(one.limits or one.expected for one in instances):
            for slot, one in zip(slots, instances, strict=True):
                self._write_declared(slot, one)

    def _write_declared(self, slot: int, instance: Instance) -> None:
        declares = bool(instance.limits or instance.expected)
        if declares or self._declares[slot]:  # rare, and these columns cost more to write than all others
            self.limits[:, slot] = [amount if amount >= 0 else np.nan for amount in instance.limits] or np.nan
            self.expected[:, slot] = [amount if amount >= 0 else np.nan for amount in instance.expected] or np.nan
            self._declares[slot] = declares

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.machines[slot] = -1
        self.amounts[:, slot] = 0.0
        self.maxmemory[slot] = 0.0

    def take(self, slots: Integers, rows: Integers) -> PlacedInstances:
        """Return these slots as columns; ``rows`` has the row of each one's machine."""
        return PlacedInstances(  # numpy's take: a few slots cost half of what indexing costs
            rows=rows,
            started_at=self.started_at.take(slots),
            reserved_at=self.reserved_at.take(slots),
            ended_at=self.ended_at.take(slots),
            amounts=self.amounts.take(slots, axis=1),
            missing=self.missing.take(slots, axis=1),
            limits=self.limits.take(slots, axis=1),
            expected=self.expected.take(slots, axis=1),
            kinds=self.kinds.take(slots),
            classes=self.classes.take(slots),
            pairs=self.pairs.take(slots),
            keeps=self.keeps.take(slots),
        )
