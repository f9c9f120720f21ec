"""The rows of a what-if: patches for the machines that proposed changes touch; the fleet's rows stay unchanged."""

from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from scorer.ledger.record.instance import Instance
from scorer.ledger.view.overlay import Overlay
from scorer.ranking.kernel.binding import make_rows, point
from scorer.ranking.kernel.layout import BY_CLASS, MORE, PATCHES, ROW
from scorer.ranking.machines.table import Table
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.rules import Roster
from scorer.snapshot.snapshot import Snapshot

_Rows = tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void] | None]


class WhatIf:
    """Patches of the tables of one ledger, for one overlay and the cordons of a snapshot's what-if."""

    def __init__(self, overlay: Overlay | None = None) -> None:
        self.overlay = overlay
        self.count = 0
        self.index: Integers = np.empty(16, np.int64)
        """The machine of each patch, of which ``count`` are in use."""
        self.place: dict[int, int] = {}
        """By machine, where its patch is."""
        self.struct = np.zeros((), PATCHES)
        self._rows: WeakKeyDictionary[Table, _Rows] = WeakKeyDictionary()
        self._made_at: WeakKeyDictionary[Table, tuple[int, Snapshot]] = WeakKeyDictionary()
        """The ledger's position and the snapshot that the patches of each table are made for."""
        self._position = 0
        """How many changes of the overlay are in the patches."""
        self._cordoned: frozenset[int] = frozenset()
        self._tell()

    def follow(self, table: Table, snapshot: Snapshot) -> None:
        """Update the patches of a table from the table, the overlay, and the cordons of a snapshot."""
        index = table.residents.roster.index
        changes = () if self.overlay is None else self.overlay.changes[self._position :]
        touched = {row for machine, _, _ in changes if (row := index.get(machine)) is not None}
        self._position += len(changes)
        cordoned = self._cordoned
        if snapshot is not snapshot.origin:
            cordoned = frozenset(np.flatnonzero(snapshot.rules.cordon & ~snapshot.origin.rules.cordon).tolist())
        touched |= cordoned ^ self._cordoned
        self._cordoned = cordoned
        for row in touched:
            if row not in self.place:
                self.place[row] = self.count
                self.reserve(self.count + 1)
                self.index[self.count] = row
                self.count += 1
        if touched:
            for known in self._rows:
                self._make(known, touched)
        made_for = (table.position, table.snapshot)
        if self._made_at.get(table) != made_for:
            self._make(table, self.place)
            self._made_at[table] = made_for
        self._tell()

    def reserve(self, count: int) -> None:
        """Make room for so many patches."""
        if count <= self.index.size:
            return
        size = max(count, 2 * self.index.size)
        self.index = np.concatenate([self.index, np.empty(size - self.index.size, np.int64)])
        for table, (rows, more, by) in list(self._rows.items()):
            grown = tuple(None if one is None else np.concatenate([one, np.zeros(size - one.size, one.dtype)])
                          for one in (rows, more, by))  # fmt: skip
            self._rows[table] = grown  # type: ignore[assignment]
        self._tell()

    def rows(self, table: Table) -> _Rows:
        """Return the patches of a table; the first ``count`` are in use."""
        found = self._rows.get(table)
        if found is None:
            size = self.index.size
            by = None if table.by_class is None else np.zeros(size, BY_CLASS)
            found = self._rows[table] = (np.zeros(size, ROW), np.zeros(size, MORE), by)
        return found

    def copy(self) -> "WhatIf":
        """Return a copy of the patches, to which a batch adds its own copies while it is chosen."""
        found = WhatIf(self.overlay)
        found.count, found.index, found.place = self.count, self.index.copy(), self.place.copy()
        for table, rows in self._rows.items():
            found._rows[table] = tuple(None if one is None else one.copy() for one in rows)  # type: ignore[assignment]
        found._tell()
        return found

    def _make(self, table: Table, touched: Iterable[int]) -> None:
        machines = list(touched)
        if not machines:
            self.rows(table)
            return
        at, places = np.array(machines, np.int64), np.array([self.place[row] for row in machines], np.int64)
        into = self.rows(table)
        for patched, own in zip(into, table.records, strict=True):
            if patched is not None and own is not None:
                _plain(patched)[places] = _plain(own)[at]
        make_rows(table.making, at, places, table.residents.on(machines, self.overlay), (*into, None))
        into[0]["cordon"][places] |= [row in self._cordoned for row in machines]

    def _tell(self) -> None:
        self.struct["count"] = self.count
        point(self.struct, index=self.index)

    def proposed(self, roster: Roster) -> Iterator[tuple[int, int, Instance]]:
        """Yield the proposed changes: the machine's row, 1 or -1, and the added or removed instance."""
        for machine, sign, instance in () if self.overlay is None else self.overlay.difference():
            if (row := roster.index.get(machine)) is not None:
                yield row, sign, instance

    def records(self, table: Table, place: int, rows: Integers) -> NDArray[np.void]:
        """Return a copy of some rows (0), of their optional parts (1), or of their sums (2), with patches."""
        of = table.records[place]
        assert of is not None
        found = _plain(of)[rows]
        for position, row in enumerate(rows.tolist() if self.count else ()):
            if row in self.place:
                found[position] = _plain(self.rows(table)[place])[self.place[row]]
        return np.ndarray(found.shape, of.dtype, found)

    def column(self, table: Table, name: str, place: int, values: Floats) -> Floats:
        """Return a column [M, ...] of rows (0), of their optional parts (1), or of sums (2), with patches."""
        if not self.count:
            return values
        found = values.copy()
        of = self.rows(table)[place]
        assert of is not None
        found[self.index[: self.count]] = of[name][: self.count]
        return found


def _plain(records: NDArray[np.void] | None) -> NDArray[np.void]:
    """Return records as bytes, which are copied in 0.4 us; a struct is copied field by field, in 19 us."""
    assert records is not None
    return records.view(_PLAIN[records.itemsize])


_PLAIN = {of.itemsize: np.dtype((np.void, of.itemsize)) for of in (ROW, MORE, BY_CLASS)}


class _Nothing(WhatIf):
    """No change is proposed: there are no patches."""

    def rows(self, table: Table) -> _Rows:
        """Return the table's own rows in place of patches; none of them is read as a patch."""
        return table.records


NOTHING = _Nothing()
