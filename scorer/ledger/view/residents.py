"""Residents: the ledger's instances by the rows of a roster, for sums over each machine's instances.

Instances on a machine that is not in the roster are left out (give `machine_names` to `build_snapshot` to have every
such machine in the roster).
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from scorer.ledger.record.facets import Facet
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.slots import INSTANCE, PlacedInstances
from scorer.ledger.view.view import GONE, Change, LedgerView
from scorer.snapshot.arrays import Floats, Integers, address
from scorer.snapshot.rules import Roster

MANY, TALLIES_MAX = 256, 64
"""Least number of instances whose count by machine is cached, and most cached counts. With 40,000 of one kind on 5,000
machines a count takes 9 ms, a copy 12 us; below 256 instances a count takes at most 60 us."""

Places = tuple[Integers, Integers]
"""The addresses of records, sorted by machine, and [n + 1] where those of each machine begin."""


class Residents:
    """The instances and leavers of a ledger on the machines of one roster."""

    def __init__(self, ledger: LedgerView, roster: Roster) -> None:
        self.ledger = ledger
        self.roster = roster
        self._row_of: Integers = np.full(1, -1, np.int64)
        """[numbers + 1] row of each machine by its number in the ledger; -1 where it has none."""
        self._tallies: dict[frozenset[Facet], tuple[int, Floats]] = {}
        """Each with the ledger's position that it was counted at."""

    def placed(self) -> PlacedInstances:
        """Return the live instances as columns."""
        return self._columns(self.ledger.slots.records)

    def leavers(self) -> PlacedInstances:
        return self._columns(self.ledger.leavers.slots.records)

    def _columns(self, records: NDArray[np.void]) -> PlacedInstances:
        chosen, rows = self.seated(records)
        return PlacedInstances(records[chosen], rows)

    def seated(self, records: NDArray[np.void]) -> tuple[Integers, Integers]:
        """Return which records are in use on the roster's machines, and their rows.

        Another thread may change the ledger and ask for this meanwhile: a machine has its number before its record.
        """
        (chosen,) = np.nonzero(records["machine"] >= 0)
        machines = records["machine"][chosen]
        row_of, numbers = self._row_of, self.ledger.numbers
        if row_of.size <= len(numbers):
            index = self.roster.index
            more = [index.get(machine, -1) for machine in list(numbers)[row_of.size - 1 :]]
            row_of = self._row_of = np.concatenate([row_of[:-1], np.array([*more, -1], np.int64)])
        rows = row_of[machines]
        return chosen[rows >= 0], rows[rows >= 0]

    # ---- records by machine

    def everywhere(self) -> tuple[Places, Places, Sequence[NDArray[np.void]]]:
        """Return live instances and leavers of all machines, and the arrays that own the addresses."""
        live, left = kept = self.ledger.slots.records, self.ledger.leavers.slots.records
        return self._sorted(live), self._sorted(left), kept

    def _sorted(self, records: NDArray[np.void]) -> Places:
        chosen, rows = self.seated(records)
        order = np.argsort(rows, kind="stable")
        ends = np.zeros(len(self.roster.names) + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=ends.size - 1), out=ends[1:])
        return address(records) + chosen[order] * INSTANCE.itemsize, ends

    def on(self, rows: Sequence[int], overlay: Overlay | None = None) -> tuple[Places, Places]:
        """Return instances and leavers of some machines, with an overlay's proposals; valid until the next change."""
        names, left = self.roster.names, self.ledger.leavers
        if overlay is not None:
            live = [overlay.addresses_on(names[row]) for row in rows]
        else:
            live = [self.ledger.slots.addresses_of(self.ledger.slots_on(names[row])) for row in rows]
        return _flat(live), _flat([left.slots.addresses_of(left.slots_on(names[row])) for row in rows])

    # ---- counting

    def tally(self, facets: frozenset[Facet], overlay: Overlay | None = None) -> Floats:
        """Return [M]: how many instances with all these facets each machine has; the caller may change the array."""
        tally, index = self._tally(facets), self.roster.index
        for (machine, of), count in overlay.counts.items() if overlay is not None else ():
            if facets <= of and (row := index.get(machine)) is not None:
                tally[row] += count
        return tally

    def _tally(self, facets: frozenset[Facet]) -> Floats:
        position, ledger = self.ledger.position, self.ledger
        at, kept = self._tallies.pop(facets, (0, None))
        changes = None if kept is None else ledger.changes_since(at)
        if kept is not None and changes is not None:
            kept = self._changed(kept, facets, changes)
        else:
            kept, index = np.zeros(len(self.roster.names)), self.roster.index
            holders = ledger.holders(facets)
            for machine in holders:
                if (row := index.get(machine)) is not None:
                    kept[row] += 1.0
            if len(holders) < MANY:
                return kept
        if len(self._tallies) >= TALLIES_MAX:
            del self._tallies[next(iter(self._tallies))]
        self._tallies[facets] = (position, kept)
        return kept.copy()

    def _changed(self, tally: Floats, facets: frozenset[Facet], changes: Sequence[Change]) -> Floats:
        index = self.roster.index
        for machine, slot, of in changes:
            if facets <= of and (row := index.get(machine)) is not None:
                tally[row] += -1.0 if slot == GONE else 1.0
        return tally


def _flat(addresses: Sequence[Sequence[int]]) -> Places:
    ends = np.array([0, *accumulate(map(len, addresses))], np.int64)
    return np.array([one for here in addresses for one in here], np.int64), ends


def by_machine(values: Floats, at: Integers, machines: int) -> Floats:
    """Return [S, machines]: the sum of [S, K] over the instances on each machine; ``at`` [K]: their machines."""
    # without any instance, bincount counts in whole numbers
    return np.array([np.bincount(at, part, minlength=machines) for part in values], np.float64)
