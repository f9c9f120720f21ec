"""What is kept from one decision to the next: one owner for all of it, passed to `rank` as an argument.

    Kept ── of each snapshot ──> fixed values         what no placement changes (`scorer.ranking.machines.fixed`)
      │
      └──── of one ledger ─────> seats                its sums by machine (`scorer.ledger.view.seats`)
                        └──────> a shelf a load model derived columns, whole-fleet values, sums of single rows,
                                                      columns for the latest requests

When the ledger changes, only the rows of the changed machines are computed again: in place, or in a copy while a
ranking still reads the shelf. A ranking on an overlay uses copies, which the next ranking without an overlay drops.

| what changes                                                     | what is computed again                            |
|------------------------------------------------------------------|---------------------------------------------------|
| an instance comes, leaves, or its record changes                 | the row of its machine; whole-fleet values        |
| windows of at most an eighth of the machines                     | their rows; values of the whole fleet             |
| windows of more machines; a machine comes or goes                | all                                               |
| a machine is cordoned in a what-if                               | its row; all fixed and whole-fleet values         |
| a fact of an agent, an operator's rule                           | all                                               |
| usage by instance, learned or predicted use; a window's length   | all                                               |
| the ledger is read anew, or more changed than it remembers       | all                                               |
| a profile's settings                                             | nothing: they have keys of their own              |
| time                                                             | nothing: a plugin compares with the present time  |
| `MENDED_MAX` snapshots were mended one after the other           | all, so that no error of added floats grows       |

**Keys are made here.** Everything is kept under (`Owner`, name). The owner is the plugin's type with its settings; the
scorer's own columns have an owner that no plugin can name. So two plugins, or two settings of one, share no key.

Chosen: one object that the service owns and passes on. Rejected: nine dictionaries on snapshot, ledger and fleet with
hand-made keys. A score that derived "count" got the scorer's own count, and ranking changed its arguments.
Measured: to renew the shelf of the default profile after one placement on 5,000 machines takes about 0.1 ms. To make a
new one takes about 1 ms.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorer.ledger.view.overlay import Overlay, Readable
from scorer.ledger.view.seats import RowSums, Seats
from scorer.ledger.view.view import LedgerView
from scorer.ranking.estimates.credits import CreditModel
from scorer.ranking.machines.fixed import Compute, FixedValues, Key, Rows
from scorer.snapshot.arrays import Integers
from scorer.snapshot.snapshot import Snapshot

RECENT_BYTES = 64 << 20
"""Columns that depend on the request are kept while they take no more than this, and the latest in any case.

By the default profile the amounts of a request have two columns, of 4 and 8 bytes a machine: 1,118 amounts on 5,000
machines, 111 on 50,000.
"""
MENDED_PART, MENDED_MAX = 8, 1_024
"""What is kept is mended where at most one machine in so many changed, and for so many snapshots in a row."""
SNAPSHOTS_MAX = 3
"""Fixed values are kept of so many snapshots: the one in use, the one being made, and one between them."""


NO_ROWS: Integers = np.zeros(0, np.int64)


class LoadModelKey(NamedTuple):
    """Identifies a load model: the settings that the columns of a `Shelf` depend on."""

    window_s: int
    credits: CreditModel
    debits: bool
    estimate: Hashable
    requests_alone: bool


class Recent:
    """Columns for the latest requests, each with the moment that it is made for; bounded by their bytes."""

    def __init__(self) -> None:
        self._columns: dict[Key, tuple[int, int, NDArray[Any]]] = {}
        """Each with the ledger's position and the number of snapshots; the latest is the last."""
        self._bytes = 0
        self._snapshots = 0
        """How many snapshots came after the first."""
        self._changed_at: Integers = NO_ROWS
        """[M] The number of the snapshot that changed each row last; empty while only one was seen."""
        self._changed: tuple[tuple[int, int, int], Integers] | None = None
        """The rows that `take` told last, and of which moments: a kind's columns are mostly of one."""

    def beside(self) -> Recent:
        """Return the same for another ledger that began as this one; what one of them keeps, the other does not."""
        other = Recent()
        other._columns, other._bytes = self._columns.copy(), self._bytes
        other._snapshots, other._changed_at = self._snapshots, self._changed_at.copy()
        return other

    def note(self, rows: Integers, machines: int) -> None:
        """Note that a new snapshot of so many machines has changed these rows."""
        if not self._snapshots:
            self._changed_at = np.zeros(machines, np.int64)
        self._snapshots += 1
        self._changed_at[rows] = self._snapshots
        self._changed = None

    def take(self, key: Key, seats: Seats) -> tuple[Integers | None, NDArray[Any] | None]:
        """Return the rows that changed since, and the column, which is no longer kept; None where none is kept."""
        found = self._columns.pop(key, None)
        if found is None:
            return None, None
        position, snapshots, values = found
        self._bytes -= values.nbytes
        between = (position, seats.position, snapshots)
        if self._changed is None or self._changed[0] != between:
            rows = seats.changed_since(position)
            if snapshots < self._snapshots:
                changed = self._changed_at > snapshots
                changed[rows] = True
                rows = np.flatnonzero(changed)
            self._changed = (between, rows)
        return self._changed[1], values

    def put(self, key: Key, position: int, values: NDArray[Any]) -> None:
        """Keep a column as the latest; drop the oldest ones while all take too much."""
        self._columns[key] = (position, self._snapshots, values)
        self._bytes += values.nbytes
        while self._bytes > RECENT_BYTES and len(self._columns) > 1:
            _, _, oldest = self._columns.pop(next(iter(self._columns)))
            self._bytes -= oldest.nbytes


