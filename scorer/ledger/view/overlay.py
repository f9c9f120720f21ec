"""The overlay: proposed placements and removals on a ledger view, which stays as it is.

A batch is planned on the ledger with the instances planned so far, a move on the ledger without the instance that
moves. Both are an `Overlay`: the view's instances, less those taken out, plus those proposed.

Chosen: a value of its own over the view, as Nomad's plan is over its state (``EvalContext.ProposedAllocs``). Rejected:
adding to the live view and removing again afterwards. After an exception, or on another thread, a reader would see a
ledger that never was. The order of a machine's instances would change.
"""

from collections.abc import Iterable, Iterator, Sequence

from scorer.ledger.record.facets import Avoiders, Facet, facets_of
from scorer.ledger.record.instance import Instance, machines_of
from scorer.ledger.view.slots import Leavers, Slots
from scorer.ledger.view.view import GONE, Change, LedgerView


class Overlay:
    """A ledger view less the instances in ``without``, plus those proposed. The view must not change meanwhile."""

    def __init__(self, base: LedgerView, without: Iterable[str] = ()) -> None:
        self.base = base
        self._start = base.position
        self._without: set[str] = set()
        self._missing: set[int] = set()
        self.changes: list[Change] = []
        self.counts: dict[tuple[str, frozenset[Facet]], int] = {}
        """How many instances with these facets a machine has more than in the view."""
        for instance_id in without:
            if instance_id in base.instances:
                self.take_out(instance_id)
        self._slots = Slots(16)
        self._proposed: dict[str, Instance] = {}
        self._slot_of: dict[str, int] = {}
        """The slot of each proposed instance."""
        self._by_machine: dict[str, list[int]] = {}
        self._avoiders = Avoiders()

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
            self._change(machine, GONE, facets)

    def propose(self, instance: Instance) -> None:
        """Add an instance; its id must not be in the ledger."""
        if instance.id in self:
            raise ValueError(f"{instance.id!r} is already in the ledger")
        slot = self._slots.next()
        self._slots.write(slot, instance, 0)
        self._proposed[instance.id], self._slot_of[instance.id] = instance, slot
        self._by_machine.setdefault(instance.machine, []).append(slot)
        facets = facets_of(instance)
        self._avoiders.add(facets)
        self._change(instance.machine, slot, facets)

    def withdraw(self, instance_id: str) -> None:
        """Withdraw a proposed instance; KeyError where none has this id."""
        instance = self._proposed.pop(instance_id)
        slot = self._slot_of.pop(instance_id)
        self._slots.clear(slot)
        self._by_machine[instance.machine].remove(slot)
        self._change(instance.machine, GONE, facets_of(instance))

    def leave(self, instance_id: str) -> None:
        """Leave out an instance of the view or a proposed one; KeyError for an unknown id."""
        if instance_id in self._proposed:
            self.withdraw(instance_id)
        else:
            self.take_out(instance_id)

    def _change(self, machine: str, slot: int, facets: frozenset[Facet]) -> None:
        self.changes.append((machine, slot, facets))
        count = self.counts.pop((machine, facets), 0) + (-1 if slot == GONE else 1)
        if count:
            self.counts[machine, facets] = count

    # ---- reading: the methods of `LedgerView`

    @property
    def leavers(self) -> Leavers:
        """The leavers of the view; proposed instances leave none."""
        return self.base.leavers

    @property
    def avoiders(self) -> tuple[Avoiders, ...]:
        """The instances' rules of anti-affinity; some of their instances may have left."""
        return (*self.base.avoiders, self._avoiders)

    def holders(self, facets: frozenset[Facet]) -> list[str]:
        """Return the machine of each instance with all these facets; both machines of a moving one."""
        instances = self.base.instances
        left = [instances[one] for one in self.base.matching(facets) if one not in self._without]
        found = [machine for one in left for machine in machines_of(one)]
        return found + [one.machine for one in self._proposed.values() if facets <= facets_of(one)]

    def held_on(self, machine: str) -> list[Instance]:
        """Return the instances that hold a machine: those on it, and those that move to it."""
        here = [one for one in self.base.held_on(machine) if one.id not in self._without]
        return here + [one for one in self._proposed.values() if one.machine == machine]

    def newest_on(self, machine: str, count: int) -> list[Instance]:
        """Return the last instances that came to a machine."""
        return self.held_on(machine)[-count:]

    def addresses_on(self, machine: str) -> list[int]:
        """Return the addresses of the records of one machine's instances: of the view, then of the proposed ones."""
        here = [slot for slot in self.base.slots_on(machine) if slot not in self._missing]
        own = self._by_machine.get(machine, ())
        return [*self.base.slots.addresses_of(here), *self._slots.addresses_of(own)]

    def difference(self) -> Iterator[tuple[str, int, Instance]]:
        """Yield machine, sign and instance: 1 for a proposed instance, -1 for one that is left out."""
        yield from ((one.machine, 1, one) for one in self._proposed.values())
        for instance_id in self._without:
            one = self.base.instances[instance_id]
            yield from ((machine, -1, one) for machine in machines_of(one))

    @property
    def position(self) -> int:
        """The number of changes, including the view's."""
        return self._start + len(self.changes)

    def changes_since(self, position: int) -> Sequence[Change]:
        return self.changes[position - self._start :]


Readable = LedgerView | Overlay
"""The types that a ranking can read the ledger from."""
