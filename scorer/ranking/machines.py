"""`Machines`: all machines as one decision sees them under one load model, as columns with names.

A column is a view of the rows that the decision reads (`Table`), the machine last. Filters and scores of other
packages, explanations, plans and listings read them; the built-in filters and scores read the rows.

Every usage figure includes the credits and, where the profile says so, the debits, so no plugin can forget them. A
figure without them is named so (``measured_mean``). R resources in the order of `schemas.resources`, n machines.

Two things change rows: a new snapshot, in the rows that it says have changed, and a transition of the ledger, in the
row of its machine. A row is always computed whole, from measurements, the machine's instances and its leavers
(``make_row`` in ``kernel/making.h``). Nothing is added to a row, so a row that followed a thousand changes is the row
that is made at a start. Where much changes (the machines, a rule of all, learned factors, usage by instance, a new
day), the table is made anew beside the one in use.

All threads but the one that follows only read. A what-if has rows of its own for the machines that it changes.

Measured with 40,000 instances on 5,000 machines: one row takes 12 us including Python's part, the whole table 14 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S
from schemas.resources import MEMORY, PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import Request
from scorer.classes.class_usage import reported_usage
from scorer.classes.reclaimed import highest, predicted
from scorer.ledger.record.facets import Facet, facets_of
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.slots import request_record
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.kernel.binding import Records, add_up, ask, fleet_means, make_rows, point
from scorer.ranking.kernel.layout import BY_CLASS, CREDITS, DAYS, LOAD, MAKING, MORE, PATCHES, QUERY, ROW, STATISTICS
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.rules import LabelColumn, MachineRules, Roster
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

    def copy(self) -> WhatIf:
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


_ROW, _MORE, _BY_CLASS = range(3)
FEW = 16
"""So few machines are taken with all their fields at once: 1 us, where each field alone takes 6."""

_OF_ROWS: Mapping[str, tuple[int, str]] = {
    # ---- what the machine has, [R, n]
    "capacity": (_MORE, "capacity"),  # NaN where unknown
    "allocatable": (_ROW, "allocatable"),  # what may be used: the one basis; NaN where unknown
    "inverse_allocatable": (_ROW, "inverse"),  # NaN where unknown or 0
    # ---- allocated, [R, n] or [n]
    "allocated": (_ROW, "allocated"),  # sum of the amounts
    "limited": (_MORE, "limited"),  # sum of the limits, each at least its request
    "estimated": (_MORE, "estimated"),  # sum of what the instances are expected to use
    "without_amount": (_MORE, "missing"),  # instances that give no amount
    "maxmemory": (_ROW, "maxmemory"),
    "count": (_ROW, "count"),  # instances placed
    # ---- load with credits, [R, n]; NaN without data
    "mean": (_ROW, "mean"),
    "utilization": (_ROW, "utilization"),  # mean / allocatable
    "credit": (_MORE, "credit"),  # what is expected of placed instances and not in the mean yet
    "remaining_mean": (_MORE, "remaining"),  # with debits, without credits
    # ---- load as measured, [R, n]
    "measured_mean": (_MORE, "measured"),
    "std": (_MORE, "std"),  # population standard deviation
    "deviation": (_ROW, "deviation"),  # std / allocatable
    "system_usage": (_MORE, "system"),  # beside all instances; NaN where it is not measured
    # ---- data and facts, [n]
    "has_data": (_ROW, "has_data"),  # any sample was ever seen
    "has_load": (_ROW, "has_load"),  # utilization of any resource is known
    "seen_at": (_ROW, "seen_at"),  # event time of the newest sample; -inf without data
    "interval_s": (_ROW, "interval_s"),  # how often it publishes
    "window_s": (_MORE, "window_s"),  # length of the window used
    "coverage": (_ROW, "coverage"),  # filled share of that window
    "warming": (_ROW, "warming"),  # it is less than half covered
    "cordon": (_ROW, "cordon"),  # taken out by an operator
    # ---- over-commit by class (`scorer.classes.reclaimed`)
    "of_classes": (_BY_CLASS, "sums"),  # [5, C, R, n] what instances of each class ask for and use
    "ended_lower": (_BY_CLASS, "ended_lower"),  # [R, n] what the last report still has of batch and free that ended
    "usage_reported": (_BY_CLASS, "reported"),  # [R, n] of system and instances, as its last report has it
    "usage_peak": (_BY_CLASS, "usage_peak"),  # [R, n] the usage that is rarely exceeded
    "predicted": (_BY_CLASS, "predicted"),  # [2, R, n] peaks of prod and of the system; NaN where there are none
}
_MADE: Mapping[str, Callable[[Any], Any]] = {
    "debit": lambda m: np.maximum(m.measured_mean + m.credit - m.mean, 0.0) * m.debits,  # what debits take off the mean
    "taken": lambda m: np.maximum(m.allocated, m.mean),  # the larger of allocated and used
    "max": lambda m: m.statistic("max"),  # largest reading
    "age_s": lambda m: m.now_s - m.seen_at,  # +inf without data
    "has_report": lambda m: m.field(_MORE, "has_report") != 0,  # whether a report of its instances is current
    "shortest_mean": lambda m: m.pick(m.snapshot.window("mean", 0)),  # over the shortest window there is
}
COLUMNS = frozenset([*_OF_ROWS, *_MADE])
"""The columns that are read by name."""

_GONE = {
    "derived": "compute the column at each call", "constant": "compute the column at each call",
    "recent": "compute the column at each call", "of_snapshot": "compute the value at each call",
    "of_fleet": "compute the value at each call", "once": "compute the value at each call",
    "plain": "read the column: machines.mean[:, position]",
}  # fmt: skip
"""What kept values between decisions, and what to write instead."""


class Machines:
    """All machines, or some rows of them, as one decision sees them. Read-only.

    Columns by name: ``allocatable``, ``capacity``, ``allocated``, ``mean``, ``std``, ``max``, ``utilization``,
    ``deviation``, ``credit``, ``measured_mean`` (all [R, n]); ``maxmemory``, ``count``, ``age_s``, ``coverage``,
    ``warming``, ``window_s``, ``has_data``, ``cordon`` ([n]); ``expected`` and ``amounts`` of the requested instance
    ([R]); the whole list is in this module. Besides them ``percentile(95)``, ``class_mean("prod")``, ``peak("today")``
    ([R, n]), ``feasible`` ([n]), ``label(key)``, ``tally(facets)``, ``rule(name)``.
    """

    def __init__(
        self,
        table: Table,
        what_if: WhatIf,
        snapshot: Snapshot,
        request: Request,
        now_s: float,
        rows: Integers | None = None,
        *,
        last_known: bool = False,
    ) -> None:
        self.table, self.what_if, self.snapshot = table, what_if, snapshot
        self.request = request
        self.now_s = now_s
        self.rows = rows
        self.last_known = last_known
        """Whether the pipeline is silent and the ranking is by each machine's last known load, however old."""
        self._feasible: Bools | None = None
        self._taken: dict[int, NDArray[np.void]] = {}

    # ---- the requested instance

    @cached_property
    def query(self) -> NDArray[np.void]:
        """The request under this load model, in the form of the C functions."""
        return self.queries([self.request]).reshape(())

    def queries(self, requests: Sequence[Request]) -> NDArray[np.void]:
        """Return [K]: the same of K requests, which name no other machine than the request."""
        found = np.zeros(len(requests), QUERY)
        ask(self.table.making, request_record(*requests), found)
        for place, one in enumerate(requests):
            if (learned := self.estimate.deviation_of_request(one)) is not None:
                found["deviation"][place] = learned
        found["now"], found["last_known"] = self.now_s, self.last_known
        found["machine"] = self.roster.index.get(self.request.machine, -1) if self.request.machine else -1
        return found

    def find_means(self, refused: NDArray[np.int32] | None = None) -> None:
        """Write the fleet's mean utilizations into the query; with ``refused`` those of the feasible machines."""
        fleet_means(self.inputs, self.what_if.struct, self.table.load, refused)

    @cached_property
    def inputs(self) -> Records:
        """The inputs of the C functions of filters and scores."""
        return Records(self.table.rows, self.table.more, *self.what_if.rows(self.table)[:2], self.query)

    @cached_property
    def amounts(self) -> Floats:
        """[R] The requested amounts; 0 where none is given."""
        return self.query["amounts"]

    @property
    def expected(self) -> Floats:
        """[R] The expected use of the requested instance."""
        return self.query["expected"]

    @property
    def limits(self) -> Floats:
        """[R] The limits of the requested instance, at least its request."""
        return self.query["limits"]

    @cached_property
    def facets(self) -> frozenset[Facet]:
        return facets_of(self.request)

    def amounts_or(self, cpu: float, memory: float) -> Floats:
        """Return [R]: the requested amounts, with these defaults: ``cpu`` cores, ``memory`` bytes."""
        return np.where(self.query["missing"], np.array([cpu, memory, *[0.0] * (_R - 2)]), self.amounts)

    # ---- facts

    def __len__(self) -> int:
        return self.table.rows.size if self.rows is None else self.rows.size

    @property
    def estimate(self) -> Estimate:
        """The estimate of the use of instances, including learned factors."""
        return self.table.estimate

    @property
    def roster(self) -> Roster:
        """Names and rows of the whole fleet."""
        return self.snapshot.roster

    def row_of(self, position: int) -> int:
        """Return the row in the fleet of the machine at a position of these."""
        return position if self.rows is None else int(self.rows[position])

    def name(self, position: int) -> str:
        return self.roster.names[self.row_of(position)]

    @property
    def requests_alone(self) -> bool:
        """Whether the ranking is by requests alone, since no data is fresh."""
        return self.table.model.requests_alone

    @property
    def debits(self) -> bool:
        """Whether debits are subtracted from the windows."""
        return bool(self.table.making["debits"])

    @property
    def rules(self) -> MachineRules:
        """The rules of all machines of the fleet, not only of these."""
        return self.snapshot.rules

    def label(self, key: str) -> LabelColumn:
        """Return the values of a label on these machines; the key ``machine`` is the machine's name."""
        if key == "machine":
            rows = np.arange(self.table.rows.size) if self.rows is None else self.rows
            return LabelColumn(self.roster.names, rows)
        column = self.rules.label(key)
        return column if self.rows is None else LabelColumn(column.values, column.codes[self.rows])

    def rule(self, name: str) -> NDArray[Any]:
        """Return an operator's column: ``thresholds``, ``prod_thresholds``, ``percentile_thresholds``, ``power``."""
        column: NDArray[Any] = getattr(self.rules, name)
        return self.pick(column)

    def pick(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the part of a column [..., M] for these machines."""
        return column if self.rows is None else column[..., self.rows]

    # ---- columns

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ROWS:
            found = self.field(*_OF_ROWS[name])
        elif name in _MADE:
            found = _MADE[name](self)
        elif name in _GONE:
            raise AttributeError(f"machines keep nothing between decisions: in place of `{name}` {_GONE[name]}")
        else:
            raise AttributeError(f"machines have no column {name!r}")
        self.__dict__[name] = found
        return found

    def field(self, place: int, name: str) -> NDArray[Any]:
        """Return a field of the rows as a column [..., n], changes of a what-if included."""
        of = self.table.records[place]
        assert of is not None, f"{name}: no filter of the profile counts by class"
        if self.rows is not None and self.rows.size <= FEW:
            values = self.records(place)[name]
        else:
            values = self.what_if.column(self.table, name, place, of[name])
            values = values if self.rows is None else values[self.rows]
        values = values.transpose(*range(1, values.ndim), 0)
        values.flags.writeable = False
        return values

    def records(self, place: int) -> NDArray[np.void]:
        """Return [n] rows (0), or their optional parts (1), of some machines; changes of a what-if included."""
        if place not in self._taken:
            assert self.rows is not None, "of all machines, read a column"
            self._taken[place] = self.what_if.records(self.table, place, self.rows)
        return self._taken[place]

    def column(self, name: str, *args: Any) -> Any:
        """Return a column by name; ``args`` are its arguments."""
        return getattr(self, name)(*args) if args else getattr(self, name)

    def statistic(self, name: str) -> Floats:
        """Return [R, n]: ``p50``, ``p90``, ``p95``, ``p99`` or ``max`` of the usage, with credits."""
        found: Floats = self.field(_MORE, "statistics")[STATISTICS.index(name)]
        return found

    def percentile(self, percent: int) -> Floats:
        """Return [R, n]: the percentile 50, 90, 95 or 99 of the usage, with credits."""
        return self.statistic(f"p{percent}")

    def class_mean(self, priority_class: str) -> Floats:
        """Return [R, n]: mean usage by the instances of class prod, with credits; NaN where not measured."""
        if priority_class != PRIORITY_CLASSES[0]:
            raise ValueError(f"class_mean: the usage by class prod is known, not that by {priority_class!r}")
        return self.field(_MORE, "prod")

    def peak(self, day: str) -> Floats:
        """Return [R, n]: the highest one-minute mean of ``today`` or ``yesterday``, with credits."""
        found: Floats = self.field(_MORE, "peak_sum")[DAYS.index(day)]
        return found

    def allocated_of(self, *classes: str) -> Floats:
        """Return [R, n]: sum of the amounts of the instances of some priority classes."""
        found = np.zeros((_R, self.table.rows.size))
        codes = [PRIORITY_CLASSES.index(one) for one in classes]
        placed = self.table.residents.placed()
        chosen = np.isin(placed.classes, codes)
        np.add.at(found.T, placed.rows[chosen], placed.records["amounts"][chosen])
        for row, sign, instance in self.what_if.proposed(self.roster):
            if instance.priority_class in classes:
                found[:, row] += sign * np.array([amount or 0.0 for amount in instance.amounts])
        return self.pick(found)

    def tally(self, facets: frozenset[Facet]) -> Floats:
        """Return [n]: instances with all these facets on each machine."""
        return self.pick(self.table.residents.tally(facets, self.what_if.overlay))

    # ---- which machines

    @property
    def whole(self) -> Machines:
        """All machines of the fleet, not only these."""
        return self if self.rows is None else self._with(None)

    def take(self, rows: Integers) -> Machines:
        return self._with(rows)

    def of(self, request: Request) -> Machines:
        return self if request is self.request else self._with(self.rows, request)

    def _with(self, rows: Integers | None, request: Request | None = None) -> Machines:
        machines = Machines(
            self.table, self.what_if, self.snapshot, request or self.request, self.now_s, rows,
            last_known=self.last_known,
        )  # fmt: skip
        machines._feasible = self._feasible
        if "query" in self.__dict__ and request is None:
            machines.__dict__["query"] = self.query
        return machines

    @property
    def feasible(self) -> Bools:
        """[n] Whether no filter has refused a machine; for a score these are the verdicts of all filters."""
        if self._feasible is None:
            return np.ones(len(self), np.bool_)
        return self.pick(self._feasible)

    @feasible.setter
    def feasible(self, feasible: Bools) -> None:
        self._feasible = feasible