@dataclass(eq=False)
class Shelf:
    """What is kept of the fleet under one load model; arrays are read-only by agreement."""

    seats: Seats
    fixed: FixedValues
    """Values that no placement changes; shared by all shelves of the snapshot that use the same windows."""
    position: int
    """The ledger's position that the columns are made for."""
    derived: dict[Key, tuple[NDArray[Any], Compute]] = field(default_factory=dict)
    """Columns [..., M] that a placement changes in the rows of its machine."""
    overall: dict[Key, Any] = field(default_factory=dict)
    """Values of the whole fleet, dropped with every placement."""
    row_sums: RowSums = field(default_factory=dict)
    recent: Recent = field(default_factory=Recent)
    """Columns [..., M] for the latest requests."""
    viewers: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    """The fleets that read the columns as they are now."""
    outdated: Integers = field(default_factory=lambda: NO_ROWS)
    """Rows that a new snapshot has changed, to be computed again."""

    def column(self, key: Key, compute: Compute, machines: Rows) -> Any:
        """Return [..., M]: ``compute(all machines)``, kept current under the key; ``machines`` are any of the fleet.

        A machine's value must depend on that machine alone, and on no request. After a placement it is computed again
        only for the machines that changed.
        """
        entry = self.derived.get(key)
        if entry is None:
            values = compute(machines.whole)
            if not (values.flags.owndata and values.flags.writeable):
                values = values.copy()
            entry = self.derived[key] = (values, compute)
        return entry[0]

    def recent_column(self, key: Key, compute: Compute, machines: Rows) -> Any:
        """Return [..., M]: as `column`, for one of the latest requests; made current in a copy when asked for."""
        rows, values = self.recent.take(key, self.seats)
        if values is None or rows is None or 2 * len(rows) > values.shape[-1]:
            values = compute(machines.whole)
        elif rows.size:
            some, values = machines.whole.take(rows), values.copy()
            values[..., some.picked] = compute(some)
        self.recent.put(key, self.position, values)
        return values

    def renew(self, machines: Rows) -> None:
        """Compute the rows of these machines again, in the order in which the columns were first made."""
        before, rows = list(self.derived.items()), machines.picked
        for key, (values, compute) in before:
            machines.owner = key[0]
            values[..., rows] = compute(machines)
        for key in list(self.derived)[len(before) :]:  # made in the loop above, from partly renewed columns
            del self.derived[key]
        self.position, self.outdated = self.seats.position, NO_ROWS

    def rows_to_renew(self) -> Integers:
        """Return the rows of the machines that changed since the columns were made."""
        placed = self.seats.changed_since(self.position)
        return placed if not self.outdated.size else np.unique(np.append(self.outdated, placed))

    def on(self, fixed: FixedValues, rows: Integers) -> Shelf:
        """Return the shelf for a snapshot that differs in some rows, to be renewed: this one where nothing reads it."""
        found = self.copy(self.seats) if self.viewers else self
        found.fixed, found.outdated = fixed, np.append(found.outdated, rows)
        for of_rows in found.row_sums.values():
            for row in rows.tolist():
                of_rows.pop(row, None)
        return found

    def copy(self, seats: Seats) -> Shelf:
        """Return a shelf with the same columns, to be renewed from these seats."""
        derived = {key: (values.copy(), compute) for key, (values, compute) in self.derived.items()}
        recent = self.recent if seats is self.seats else self.recent.beside()
        sums = {key: of_rows.copy() for key, of_rows in self.row_sums.items()}
        return Shelf(seats, self.fixed, self.position, derived, row_sums=sums, recent=recent, outdated=self.outdated)


class _Fixed:
    """The fixed values of the last few snapshots. Two threads may fill those of two snapshots."""

    def __init__(self) -> None:
        self._latest: tuple[tuple[Snapshot, dict[Hashable, FixedValues]], ...] = ()

    def of(self, snapshot: Snapshot, key: Hashable) -> FixedValues:
        found = next((values for of, values in self._latest if of is snapshot), None)
        if found is None:
            found = {}
            self._latest = ((snapshot, found), *self._latest)[:SNAPSHOTS_MAX]
        return found.setdefault(key, FixedValues())


