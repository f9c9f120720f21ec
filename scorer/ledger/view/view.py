"""The ledger's live instances in memory, kept current one changed record at a time.

`LedgerView.apply` costs a few microseconds whatever the ledger's size: it writes the record and notes the change.
Nothing here depends on a roster, and reading changes nothing. The rows of machines follow the noted changes
(`scorer.ranking.machines`); proposed placements are kept apart, in an overlay (`scorer.ledger.view.overlay`).

Chosen: the view notes (machine, slot) of every change. Rejected: sums inside the view, for the roster a reader gave
last. Reading would change the view, and each reader would have to know which roster the columns were for.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.facets import Avoiders, Facet, alike, facets_of
from scorer.ledger.record.instance import LIVE, Instance, arriving, as_held, kept_of, machines_of, rules_of
from scorer.ledger.view.slots import MOST, Leavers, Slots, left_behind

GONE = -1
"""In a `Change` in place of the slot: an instance left the machine."""

CHANGES_MAX = 20_000
"""At most so many changes are remembered: 540 bytes each where instances have labels, ports and clusters."""

HALF_LIFE_S = 600.0
"""After so long a failed start counts half."""

Change = tuple[str, int, frozenset[Facet]]
"""A machine, the slot of an instance that was added to it (or `GONE`), and the instance's facets (index keys)."""


def instance_of(
    request: Request, machine: str, now_s: float, instance_id: str | None = None, digest: str = ""
) -> Instance:
    """Return the record that a reservation of this request on this machine gets; ``digest``: the request's."""
    return Instance(
        id=request.id if instance_id is None else instance_id,
        machine=machine,
        state="reserved",
        amounts=request.given_amounts(),
        expected=tuple(float(request.expected.get(name, -1.0)) for name in RESOURCES) if request.expected else (),
        limits=tuple(float(request.limits.get(name, -1.0)) for name in RESOURCES) if request.limits else (),
        maxmemory=float(request.maxmemory),
        priority_class=request.priority_class,
        reserved_at=now_s,
        expires_at=now_s + request.ttl_s,
        request=digest,
        rules=rules_of(request),
        **kept_of(request),
    )


