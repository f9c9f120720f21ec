"""Sums over the ledger's instances by machine, as columns in the rows of a roster.

`Seats.catch_up` applies the changes that the ledger noted since the last call. An instance that came to a machine is
added to its row. When one left, the row is summed again from the machine's own instances, since subtracting drifts. A
decision reads columns and not the 200,000 records behind them.

Instances on a machine that is not in the roster are left out of the sums (give `machine_names` to `build_snapshot` to
have every such machine in the roster).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from scorer.ledger.record.facets import Facet
from scorer.ledger.view.leavers import Leavers
from scorer.ledger.view.overlay import Readable
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import GONE
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.roster import Roster

TALLIES_MAX = 256
"""At most so many tallies are kept current; the least recently read is dropped first."""

TAIL_MAX = 256
"""After more changes than this the sum of one row is computed again: to search the changes would cost more."""
FEW = 24
"""Up to so many changes are listed one by one; to find the rows of more, one pass over all rows costs less."""

_R = len(RESOURCES)

Compute = Callable[[PlacedInstances], Floats]
"""From K instances to [S, K]; most have a row for each resource."""
RowSums = dict[Any, dict[int, tuple[int, Floats]]]
"""Sums of single rows by what is summed and by row, with the position they were made at."""


class Seats:
    """Columns over the machines of one roster; `catch_up` brings them up to date with the ledger."""

    def __init__(self, ledger: Readable, roster: Roster) -> None:
        self.ledger = ledger
        self.roster = roster
        self.position = 0
        """The ledger's position that the columns are up to date with."""
        self.allocated: Floats = np.zeros((_R, 0))
        """[R, M] sum of the amounts."""
        self.maxmemory: Floats = np.zeros(0)
        """[M] sum of maxmemory in bytes."""
        self.count: Floats = np.zeros(0)
        """[M] live instances."""
        self._changed_at: Integers = np.zeros(len(roster.names), np.int64)
        """[M] the position after the last change of each row."""
        self._row_of: Integers = np.full(1, -1, np.int64)
        """[numbers + 1] row of each machine by its number in the ledger; -1 where it has none."""
        self._tallies: dict[frozenset[Facet], NDArray[np.int32]] = {}
        self._lent: set[frozenset[Facet]] = set()
        """Tallies that another `Seats` has, too: each is copied before it changes."""
        self._with_facet: dict[Facet | None, frozenset[frozenset[Facet]]] = {}
        """The keys of the tallies by one facet of each, so that a change is compared with few; None: without any."""
        self._placed: tuple[tuple[int, bytes], PlacedInstances] | None = None
        """The instances last read, with the position and the rows: several columns are made from them."""
        self._came: tuple[tuple[int, int, int], PlacedInstances | None] | None = None
        """The same of what came to a single row since a position."""
        self._sum_all()

    def over(self, ledger: Readable) -> Seats:
        """Return a copy for an overlay of its ledger, or for a copy of that; these columns stay as they are."""
        seats = object.__new__(Seats)
        seats.__dict__.update(self.__dict__)
        seats.ledger = ledger
        seats.allocated, seats.maxmemory = self.allocated.copy(), self.maxmemory.copy()
        seats.count, seats._tallies = self.count.copy(), self._tallies.copy()
        seats._changed_at = self._changed_at.copy()
        self._lent, seats._lent = set(self._tallies), set(self._tallies)
        seats._with_facet = self._with_facet.copy()
        seats._placed = seats._came = None
        seats.catch_up()
        return seats

    # ---- keeping up

    def catch_up(self) -> None:
        """Bring the columns up to date with the ledger."""
        ledger = self.ledger
        if self.position == ledger.position:
            return
        changes = ledger.changes_since(self.position)
        if changes is None:
            self._tallies.clear()
            self._with_facet.clear()
            self._lent.clear()
            self._sum_all()
            self._changed_at[:] = self.position
            return
        index, left = self.roster.index, set[str]()
        slots: list[int] = []
        rows: list[int] = []
        gone: list[int] = []
        for machine, slot, facets in changes:
            row = index.get(machine)
            if row is None:
                continue
            if slot == GONE:
                left.add(machine)
                gone.append(row)
            elif machine not in left:
                slots.append(slot)
                rows.append(row)
            self._count(row, facets, -1 if slot == GONE else 1)
        if len(slots) == 1:
            self._add_one(slots[0], rows[0])
        elif slots:
            self._add(np.array(slots), np.array(rows))
        for machine in left:
            self._sum_row(machine, index[machine])
        self.position = ledger.position
        self._changed_at[rows + gone] = self.position

    def _count(self, row: int, facets: frozenset[Facet], count: int) -> None:
        for facet in (None, *facets):
            for wanted in self._with_facet.get(facet, ()):
                if wanted <= facets:
                    if wanted in self._lent:
                        self._tallies[wanted] = self._tallies[wanted].copy()
                        self._lent.remove(wanted)
                    self._tallies[wanted][row] += count

    def _add_one(self, slot: int, row: int) -> None:
        amounts, maxmemory = self.ledger.promised(np.array([slot]))
        self.allocated[:, row] += amounts[:, 0]
        self.maxmemory[row] += maxmemory[0]
        self.count[row] += 1

    def _add(self, slots: Integers, rows: Integers) -> None:
        """Add instances in the order they came, as one after the other: to the last digit the same sums."""
        amounts, maxmemory = self.ledger.promised(slots)
        np.add.at(self.allocated.T, rows, amounts.T)
        np.add.at(self.maxmemory, rows, maxmemory)
        np.add.at(self.count, rows, 1)

    def _sum_row(self, machine: str, row: int) -> None:
        amounts, maxmemory = self.ledger.promised(np.array(list(self.ledger.slots_on(machine)), np.int64))
        self.allocated[:, row], self.maxmemory[row], self.count[row] = amounts.sum(1), maxmemory.sum(), maxmemory.size

    def _sum_all(self) -> None:
        machines = len(self.roster.names)
        slots, rows = self._seated()
        self.allocated, self.maxmemory = np.zeros((_R, machines)), np.zeros(machines)
        if slots.size:  # without any, bincount would count in whole numbers
            amounts, maxmemory = self.ledger.promised(slots)
            self.allocated[:] = [np.bincount(rows, part, minlength=machines) for part in amounts]
            self.maxmemory[:] = np.bincount(rows, maxmemory, minlength=machines)
        self.count = np.bincount(rows, minlength=machines).astype(np.float64)
        self.position = self.ledger.position

    def _seated(self) -> tuple[Integers, Integers]:
        """Return the slots of the instances on the roster's machines, and their rows."""
        self._number_rows()
        slots, machines = self.ledger.live()
        rows = self._row_of[machines]
        if rows.size and rows.min() < 0:
            return slots[rows >= 0], rows[rows >= 0]
        return slots, rows

    def _number_rows(self) -> None:
        """Note the rows of the machines that the ledger numbered since the last call."""
        numbers, known = self.ledger.numbers, self._row_of.size - 1
        if known < len(numbers):
            index = self.roster.index
            more = [index.get(machine, -1) for machine in islice(numbers, known, None)]
            self._row_of = np.concatenate([self._row_of[:-1], np.array([*more, -1], np.int64)])

    # ---- reading

    @property
    def empty(self) -> bool:
        """Whether the ledger never had an instance."""
        return not self.ledger.numbers

    def changed_since(self, position: int) -> Integers:
        """Return the rows that changed since a position that these columns, or those they are a copy of, once had."""
        if self.position - position <= FEW and (changes := self.ledger.changes_since(position)) is not None:
            index = self.roster.index
            return np.array(list({index[machine] for machine, _, _ in changes if machine in index}), np.int64)
        return np.flatnonzero(self._changed_at > position)

    def tally(self, facets: frozenset[Facet]) -> NDArray[np.int32]:
        """Return [M]: how many instances with all these facets each machine has. Kept current after the first call."""
        tally = self._tallies.pop(facets, None)
        if tally is None:
            tally = np.zeros(len(self.roster.names), np.int32)
            index = self.roster.index
            for machine in self.ledger.holders(facets):
                row = index.get(machine)
                if row is not None:
                    tally[row] += 1
            if len(self._tallies) >= TALLIES_MAX:
                oldest = next(iter(self._tallies))
                del self._tallies[oldest]
                self._with_facet[min(oldest, default=None)] -= {oldest}
            first = min(facets, default=None)
            self._with_facet[first] = self._with_facet.get(first, frozenset()) | {facets}
        self._tallies[facets] = tally
        return tally

    def placed(self, rows: Integers | None = None) -> PlacedInstances:
        """Return the live instances as columns: all of the roster's, or those on some rows."""
        if rows is None:
            return _of_all(self.ledger.take(*self._seated()))
        asked = (self.position, rows.tobytes())
        if self._placed is None or self._placed[0] != asked:
            self._placed = (asked, self._on(self.ledger, rows))
        return self._placed[1]

    def leavers(self, rows: Integers | None = None) -> PlacedInstances:
        """Return the leavers as columns: all of the roster's machines, or those of some rows."""
        leavers = self.ledger.leavers
        if rows is None:
            slots, machines = leavers.all()
            self._number_rows()
            at = self._row_of[machines]
            return _of_all(leavers.take(slots[at >= 0], at[at >= 0]))
        return self._on(leavers, rows)

    def _on(self, of: Readable | Leavers, rows: Integers) -> PlacedInstances:
        """Return those on some rows."""
        names, slots_on = self.roster.names, of.slots_on
        slots: list[int] = []
        places: list[int] = []
        for place, row in enumerate(rows.tolist()):
            here = slots_on(names[row])
            slots += here
            places += [place] * len(here)
        found = of.take(np.array(slots, np.int64), np.array(places, np.int64))
        found.at, found.rows = found.rows, rows.take(found.rows)  # an overlay gives its own instances last
        return found

    def sums(self, key: Any, compute: Compute, kept: RowSums, rows: Integers | None = None) -> Floats:
        """Return [S, M], or [S, len(rows)]: the sum over each machine's instances of ``compute(placed) -> [S, K]``.

        The sum of a single row is kept in ``kept`` under ``key``. While instances only come, each is added to it.
        """
        if rows is not None and len(rows) == 1:
            return self._row_sum(key, compute, kept, int(rows[0]))[:, None]
        placed = self.placed(rows)
        return by_machine(compute(placed), placed.at, len(self.roster.names) if rows is None else rows.size)

    def _row_sum(self, key: Any, compute: Compute, kept: RowSums, row: int) -> Floats:
        of_rows = kept.setdefault(key, {})
        position, found = of_rows.get(row, (-1, None))
        came = None if found is None else self.came_to(row, position)
        if found is None or came is None:
            found = _sum_of(compute, self.placed(np.array([row])))
        elif came.rows.size:
            found = found + _sum_of(compute, came)
        of_rows[row] = (self.position, found)
        return found

    def came_to(self, row: int, position: int) -> PlacedInstances | None:
        """Return what came to a row since a position; None when one left it, or that is too long ago."""
        asked = (self.position, row, position)
        if self._came is None or self._came[0] != asked:
            changes = self.ledger.changes_since(position) if self.position - position <= TAIL_MAX else None
            name = self.roster.names[row]
            slots = [GONE] if changes is None else [slot for machine, slot, _ in changes if machine == name]
            took = np.array(slots, np.int64)
            self._came = (asked, None if GONE in slots else self.ledger.take(took, np.full(took.size, row)))
        return self._came[1]


def _sum_of(compute: Compute, placed: PlacedInstances) -> Floats:
    """Return [S]: the sum over these instances."""
    found: Floats = np.add.reduce(compute(placed), axis=1)
    return found


def by_machine(values: Floats, at: Integers, machines: int) -> Floats:
    """Return [S, machines]: the sum of [S, K] over the instances on each machine; ``at`` [K] has that of each."""
    # without any instance, bincount counts in whole numbers
    return np.array([np.bincount(at, part, minlength=machines) for part in values], np.float64)


def _of_all(placed: PlacedInstances) -> PlacedInstances:
    placed.at = placed.rows
    return placed
