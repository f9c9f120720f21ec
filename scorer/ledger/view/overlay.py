"""The overlay: proposed placements and removals on a ledger view, which stays as it is.

A batch is planned on the ledger with the instances planned so far, a move on the ledger without the instance that
moves. Both are an `Overlay`, which is read like the view: its instances, less those taken out, plus those proposed.

Chosen: a value of its own over the view, as Nomad's plan is over its state (``EvalContext.ProposedAllocs``). Rejected:
adding to the live view and removing again afterwards. After an exception, or on another thread, a reader would see a
ledger that never was. The order of a machine's instances would change, and every kept column would be made twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from scorer.ledger.record.facets import Facet, facets_of
from scorer.ledger.record.instance import Instance, machines_of
from scorer.ledger.view.leavers import Leavers
from scorer.ledger.view.slots import PlacedInstances, Slots
from scorer.ledger.view.view import GONE, Change, LedgerView
from scorer.snapshot.arrays import Floats, Integers

_BEYOND = 1 << 40
"""Slots of proposed instances are numbered from here, beyond those of any view."""


class Overlay:
    """A ledger view less the instances in ``without``, plus those proposed. The view must not change meanwhile."""

    def __init__(self, base: LedgerView, without: Iterable[str] = ()) -> None:
        self.base = base
        self._unseen: dict[str, int] = {}
        """The numbers of machines that hold proposed instances and never held one of the view."""
        self._start = base.position
        self._without: set[str] = set()
        self._missing: set[int] = set()
        self._changes: list[Change] = []
        for instance_id in without:
            if instance_id in base.instances:
                self.take_out(instance_id)
        self._slots = Slots(16)
        self._proposed: dict[str, Instance] = {}
        self._slot_of: dict[str, int] = {}
        """The slot of each proposed instance."""
        self._by_machine: dict[str, list[int]] = {}

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._proposed or (
            instance_id in self.base.instances and instance_id not in self._without
        )

    def take_out(self, instance_id: str) -> None:
        """Leave out an instance of the view, so that it can be proposed elsewhere; KeyError where there is none.

        A moving one is left out on both machines.
        """
        facets = facets_of(self.base.instances[instance_id])
        self._without.add(instance_id)
        for machine, slot in self.base.slots_of(instance_id).items():
            self._missing.add(slot)
            self._changes.append((machine, GONE, facets))

    def propose(self, instance: Instance) -> None:
        """Add an instance; its id must not be in the ledger."""
        if instance.id in self:
            raise ValueError(f"{instance.id!r} is already in the ledger")
        slot = self._slots.next()
        known = self.base.numbers
        number = known.get(instance.machine)
        if number is None:
            number = self._unseen.setdefault(instance.machine, len(known) + len(self._unseen))
        self._slots.write(slot, instance, number)
        self._proposed[instance.id], self._slot_of[instance.id] = instance, slot
        self._by_machine.setdefault(instance.machine, []).append(_BEYOND + slot)
        self._changes.append((instance.machine, _BEYOND + slot, facets_of(instance)))

    def withdraw(self, instance_id: str) -> None:
        """Take back what was proposed; KeyError where nothing was under this id."""
        instance = self._proposed.pop(instance_id)
        slot = self._slot_of.pop(instance_id)
        self._slots.clear(slot)
        self._by_machine[instance.machine].remove(_BEYOND + slot)
        self._changes.append((instance.machine, GONE, facets_of(instance)))

    def leave(self, instance_id: str) -> None:
        """Leave an instance out, wherever it is; KeyError where there is none."""
        if instance_id in self._proposed:
            self.withdraw(instance_id)
        else:
            self.take_out(instance_id)

    # ---- reading: the methods of `LedgerView`

    @property
    def leavers(self) -> Leavers:
        """The leavers of the view: an instance that is only proposed is none."""
        return self.base.leavers

    @property
    def numbers(self) -> Mapping[str, int]:
        """Every machine that ever held an instance, the proposed ones too, in the order of their numbers."""
        return self.base.numbers | self._unseen if self._unseen else self.base.numbers

    def holders(self, facets: frozenset[Facet]) -> list[str]:
        """Return the machine of each instance with all these facets; both machines of one that moves."""
        instances = self.base.instances
        left = [instances[one] for one in self.base.matching(facets) if one not in self._without]
        found = [machine for one in left for machine in machines_of(one)]
        return found + [one.machine for one in self._proposed.values() if facets <= facets_of(one)]

    def held_on(self, machine: str) -> list[Instance]:
        """Return the instances that hold a machine: those on it, and those that move there."""
        here = [one for one in self.base.held_on(machine) if one.id not in self._without]
        return here + [one for one in self._proposed.values() if one.machine == machine]

    def slots_on(self, machine: str) -> Collection[int]:
        """Return the slots of one machine's instances, in the order they came."""
        own = self._by_machine.get(machine, [])
        here = self.base.slots_on(machine)
        if self._missing:
            here = [slot for slot in here if slot not in self._missing]
        return [*here, *own] if own else here

    def live(self) -> tuple[Integers, Integers]:
        """Return the slots in use, and the number of the machine of each."""
        slots, machines = self.base.live()
        if self._missing:
            stay = ~np.isin(slots, list(self._missing))
            slots, machines = slots[stay], machines[stay]
        own = np.flatnonzero(self._slots.machines[: self._slots.used] >= 0)
        return np.append(slots, _BEYOND + own), np.append(machines, self._slots.machines[own])

    def take(self, slots: Integers, rows: Integers) -> PlacedInstances:
        """Return the instances of these slots as columns; ``rows`` has the row of each one's machine."""
        own = slots >= _BEYOND
        if not own.any():
            return self.base.take(slots, rows)
        proposed = self._slots.take(slots[own] - _BEYOND, rows[own])
        return PlacedInstances.joined(self.base.take(slots[~own], rows[~own]), proposed)

    def promised(self, slots: Integers) -> tuple[Floats, Floats]:
        """Return [R, K] amounts and [K] maxmemory of the instances of these slots."""
        own = slots >= _BEYOND
        mine, others = slots[own] - _BEYOND, self.base.promised(slots[~own])
        amounts, maxmemory = np.empty((len(others[0]), slots.size)), np.empty(slots.size)
        amounts[:, own], maxmemory[own] = self._slots.amounts[:, mine], self._slots.maxmemory[mine]
        amounts[:, ~own], maxmemory[~own] = others
        return amounts, maxmemory

    @property
    def position(self) -> int:
        """Number of the changes, those of the view included."""
        return self._start + len(self._changes)

    def changes_since(self, position: int) -> Sequence[Change] | None:
        """Return the changes since a position; None when the view no longer remembers them."""
        if position >= self._start:
            return self._changes[position - self._start :]
        before = self.base.changes_since(position)
        return None if before is None else [*before, *self._changes]


Readable = LedgerView | Overlay
"""What a ranking can be made on."""
