"""Instances as records in a growing array of slots, from which the rows of machines are computed."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import LIVE, Instance, copy_with
from scorer.snapshot.arrays import Bools, Floats, Integers, address
from scorer.snapshot.usages import pair_digest

_R = len(RESOURCES)
_CLASS = {name: position for position, name in enumerate(PRIORITY_CLASSES)}
KEEPS = "keeps"
"""The label of an instance that names resources of which lower classes get nothing that it asked for: ``keeps=cpu``."""

INSTANCE = np.dtype(
    [
        ("amounts", "f8", _R), ("limits", "f8", _R), ("expected", "f8", _R), ("started_at", "f8"),
        ("reserved_at", "f8"), ("ended_at", "f8"), ("maxmemory", "f8"), ("pair", "i8"), ("kind", "i8"),
        ("machine", "i8"), ("priority_class", "i1"), ("keeps", "u1"), ("missing", "?", _R),
    ],
    align=True,
)  # fmt: skip
"""``Instance`` of ``scorer/ranking/kernel/row.h``, which describes each field."""
_PACKED = Struct(f"{3 * _R + 4}d3qbB{_R}?0q")


@dataclass(eq=False)
class PlacedInstances:
    """K instances of the ledger, live ones or leavers, as columns. Read-only."""

    records: NDArray[np.void]
    """[K] `INSTANCE`"""
    rows: Integers
    """[K] row of the machine."""

    @property
    def started_at(self) -> Floats:
        """[K] 0 until confirmed started."""
        return self.records["started_at"]

    @property
    def reserved_at(self) -> Floats:
        """[K] When each was reserved."""
        return self.records["reserved_at"]

    @property
    def amounts(self) -> Floats:
        """[R, K] The amounts; 0 where not given."""
        return self.records["amounts"].T

    @property
    def missing(self) -> Bools:
        """[R, K] Whether the amount was not given."""
        return self.records["missing"].T

    @property
    def expected(self) -> Floats:
        """[R, K] NaN where it was not given."""
        return self.records["expected"].T

    @property
    def kinds(self) -> Integers:
        """[K] `code_of_kind` of each."""
        return self.records["kind"]

    @property
    def classes(self) -> NDArray[np.int8]:
        """[K] position in `schemas.resources.PRIORITY_CLASSES`."""
        return self.records["priority_class"]

    @property
    def pairs(self) -> Integers:
        """[K] `scorer.snapshot.usages.pair_digest` of each, to look up its usage."""
        return self.records["pair"]


def code_of_kind(kind: str) -> int:
    """Return the number for a kind in a column, the same in every process; 0: no kind."""
    return crc32(kind.encode()) if kind else 0


def keeps_of(labels: Mapping[str, str]) -> int:
    """Return a bit set of the resources that are kept; unknown names are ignored.

    >>> keeps_of({"keeps": "cpu"}), keeps_of({"keeps": "cpu, memory"}), keeps_of({"app": "shop"})
    (1, 3, 0)
    """
    named = labels.get(KEEPS)
    if named is None:
        return 0
    names = {name.strip() for name in named.split(",")}
    return sum(1 << row for row, name in enumerate(RESOURCES) if name in names)


def _declared(amounts: Sequence[float]) -> tuple[float, ...]:
    return tuple(amount if amount >= 0 else np.nan for amount in amounts) or (np.nan,) * _R


class Slots:
    """A growing array of records; a removed instance's slot is used again."""

    def __init__(self, size: int) -> None:
        self.used = 0
        self.records = np.zeros(size, INSTANCE)
        self.records["machine"] = -1

    def next(self) -> int:
        """Return a slot never used."""
        return self.more(1)[0]

    def more(self, count: int) -> range:
        """Return so many unused slots; when all are used, the array grows by half, or by as many as needed."""
        used = range(self.used, self.used + count)
        if used.stop > self.records.size:
            grown = np.zeros(max(self.used + self.used // 2 + 1, used.stop), INSTANCE)
            grown["machine"] = -1
            grown[: self.used] = self.records[: self.used]
            self.records = grown
        self.used = used.stop
        return used

    def write(self, slot: int, instance: Instance, machine: int) -> None:
        """Put one instance into a slot; ``machine``: the number of its machine in the view."""
        kind, keeps = code_of_kind(kind_of(instance)), keeps_of(instance.labels)
        self.records[slot] = _record(instance, machine, kind, keeps)

    def write_all(
        self,
        slots: Sequence[int],
        instances: Sequence[Instance],
        machines: Sequence[int],
        firsts: Sequence[Instance],
        groups: Sequence[int],
    ) -> None:
        """Write instances into slots; they are grouped by `scorer.ledger.record.facets.alike`."""
        kinds = [code_of_kind(kind_of(one)) for one in firsts]
        keeps = [keeps_of(one.labels) if one.labels else 0 for one in firsts]
        self.records[np.array(slots, np.int64)] = np.array(
            [
                _record(one, machine, kinds[group], keeps[group])
                for one, machine, group in zip(instances, machines, groups, strict=True)
            ],
            INSTANCE,
        )

    def clear(self, slot: int) -> None:
        self.records[slot]["machine"] = -1

    def live(self) -> tuple[Integers, Integers]:
        """Return the slots in use, and the machine's number for each."""
        machines = self.records["machine"][: self.used]
        slots = np.flatnonzero(machines >= 0)
        return slots, machines[slots]

    def take(self, slots: Integers, rows: Integers) -> PlacedInstances:
        """Return these slots as columns; ``rows``: the row of each one's machine."""
        return PlacedInstances(self.records[slots], rows)

    def addresses_of(self, slots: Iterable[int]) -> list[int]:
        """Return the addresses of the records in some slots, valid while ``records`` is this array."""
        first = address(self.records)
        return [first + slot * INSTANCE.itemsize for slot in slots]


LABELS = ("app", "app.kubernetes.io/name", "image", "owner")
"""Where neither kind nor cluster is given: the first of these labels that an instance has names its kind.

The order is from finer to coarser names, since finer ones explain more on public traces. Share of the variance
between instances' mean CPU that the mean of the others of the same name explains (each left out, shrunken as by three):

    the job of a Google task (2011)                        0.76
    the name of a PlanetLab sliver, five days              0.37 to 0.43, without its number 0.37 to 0.43
    its owner                                              0.30 to 0.38
    the size of a Bitbrains VM (a group of its own here)   0.42

Rejected: the id without its number. It explains as much as the name, but requests that are equal except for their ids
share one ranking, and would no longer.
"""
_DIGITS = "0123456789"


def kind_of(one: Any) -> str:
    """Return the kind of an instance or a request, under which its use is learned; "" without one.

    Clusters whose names differ only in a number at the end, such as shards, count as one.

    >>> from schemas.rpc.request import Request
    >>> kind_of(Request(kind="redis")), kind_of(Request(cluster="cart-17", role="master")), kind_of(Request(id="a-1"))
    ('redis', 'cluster=cart-*,role=master', '')
    >>> kind_of(Request(labels={"owner": "payments", "app": "shop"}))
    'app=shop'
    """
    if one.kind:
        return str(one.kind)
    if one.cluster:
        stem = one.cluster.rstrip(_DIGITS)
        name = one.cluster if stem in ("", one.cluster) else f"{stem}*"
        return f"cluster={name},role={one.role}" if one.role else f"cluster={name}"
    for label in LABELS if one.labels else ():
        if (value := one.labels.get(label)) is not None:
            return f"{label}={value}"
    return ""


def request_record(*requests: Request) -> NDArray[np.void]:
    """Return [K]: records for the instances that K requests describe, not started yet."""
    return np.frombuffer(b"".join(map(_packed, requests)), INSTANCE)


def _packed(request: Request) -> bytes:
    given = request.given_amounts()
    return _PACKED.pack(
        *(amount or 0.0 for amount in given),
        *(float(request.limits.get(name, math.nan)) for name in RESOURCES),
        *(float(request.expected.get(name, math.nan)) for name in RESOURCES),
        0.0, 0.0, 0.0, request.maxmemory, 0, code_of_kind(kind_of(request)), 0, _CLASS[request.priority_class], 0,
        *(amount is None for amount in given),
    )  # fmt: skip


def _record(one: Instance, machine: int, kind: int, keeps: int) -> tuple[object, ...]:
    amounts = tuple(amount or 0.0 for amount in one.amounts)
    return (
        amounts, _declared(one.limits), _declared(one.expected), one.started_at, one.reserved_at, one.ended_at,
        one.maxmemory, pair_digest(one.machine, one.id), kind, machine, _CLASS[one.priority_class], keeps,
        tuple(amount is None for amount in one.amounts),
    )  # fmt: skip


KEPT_S = 7_200.0
"""Twice the longest window, since windows end at a machine's newest sample, which may be late. As in ledger.lua."""
MOST = 100_000
"""How many are kept by default."""


def left_behind(before: Instance | None, after: Instance) -> Instance | None:
    """Return the leaver that a change makes, as a record that ended on its former machine; None without one.

    ``before``: the live record that ``after`` replaces.
    """
    if before is None or before.started_at <= 0:
        return None
    if after.state not in LIVE:
        return after if after.started_at > 0 else None
    if after.machine == before.machine or after.started_at == before.started_at:
        return None  # it stayed, or its machine was renamed: an instance that moved has a new start
    return copy_with(before, state="released", ended_at=after.started_at, version=after.version, moving=None)


class Leavers:
    """Instances that ended or moved away, and that the windows still show on the machine they left.

    Each has the record it had there, its start, and its end. They are kept for `KEPT_S` of the ledger's time and up to
    a maximum number; the oldest are dropped first. The scripts keep the same in the ledger (`ledger.lua`), so that a
    scorer that starts knows them, too. An instance that was never confirmed has used nothing and is no leaver.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.slots = Slots(16)
        self._free: list[int] = []
        self._order: deque[tuple[float, int, str]] = deque()
        """End, slot and machine, in the order of arrival."""
        self._by_machine: dict[str, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def add(self, leaver: Instance, number: int) -> None:
        """Add a leaver of the machine with this number; drop those that ended more than `KEPT_S` before it."""
        slot = self._free.pop() if self._free else self.slots.next()
        self.slots.write(slot, leaver, number)
        self._order.append((leaver.ended_at, slot, leaver.machine))
        self._by_machine.setdefault(leaver.machine, {})[slot] = None
        while self._order and (len(self._order) > self._most or self._order[0][0] < leaver.ended_at - KEPT_S):
            _, oldest, machine = self._order.popleft()
            self.slots.clear(oldest)
            self._free.append(oldest)
            del self._by_machine[machine][oldest]
            if not self._by_machine[machine]:
                del self._by_machine[machine]

    def slots_on(self, machine: str) -> Collection[int]:
        return self._by_machine.get(machine, {})