@dataclass
class _OneLedger:
    """What is kept of one ledger on one snapshot."""

    snapshot: Snapshot
    seats: Seats
    shelves: dict[LoadModelKey, Shelf] = field(default_factory=dict)
    mended: int = 0
    """How many snapshots were mended one after the other."""

    def on(self, snapshot: Snapshot, fixed: _Fixed) -> _OneLedger:
        """Return the same for a new snapshot: mended where few machines changed, else empty."""
        found = _OneLedger(snapshot, self.seats)
        rows = _few_changed(snapshot, self.snapshot) if self.mended < MENDED_MAX else None
        if rows is None:
            return found
        found.mended = self.mended + 1
        for recent in {id(shelf.recent): shelf.recent for shelf in self.shelves.values()}.values():
            recent.note(rows, len(snapshot))
        for key, shelf in self.shelves.items():
            found.shelves[key] = shelf.on(fixed.of(snapshot, (key.window_s, key.requests_alone)), rows)
        return found


def _few_changed(snapshot: Snapshot, before: Snapshot) -> Integers | None:
    """Return the rows that differ; None where more than a part of them do, or what is not by machine does."""
    rows = snapshot.changed_since(before) if _alike(snapshot, before) else None
    return None if rows is None or MENDED_PART * rows.size > len(snapshot) else rows


def _alike(snapshot: Snapshot, before: Snapshot) -> bool:
    """Return whether at most windows and cordons differ: what a rule of one machine may change for all is the same."""
    names = ("learned", "predicted")
    same_usages = snapshot.usages is before.usages or not (snapshot.usages or before.usages)
    same_rules = snapshot.rules.but_cordon == before.rules.but_cordon
    return same_usages and same_rules and all(getattr(snapshot, name) is getattr(before, name) for name in names)


class Kept:
    """What is kept between decisions, for one ledger at a time. Not thread-safe: give another thread `beside`."""

    def __init__(self) -> None:
        self._fixed = _Fixed()
        self._current: _OneLedger | None = None
        self._draft: _OneLedger | None = None
        """The same for the overlay of the last ranking."""

    def beside(self) -> Kept:
        """Return a `Kept` for another thread. Values that follow from a snapshot alone are shared, others are not."""
        kept = Kept()
        kept._fixed = self._fixed
        return kept

    def of_copy(self, ledger: LedgerView, copied: LedgerView) -> Kept:
        """Return a `Kept` for a copy of a ledger that was made just now; it begins with the columns of that ledger."""
        kept, current = self.beside(), self._current
        if current is not None and current.seats.ledger is ledger:
            seats = current.seats.over(copied)
            shelves = {key: shelf.copy(seats) for key, shelf in current.shelves.items()}
            kept._current = _OneLedger(current.snapshot, seats, shelves, current.mended)
        return kept

    def of_snapshot(self, snapshot: Snapshot, key: Key, compute: Callable[[], Any]) -> Any:
        """Return ``compute()``, made once for a snapshot."""
        values = self._fixed.of(snapshot, "snapshot").values
        if key not in values:
            values[key] = compute()
        return values[key]

    def follow(self, snapshot: Snapshot, load_model: LoadModelKey, machines: Rows, before: Snapshot) -> None:
        """Make the fixed values that were asked for on the snapshot before; ``machines``: all, under the load model."""
        key = load_model.window_s, load_model.requests_alone
        values, rows = self._fixed.of(before, key), _few_changed(snapshot, before)
        self._fixed.of(snapshot, key).follow(values, machines, rows)

    def shelf(self, snapshot: Snapshot, ledger: Readable, load_model: LoadModelKey) -> tuple[Shelf, Integers | None]:
        """Return the shelf of one load model, and the rows to `Shelf.renew` before it is read; None: it is current."""
        if isinstance(ledger, Overlay):
            current, under = self._on_overlay(snapshot, ledger)
        else:
            self._draft = None
            current, under = self._on_view(snapshot, ledger), None
        seats, shelf = current.seats, current.shelves.get(load_model)
        if shelf is None and under is not None and load_model in under.shelves:
            shelf = current.shelves[load_model] = under.shelves[load_model].copy(seats)
        if shelf is not None and shelf.position == seats.position and not shelf.outdated.size:
            return shelf, None
        rows = NO_ROWS if shelf is None else shelf.rows_to_renew()
        if shelf is None or 2 * len(rows) > len(snapshot):
            fixed = self._fixed.of(snapshot, (load_model.window_s, load_model.requests_alone))
            shelf = current.shelves[load_model] = Shelf(seats, fixed, seats.position)
            return shelf, None
        if shelf.viewers:
            shelf = current.shelves[load_model] = shelf.copy(seats)
        shelf.overall.clear()
        return shelf, rows

    def _on_view(self, snapshot: Snapshot, ledger: Readable) -> _OneLedger:
        current = self._current
        if current is None or current.seats.ledger is not ledger or current.seats.roster is not snapshot.roster:
            current = self._current = _OneLedger(snapshot, Seats(ledger, snapshot.roster))
        elif current.snapshot is not snapshot:
            current = self._current = current.on(snapshot, self._fixed)
        current.seats.catch_up()
        return current

    def _on_overlay(self, snapshot: Snapshot, overlay: Overlay) -> tuple[_OneLedger, _OneLedger]:
        under, draft = self._on_view(snapshot, overlay.base), self._draft
        if draft is None or draft.seats.ledger is not overlay or draft.snapshot is not snapshot:
            draft = self._draft = _OneLedger(snapshot, under.seats.over(overlay))
        draft.seats.catch_up()
        return draft, under