class LedgerView:
    """The live instances by id, machine and facet, and as columns by slot."""

    def __init__(
        self, instances: Iterable[Instance] = (), leavers: Iterable[Instance] = (), leavers_most: int = MOST
    ) -> None:
        self.instances: dict[str, Instance] = {}
        """Live instances by id."""
        self.moving: set[str] = set()
        self.version = 0
        """Raised with every applied record."""
        self.numbers: dict[str, int] = {}
        """Every machine that ever held an instance, numbered from 0 in the order they appeared."""
        self._free: list[int] = []
        self._by_machine: dict[str, dict[str, int]] = {}
        self._by_facet: dict[Facet, dict[str, None]] = {}
        self._avoiders = Avoiders()
        self.slots = Slots(256)
        self._machine_names: tuple[str, ...] | None = ()
        self._changes: list[Change] = []
        self.leavers = Leavers(leavers_most)
        """Instances that ended or moved away and that the windows still show."""
        self.failures: dict[str, tuple[float, float]] = {}
        """By machine: the count of failed starts, and the time of the last one."""
        self._forgotten = 0
        """Number of the changes that are no longer remembered."""
        by_id = {one.id: one for one in instances if one.state in LIVE}
        moving = [one for one in by_id.values() if one.moving is not None]
        for one in moving:
            del by_id[one.id]
        self._add_all(by_id)
        self._forgotten += len(by_id)
        for one in moving:
            self.apply(one)
        leavers = list(leavers)
        for leaver in sorted(leavers, key=lambda one: one.ended_at):
            self._note_failure(leaver)
        for leaver in leavers:
            if leaver.started_at:
                self._add_leaver(leaver)

    def __len__(self) -> int:
        return len(self.instances)

    # ---- writing

    def apply(self, instance: Instance) -> None:
        """Apply one changed record: it replaces the one of its id; an ended instance is dropped."""
        before = self.instances.get(instance.id)
        if (leaver := left_behind(before, instance)) is not None:
            self._add_leaver(leaver)
        if before is not None:
            self._remove(before)
        if instance.state in LIVE:
            self._add(instance)
        else:
            self._note_failure(instance)
        self.version += 1

    def add(self, instances: Sequence[Instance]) -> None:
        """Add live instances that are new and do not move, like `apply` of each, in a third of the time."""
        by_id = {one.id: one for one in instances}
        for machine, slot, facets in self._add_all(by_id):
            self._note(machine, slot, facets)

    def _add_all(self, by_id: Mapping[str, Instance]) -> Iterator[Change]:
        """Add instances by groups with equal facets; return the changes, which are not recorded."""
        if not by_id:
            return iter(())
        names, instances = list(by_id), list(by_id.values())
        firsts, groups = alike(instances)
        machines = [one.machine for one in instances]
        slots = [self._free.pop() for _ in range(min(len(self._free), len(instances)))]
        slots += self.slots.more(len(instances) - len(slots))
        numbers = [self.numbers.setdefault(machine, len(self.numbers)) for machine in machines]
        self.slots.write_all(slots, instances, numbers, firsts, groups)
        self.instances.update(by_id)
        facets = [facets_of(one) for one in firsts]
        members: list[dict[str, None]] = [{} for _ in firsts]
        by_machine = self._by_machine
        for name, machine, slot, group in zip(names, machines, slots, groups, strict=True):
            members[group][name] = None
            here = by_machine.get(machine)
            if here is None:
                here = by_machine[machine] = {}
                self._machine_names = None
            here[name] = slot
        for several, each in zip(facets, members, strict=True):
            self._avoiders.add(several)
            for facet in several:
                self._by_facet.setdefault(facet, {}).update(each)
        self.version += len(instances)
        return ((machine, slot, facets[group]) for machine, slot, group in zip(machines, slots, groups, strict=True))

    def forget(self, instance_id: str) -> None:
        """Drop a record that is no longer in the ledger."""
        before = self.instances.get(instance_id)
        if before is not None:
            self._remove(before)
            self.version += 1

    def _note_failure(self, ended: Instance) -> None:
        if ended.failed:
            self.failures[ended.machine] = 1.0 + self.failed_starts(ended.machine, ended.ended_at), ended.ended_at

    def failed_starts(self, machine: str, now_s: float) -> float:
        """Return the number of starts that failed on a machine; each counts half after `HALF_LIFE_S`, by any clock."""
        count, at_s = self.failures.get(machine, (0.0, now_s))
        return float(count * 0.5 ** (abs(now_s - at_s) / HALF_LIFE_S))

    def _add_leaver(self, leaver: Instance) -> None:
        self.leavers.add(leaver, self.numbers.setdefault(leaver.machine, len(self.numbers)))

    def _add(self, instance: Instance) -> None:
        self.instances[instance.id] = instance
        facets = facets_of(instance)
        self._avoiders.add(facets)
        for facet in facets:
            self._by_facet.setdefault(facet, {})[instance.id] = None
        self._sit(instance, facets)
        if instance.moving is not None:
            self.moving.add(instance.id)
            self._sit(arriving(instance, instance.moving), facets)

    def _sit(self, instance: Instance, facets: frozenset[Facet]) -> None:
        """Give an instance a slot on its machine."""
        machine = instance.machine
        slot = self._free.pop() if self._free else self.slots.next()
        self.slots.write(slot, instance, self.numbers.setdefault(machine, len(self.numbers)))
        if machine not in self._by_machine:
            self._by_machine[machine] = {}
            self._machine_names = None
        self._by_machine[machine][instance.id] = slot
        self._note(machine, slot, facets)

    def _remove(self, instance: Instance) -> None:
        del self.instances[instance.id]
        self.moving.discard(instance.id)
        facets = facets_of(instance)
        for facet in facets:
            members = self._by_facet[facet]
            del members[instance.id]
            if not members:
                del self._by_facet[facet]
                self._avoiders.drop(facet)
        for machine in machines_of(instance):
            at_machine = self._by_machine[machine]
            slot = at_machine.pop(instance.id)
            self.slots.clear(slot)
            self._free.append(slot)
            if not at_machine:
                del self._by_machine[machine]
                self._machine_names = None
            self._note(machine, GONE, facets)

    def _note(self, machine: str, slot: int, facets: frozenset[Facet]) -> None:
        self._changes.append((machine, slot, facets))
        if len(self._changes) > CHANGES_MAX:
            older = len(self._changes) // 2  # whoever has read the newer half goes on from there
            self._forgotten += older
            del self._changes[:older]

    # ---- reading: instances

    @property
    def machine_names(self) -> tuple[str, ...]:
        """The machines that instances hold; the same object while that set is the same."""
        if self._machine_names is None:
            self._machine_names = tuple(sorted(self._by_machine))
        return self._machine_names

    def on_machine(self, machine: str) -> list[Instance]:
        """Return the live instances on one machine, without those that are still moving to it."""
        return [one for one in self.held_on(machine) if one.machine == machine]

    def held_on(self, machine: str) -> list[Instance]:
        """Return the live instances that hold a machine: those on it, and those that move to it."""
        return [self.instances[instance_id] for instance_id in self._by_machine.get(machine, ())]

    def newest_on(self, machine: str, count: int) -> list[Instance]:
        """Return the last instances that came to a machine, in their form there."""
        ids = islice(reversed(self._by_machine.get(machine, {})), count)
        return [as_held(self.instances[one], machine) for one in ids]

    def matching(self, facets: frozenset[Facet]) -> list[str]:
        """Return the ids of the instances with all these facets."""
        if not facets:
            return list(self.instances)
        members = sorted((self._by_facet.get(facet, {}) for facet in facets), key=len)
        return [instance_id for instance_id in members[0] if all(instance_id in other for other in members[1:])]

    @property
    def avoiders(self) -> tuple[Avoiders, ...]:
        return (self._avoiders,)

    def holders(self, facets: frozenset[Facet]) -> list[str]:
        """Return the machine of each instance with all these facets; both machines of a moving one."""
        return [machine for one in self.matching(facets) for machine in machines_of(self.instances[one])]

    # ---- reading: columns by slot

    def slots_on(self, machine: str) -> Collection[int]:
        """Return the slots of the instances that hold a machine, in the order in which they were added."""
        return self._by_machine.get(machine, {}).values()

    def slots_of(self, instance_id: str) -> dict[str, int]:
        """Return the slots of a live instance by machine: two while it moves."""
        return {machine: self._by_machine[machine][instance_id] for machine in machines_of(self.instances[instance_id])}

    def slot_of(self, instance_id: str) -> int:
        """Return the slot of a live instance on its present machine."""
        return self._by_machine[self.instances[instance_id].machine][instance_id]

    # ---- reading: changes

    @property
    def position(self) -> int:
        return self._forgotten + len(self._changes)

    def changes_since(self, position: int) -> Sequence[Change] | None:
        """Return the changes since a position; None when some of them are no longer kept."""
        return None if position < self._forgotten else self._changes[position - self._forgotten :]
