"""The rows of all machines under one load model: what decisions read, brought up to date with snapshots and the ledger.

Two things change rows: a new snapshot, in the rows that it says have changed, and a transition of the ledger, in the
row of its machine. A row is always computed whole, from measurements, the machine's instances and its leavers
(``make_row`` in ``kernel/making.h``). Nothing is added to a row, so a row that followed a thousand changes is the row
that is made at a start. Where much changes (the machines, a rule of all, learned factors, usage by instance, a new
day), the table is made anew beside the one in use.

All threads but the one that follows only read. A what-if has rows of its own for the machines that it changes
(`scorer.ranking.machines.table`).

Measured with 40,000 instances on 5,000 machines: one row takes 12 us including Python's part, the whole table 14 ms.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S
from schemas.resources import MEMORY, PRIORITY_CLASSES, RESOURCES
from scorer.classes.class_usage import reported_usage
from scorer.classes.reclaimed import highest, predicted
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.residents import Residents
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.kernel.binding import add_up, make_rows, point
from scorer.ranking.kernel.layout import BY_CLASS, CREDITS, DAYS, LOAD, MAKING, MORE, PATCHES, ROW, STATISTICS
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.rules import Roster
from scorer.snapshot.snapshot import Snapshot

_R, _D, _S = len(RESOURCES), len(DAYS), len(STATISTICS)
PART = 1_000
"""Rows made in one step while the whole table is made: other threads get their turn between two steps."""
FEW_PART = 4
"""Rows are made one by one where at most one machine in so many has changed."""

Needs = frozenset[str]
"""Optional parts of a table, for the plugins that need them: ``statistics``, ``prod``, ``classes``."""


@dataclass(frozen=True)
class Model:
    """The settings that rows depend on: a load model, combined with the request's window and the fleet's state."""

    window_s: int
    credits: str
    debits: bool
    requests_alone: bool
    estimate: Estimate
    learned: bool
    key: tuple[object, ...]
    """Equal for equal models."""


class Basis(NamedTuple):
    """What all rows depend on beside model, snapshot and ledger."""

    estimate: Estimate
    """That of the model, with learned factors."""
    days: Floats
    """[D, 2] The start and the end of today and yesterday."""
    needs: Needs


class Table:
    """The rows of one `Model` for one ledger; `steps` computes them."""

    def __init__(self, model: Model, snapshot: Snapshot, residents: Residents, basis: Basis) -> None:
        self.model, self.snapshot, self.residents = model, snapshot, residents
        self.estimate, self.days, self.needs = basis
        self.position = residents.ledger.position
        """The ledger's position that the rows are made for."""
        machines, windows = len(snapshot), max(1, len(snapshot.windows_s))
        self.rows = np.zeros(machines, ROW)
        self.more = np.zeros(machines, MORE)
        self.by_class = np.zeros(machines, BY_CLASS) if "classes" in self.needs else None
        self.rows["number"] = np.arange(machines)
        self._measured: dict[str, NDArray[Any]] = {
            "mean": np.empty((machines, windows, _R)), "filled": np.empty((machines, windows, _R)),
            "end": np.empty(machines), "step": np.empty(machines), "at": np.empty(machines),
            "position": np.empty(machines, np.int64), "peak_at": np.empty((machines, _D, _R)),
        }  # fmt: skip
        if "statistics" in self.needs:
            self._measured["statistics"] = np.empty((machines, windows, _S, _R))
        if "prod" in self.needs:
            self._measured["prod"] = np.empty((machines, windows, _R))
        self.more["statistics"] = self.more["prod"] = np.nan
        self.load = np.zeros((), LOAD)
        """The sums of the rows' utilizations."""
        self.warming = 0
        """How many machines with data are warming."""
        self._make_struct()

    def _make_struct(self) -> None:
        """Write the inputs of the C functions into ``making``, and keep the arrays that it points to."""
        snapshot, model = self.snapshot, self.model
        making = np.zeros((), MAKING)
        making["estimate"] = self.estimate.struct
        making["windows"] = len(snapshot.windows_s)
        making["credits"], making["requests_alone"] = CREDITS[model.credits], model.requests_alone
        making["debits"] = model.debits and not model.requests_alone
        making["by_reports"] = self.estimate.by_reports
        making["day_start"], making["day_end"] = self.days.T
        kept: dict[str, NDArray[Any]] = {
            **self._measured,
            "windows_s": np.array(snapshot.windows_s or (0,), np.float64),
            "systems": snapshot.roster.systems,
        }
        if snapshot.usages:
            columns = snapshot.usages.columns
            making["pairs"], making["figures"] = columns.index.digests.size, columns.at.size
            kept |= {"digests": columns.index.digests, "places": columns.index.order, "used_at": columns.at,
                     "since": columns.since, "recent": columns.recent, "usual": columns.mean}  # fmt: skip
        self._kept = {name: np.ascontiguousarray(array) for name, array in kept.items()}
        point(making, **self._kept)
        self.making = making

    def steps(self) -> Iterator[None]:
        """Compute all rows, `PART` in each step."""
        self._fill(self.snapshot, slice(None))
        live, left, kept = self.residents.everywhere()
        for first in range(0, self.rows.size, PART):
            machines = np.arange(first, min(first + PART, self.rows.size))
            ends, gone = live[1][first:], left[1][first:]
            make_rows(self.making, machines, machines, ((live[0], ends), (left[0], gone)), (*self.records, None))
            yield
        del kept
        self._add_up()

    def _add_up(self) -> None:
        """Compute the sums over all rows again, because each change adds a rounding error."""
        add_up(self.rows, self.load)
        self.warming = int(np.count_nonzero(self.rows["warming"] & self.rows["has_data"]))

    @property
    def records(self) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void] | None]:
        """Rows, their optional parts, and the sums by class where these are needed."""
        return self.rows, self.more, self.by_class

    # ---- following

    def follow(self, snapshot: Snapshot, basis: Basis) -> bool:
        """Update the rows from a snapshot and the ledger; return False where the table must be computed anew."""
        before, ledger = self.snapshot, self.residents.ledger
        changed, changes = self.changed(snapshot, basis), ledger.changes_since(self.position)
        if changed is None or changes is None or FEW_PART * (changed.size + len(changes)) > self.rows.size + 256:
            return False
        index = self.residents.roster.index
        touched = {row for machine, _, _ in changes if (row := index.get(machine)) is not None}
        if snapshot is not before:
            if changed.size:
                self._fill(snapshot.of_rows(changed), changed)
                touched.update(changed.tolist())
            self.snapshot = snapshot
        self.position = ledger.position
        if touched:
            rows = list(touched)
            at = np.array(rows, np.int64)
            make_rows(self.making, at, at, self.residents.on(rows), (*self.records, self.load))
        if snapshot is not before:
            self._add_up()
        return True

    def changed(self, snapshot: Snapshot, basis: Basis) -> Integers | None:
        """Return the machines whose data changed; None where the table must be computed anew."""
        before = self.snapshot
        if not (
            basis.needs <= self.needs
            and (basis.estimate is self.estimate or basis.estimate.key == self.estimate.key)
            and (basis.days is self.days or (basis.days == self.days).all())
            and snapshot.shape == before.shape
            and (snapshot.usages is before.usages or not (snapshot.usages or before.usages))
            and (snapshot.predicted is before.predicted or "classes" not in self.needs)
        ):
            return None
        found = snapshot.changed_since(before)
        return None if found is None or FEW_PART * found.size > self.rows.size + 256 else found

    def _fill(self, part: Snapshot, at: slice | Integers) -> None:
        """Write a snapshot's figures into rows; ``part`` has these machines alone."""
        rows, more, rules, measured = self.rows, self.more, part.rules, self._measured
        windows, inverse = part.windows(self.model.window_s), part.inverse_allocatable
        std = np.zeros_like(windows.std) if self.model.requests_alone else windows.std
        known = np.isfinite(inverse) & np.isfinite(windows.mean)
        rows["allocatable"][at], rows["inverse"][at] = part.allocatable.T, inverse.T
        rows["deviation"][at] = (std * inverse).T
        rows["seen_at"][at], rows["interval_s"][at] = part.seen_at, part.column("interval_s")
        rows["coverage"][at], rows["warming"][at] = windows.coverage, windows.warming
        with np.errstate(divide="ignore", invalid="ignore"):
            rows["available"][at] = 1.0 - part.window("mean", 0)[MEMORY] / part.capacity[MEMORY]
        rows["has_data"][at], rows["cordon"][at] = part.has_data, rules.cordon
        rows["known"][at] = known.T
        rows["has_load"][at] = (np.isfinite(inverse) if self.model.requests_alone else known).any(axis=0)
        for own, name in (
            ("own_ratio", "ratio"), ("own_thresholds", "thresholds"), ("own_percentiles", "percentiles"),
            ("own_prod", "prod_thresholds"),
        ):  # fmt: skip
            column = getattr(rules, "percentile_thresholds" if name == "percentiles" else name)
            rows[own][at], more[name][at] = np.isfinite(column).any(axis=0), column.T
        more["capacity"][at], more["measured"][at], more["std"][at] = part.capacity.T, windows.mean.T, std.T
        more["power"][at], more["window_s"][at] = rules.power.T, windows.window_s
        measured["end"][at], measured["at"][at] = part.column("end"), part.column("at")
        measured["step"][at] = np.fmax(part.column("interval_s"), SLOT_S)
        measured["position"][at] = windows.position
        for place, day in enumerate(DAYS):
            more["measured_peak"][at, place] = part.column(f"peak_{day}").T
            measured["peak_at"][at, place] = (part.column("peak_day") + part.column(f"peak_{day}_s")).T
        for place in range(measured["mean"].shape[1]):
            measured["mean"][at, place] = part.window("mean", place).T
            measured["filled"][at, place] = part.window("filled", place).T
            if "statistics" in self.needs:
                measured["statistics"][at, place, : _S - 1] = part.window("percentile", place).transpose(2, 1, 0)
                measured["statistics"][at, place, _S - 1] = part.window("max", place).T
            if "prod" in self.needs:
                measured["prod"][at, place] = part.window(f"class_{PRIORITY_CLASSES[0]}", place).T
        if self.by_class is not None:
            self.by_class["usage_peak"][at] = highest(part).T
            if isinstance(at, slice):
                self.by_class["reported"] = reported_usage(part).T
                self.by_class["predicted"] = predicted(part).transpose(2, 0, 1)


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
            grown = tuple(None if one is None else np.zeros(size, one.dtype) for one in (rows, more, by))
            for new, one in zip(grown, (rows, more, by), strict=True):
                if new is not None:
                    _plain(new)[: self.count] = _plain(one)[: self.count]
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
