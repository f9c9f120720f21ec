"""The ledger as columns: what is promised on every machine, kept current one changed record at a time.

`LedgerView.apply` costs a few microseconds whatever the ledger's size: it notes the record and marks its machine's row;
the row's sums are made again from that machine's own instances when somebody next looks (never by subtracting, which
drifts). A decision reads columns and does not see the 200,000 records behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.request import Request
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.credits import PlacedInstances
from scorer.instance import Instance
from scorer.snapshot import Floats, Integers, Roster, Snapshot

LIVE = ("reserved", "confirmed")
"""The states that hold their amounts."""

TALLIES_MAX = 256
"""So many counted columns are kept current; the one asked for longest ago goes first."""

Facet = tuple[str, ...] | tuple[str, int]
"""Something instances have in common: ``("label", key, value)``, ``("cluster", name)``, ``("role", name)``,
``("port", number)``, ``("kind", name)``."""

TAIL_MAX = 256
"""After more changes than this a kept sum is made anew: looking through them would cost more."""

GONE = -1
"""In place of a slot: an instance left."""

_R = len(RESOURCES)


def facets_of(instance: Instance | Request) -> frozenset[Facet]:
    """Return what an instance, or a newcomer, can be counted by."""
    facets: set[Facet] = {("label", key, value) for key, value in instance.labels.items()}
    facets.update(("port", port) for port in instance.ports)
    if instance.cluster:
        facets.add(("cluster", instance.cluster))
    if instance.role:
        facets.add(("role", instance.role))
    if instance.kind:
        facets.add(("kind", instance.kind))
    return frozenset(facets)


def instance_of(request: Request, machine: str, now_s: float, instance_id: str | None = None) -> Instance:
    """Return the record that reserving this request on this machine makes."""
    return Instance(
        id=request.id if instance_id is None else instance_id,
        machine=machine,
        state="reserved",
        amounts=request.amounts(),
        expected=tuple(float(request.expected.get(name, -1.0)) for name in RESOURCES) if request.expected else (),
        limits=tuple(float(request.limits.get(name, -1.0)) for name in RESOURCES) if request.limits else (),
        maxmemory=float(request.maxmemory),
        ports=request.ports,
        cluster=request.cluster,
        role=request.role,
        cluster_masters=request.cluster_masters,
        priority_class=request.priority_class,
        labels=request.labels,
        kind=request.kind,
        reserved_at=now_s,
        expires_at=now_s + request.ttl_s,
    )


class LedgerView:
    """The live instances, and columns over the machines of one roster.

    Columns are valid for the roster last given to `seat` and are made current by it. Machines that the roster does not
    know keep their instances and appear when a roster has them (give `machine_names` to `build_snapshot`).
    """

    def __init__(self, instances: Iterable[Instance] = ()) -> None:
        self.instances: dict[str, Instance] = {}
        """Live instances by id."""
        self.version = 0
        """Raised with every applied record."""
        self._slot_of: dict[str, int] = {}
        self._free: list[int] = []
        self._by_machine: dict[str, dict[str, int]] = {}
        self._by_facet: dict[Facet, dict[str, None]] = {}
        self._facets: dict[str, frozenset[Facet]] = {}
        self._slots = _Slots(256)
        self._machine_names: tuple[str, ...] | None = ()
        self._roster = Roster(())
        self._dirty: set[str] = set()
        self._changed_rows: list[int] = []
        self._changed_slots: list[int] = []
        self._row_sums: dict[tuple[Any, int], tuple[int, Floats]] = {}
        self._changed_base = 0
        self._tallies: dict[frozenset[Facet], NDArray[np.int32]] = {}
        self._snapshot: Snapshot | None = None
        self._fleets: dict[Any, Any] = {}
        self._placed: tuple[int, bytes, PlacedInstances] | None = None
        """The instances last asked for, with the position and the rows: several columns are made from the same."""
        self.requested: Floats = np.zeros((_R, 0))
        """[R, M] sum of the amounts."""
        self.maxmemory: Floats = np.zeros(0)
        """[M] sum of maxmemory in bytes."""
        self.count: Floats = np.zeros(0)
        """[M] live instances."""
        for instance in instances:
            self.apply(instance)

    def __len__(self) -> int:
        return len(self.instances)

    # ---- writing

    def apply(self, instance: Instance) -> None:
        """Take in one changed record: it replaces what was known under its id; an ended one is dropped."""
        before = self.instances.get(instance.id)
        if before is not None:
            self._remove(before)
        if instance.state in LIVE:
            self._add(instance)
        self.version += 1

    def forget(self, instance_id: str) -> None:
        """Drop a record that is no longer in the ledger."""
        before = self.instances.get(instance_id)
        if before is not None:
            self._remove(before)
            self.version += 1

    def _add(self, instance: Instance) -> None:
        slot = self._free.pop() if self._free else self._slots.next()
        self._slots.write(slot, instance, self._roster.index.get(instance.machine, -1))
        self.instances[instance.id] = instance
        self._slot_of[instance.id] = slot
        if instance.machine not in self._by_machine:
            self._by_machine[instance.machine] = {}
            self._machine_names = None
        self._by_machine[instance.machine][instance.id] = slot
        facets = self._facets[instance.id] = facets_of(instance)
        for facet in facets:
            self._by_facet.setdefault(facet, {})[instance.id] = None
        self._note(instance.machine, facets, slot)

    def _remove(self, instance: Instance) -> None:
        slot = self._slot_of.pop(instance.id)
        self._slots.clear(slot)
        self._free.append(slot)
        del self.instances[instance.id]
        at_machine = self._by_machine[instance.machine]
        del at_machine[instance.id]
        if not at_machine:
            del self._by_machine[instance.machine]
            self._machine_names = None
        facets = self._facets.pop(instance.id)
        for facet in facets:
            members = self._by_facet[facet]
            del members[instance.id]
            if not members:
                del self._by_facet[facet]
        self._note(instance.machine, facets, GONE)

    def _note(self, machine: str, facets: frozenset[Facet], slot: int) -> None:
        """Note that an instance came into a slot, or left (`GONE`)."""
        row = self._roster.index.get(machine)
        if row is None:
            return
        if slot == GONE:
            self._dirty.add(machine)
        elif machine not in self._dirty:
            self.requested[:, row] += self._slots.amounts[:, slot]
            self.maxmemory[row] += self._slots.maxmemory[slot]
            self.count[row] += 1
        self._changed_rows.append(row)
        self._changed_slots.append(slot)
        if len(self._changed_rows) > 100_000:
            self._changed_base += len(self._changed_rows)
            self._changed_rows.clear()
            self._changed_slots.clear()
        for wanted, tally in self._tallies.items():
            if wanted <= facets:
                tally[row] += -1 if slot == GONE else 1

    @contextmanager
    def trial(self, instances: Iterable[Instance] = ()) -> Iterator[Callable[[Instance], None]]:
        """Yield a function that adds instances which are gone again when the block ends: a batch sees itself.

        Ids must not be in the ledger.
        """
        added: list[str] = []

        def add(instance: Instance) -> None:
            if instance.id in self.instances:
                raise ValueError(f"{instance.id!r} is already in the ledger")
            self.apply(instance)
            added.append(instance.id)

        try:
            for instance in instances:
                add(instance)
            yield add
        finally:
            for instance_id in reversed(added):
                self.forget(instance_id)

    # ---- reading

    @property
    def machine_names(self) -> tuple[str, ...]:
        """The machines that hold instances; the same object while that set is the same."""
        if self._machine_names is None:
            self._machine_names = tuple(sorted(self._by_machine))
        return self._machine_names

    def on_machine(self, machine: str) -> list[Instance]:
        """Return the live instances of one machine."""
        return [self.instances[instance_id] for instance_id in self._by_machine.get(machine, ())]

    def newest(self, machine: str, count: int) -> list[Instance]:
        """Return the instances of one machine that were last taken in."""
        members = self._by_machine.get(machine, {})
        return [self.instances[instance_id] for instance_id in islice(reversed(members), count)]

    def seat(self, roster: Roster) -> None:
        """Bring the columns to the rows of this roster, and up to date."""
        if roster is not self._roster:
            self._seat_anew(roster)
        if self._dirty:
            for machine in self._dirty:
                self._sum_row(machine)
            self._dirty.clear()

    def _seat_anew(self, roster: Roster) -> None:
        self._roster = roster
        machines = len(roster.names)
        self._tallies.clear()
        self._dirty.clear()
        self._changed_base += len(self._changed_rows) + 1
        self._changed_rows.clear()
        self._changed_slots.clear()
        index = roster.index
        for machine, members in self._by_machine.items():
            row = index.get(machine, -1)
            for slot in members.values():
                self._slots.rows[slot] = row
        slots = self._slots.seated()
        rows = self._slots.rows[slots]
        self.requested = np.zeros((_R, machines))
        self.maxmemory = np.zeros(machines)
        if slots.size:  # without any, bincount would count in whole numbers
            self.requested[:] = [np.bincount(rows, part[slots], minlength=machines) for part in self._slots.amounts]
            self.maxmemory[:] = np.bincount(rows, self._slots.maxmemory[slots], minlength=machines)
        self.count = np.bincount(rows, minlength=machines).astype(np.float64)

    def _sum_row(self, machine: str) -> None:
        row = self._roster.index[machine]
        slots = list(self._by_machine.get(machine, {}).values())
        self.requested[:, row] = self._slots.amounts[:, slots].sum(axis=1)
        self.maxmemory[row] = self._slots.maxmemory[slots].sum()
        self.count[row] = len(slots)

    def tally(self, facets: frozenset[Facet]) -> NDArray[np.int32]:
        """Return [M]: how many instances with all these facets each machine has. Kept current once it was asked for."""
        tally = self._tallies.pop(facets, None)
        if tally is None:
            tally = np.zeros(len(self._roster.names), np.int32)
            index = self._roster.index
            for instance_id in self.matching(facets):
                row = index.get(self.instances[instance_id].machine)
                if row is not None:
                    tally[row] += 1
            if len(self._tallies) >= TALLIES_MAX:
                del self._tallies[next(iter(self._tallies))]
        self._tallies[facets] = tally
        return tally

    def matching(self, facets: frozenset[Facet]) -> list[str]:
        """Return the ids of the instances with all these facets."""
        if not facets:
            return list(self.instances)
        members = sorted((self._by_facet.get(facet, {}) for facet in facets), key=len)
        return [instance_id for instance_id in members[0] if all(instance_id in other for other in members[1:])]

    def placed(self, rows: Integers | None = None) -> PlacedInstances:
        """Return the live instances as columns: all of the roster's, or those on some rows."""
        if rows is None:
            return self._slots.take(self._slots.seated())
        if self._placed is None or self._placed[:2] != (self.position, rows.tobytes()):
            names = self._roster.names
            slots = [slot for row in rows.tolist() for slot in self._by_machine.get(names[row], {}).values()]
            self._placed = (self.position, rows.tobytes(), self._slots.take(np.array(slots, np.int64)))
        return self._placed[2]

    def sums(self, key: Any, compute: Callable[[PlacedInstances], Floats], rows: Integers | None = None) -> Floats:
        """Return [R, M], or [R, len(rows)]: the sum over each machine's instances of ``compute(placed) -> [R, K]``.

        ``key`` names what is computed, on the snapshot last given to `fleets`. Of a single row the sum is kept: while
        instances only come, each is added to it, however many there are.
        """
        if rows is not None and len(rows) == 1:
            return self._row_sum(key, compute, int(rows[0]))[:, None]
        placed = self.placed(rows)
        machines = len(self._roster.names)
        if not placed.rows.size:
            return np.zeros((_R, machines if rows is None else len(rows)))
        values = compute(placed)
        if rows is not None:
            position = np.searchsorted(np.sort(rows), placed.rows)
            small = np.array([np.bincount(position, part, minlength=len(rows)) for part in values])
            return small[:, np.argsort(np.argsort(rows))]
        return np.array([np.bincount(placed.rows, part, minlength=machines) for part in values])

    def _row_sum(self, key: Any, compute: Callable[[PlacedInstances], Floats], row: int) -> Floats:
        position, found = self._row_sums.get((key, row), (-1, None))
        first = position - self._changed_base
        if found is None or first < 0 or len(self._changed_rows) - first > TAIL_MAX:
            since = [GONE]
        else:
            changes = zip(self._changed_rows[first:], self._changed_slots[first:], strict=True)
            since = [slot for changed, slot in changes if changed == row]
        if found is None or GONE in since:
            placed = self.placed(np.array([row]))
            found = compute(placed).sum(axis=1) if placed.rows.size else np.zeros(_R)
        elif since:
            found = found + compute(self._slots.take(np.array(since))).sum(axis=1)
        self._row_sums[key, row] = (self.position, found)
        return found

    @property
    def position(self) -> int:
        """How many changes there were since the roster was given."""
        return self._changed_base + len(self._changed_rows)

    def changed_since(self, position: int) -> list[int] | None:
        """Return the rows that changed since, None when that is too long ago to tell."""
        if position < self._changed_base:
            return None
        return list(dict.fromkeys(self._changed_rows[position - self._changed_base :]))

    def came_since(self, position: int) -> list[int] | None:
        """Return the row of each instance that came since; None when one left, or that is too long ago to tell."""
        first = position - self._changed_base
        return None if first < 0 or GONE in self._changed_slots[first:] else self._changed_rows[first:]

    def fleets(self, snapshot: Snapshot) -> dict[Any, Any]:
        """Return where decisions on this snapshot keep what they share."""
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._fleets = {}
            self._row_sums = {}
        return self._fleets


class _Slots:
    """Growing columns of instances; a removed instance's slot is used again."""

    def __init__(self, size: int) -> None:
        self.used = 0
        self.rows: Integers = np.full(size, -1, np.int64)
        self.started_at: Floats = np.zeros(size)
        self.reserved_at: Floats = np.zeros(size)
        self.maxmemory: Floats = np.zeros(size)
        self.classes: NDArray[np.int8] = np.zeros(size, np.int8)
        self.amounts: Floats = np.zeros((_R, size))
        self.limits: Floats = np.full((_R, size), np.nan)
        self.expected: Floats = np.full((_R, size), np.nan)

    def next(self) -> int:
        """Return a slot never used, growing the columns by half when they are full."""
        if self.used == self.rows.size:
            more = self.used // 2 + 1
            for name in ("rows", "started_at", "reserved_at", "maxmemory", "classes", "amounts", "limits", "expected"):
                column = getattr(self, name)
                setattr(
                    self, name, np.concatenate([column, np.zeros((*column.shape[:-1], more), column.dtype)], axis=-1)
                )
            self.rows[self.used :] = -1
        self.used += 1
        return self.used - 1

    def write(self, slot: int, instance: Instance, row: int) -> None:
        """Put one instance into a slot."""
        self.rows[slot] = row
        self.started_at[slot] = instance.started_at
        self.reserved_at[slot] = instance.reserved_at
        self.maxmemory[slot] = instance.maxmemory
        self.classes[slot] = PRIORITY_CLASSES.index(instance.priority_class)
        self.amounts[:, slot] = instance.amounts
        self.limits[:, slot] = [amount if amount >= 0 else np.nan for amount in instance.limits] or np.nan
        self.expected[:, slot] = [amount if amount >= 0 else np.nan for amount in instance.expected] or np.nan

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.rows[slot] = -1
        self.amounts[:, slot] = 0.0
        self.maxmemory[slot] = 0.0

    def seated(self) -> Integers:
        """Return the slots whose machine is on the roster."""
        return np.flatnonzero(self.rows[: self.used] >= 0)

    def take(self, slots: Integers) -> PlacedInstances:
        """Return these slots as columns."""
        return PlacedInstances(
            rows=self.rows[slots],
            started_at=self.started_at[slots],
            reserved_at=self.reserved_at[slots],
            amounts=self.amounts[:, slots],
            limits=self.limits[:, slots],
            expected=self.expected[:, slots],
            classes=self.classes[slots],
        )


def copy_with(instance: Instance, **changes: Any) -> Instance:
    """Return the record with some fields changed."""
    return msgspec.structs.replace(instance, **changes)
