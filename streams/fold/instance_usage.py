"""Usage by instance: applies reports to a few figures of each (machine, instance). Pure.

- A report is applied once, by its time: an entry that is not after the pair's last report changes nothing, and a report
before its machine's last is late. Reading the log again gives the same figures.
- Times are the reports' and not a clock's, so reading the log hours later gives the same figures.
- At most ``pairs_max`` pairs are held, and `MACHINE_PAIRS_MAX` of one machine: the longest silent are dropped first,
and counted. A machine that invents ids loses its own pairs before those of others.

`schemas.tables.instance_table` defines the figures. A report costs 3 µs an instance in batches of four machines:
100,000 instances a minute take half a percent of a core. To write them all takes 11 ms.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import InstanceReport, means
from schemas.resources import RESOURCES
from schemas.tables.instance_table import COLUMNS, DAILY_S, FIRST, RECENT_S, SEPARATOR, pair_name
from streams.fold.admission import INSTANCES_MAX

MACHINE_PAIRS_MAX = 2_000
COUNT_MAX = 65_535
_UNKNOWN = (np.nan,) * len(RESOURCES)

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass
class Applied:
    """The result of applying some reports, in entries."""

    applied: int = 0
    late: int = 0
    """Entries that are not after the last report of their pair or machine: repeated, or overtaken."""
    excess: int = 0
    """Entries with more than their machine has: that number counts as not measured."""
    evicted: int = 0
    """Pairs that were dropped for others."""
    fresh: bool = False
    """Whether there are new pairs."""


@dataclass(frozen=True)
class _Entries:
    """The entries of reports as columns, in the order of arrival."""

    rows: Rows
    at: Floats
    values: Floats
    """[K, R]"""


class InstanceUsage:
    """The figures of one partition's pairs. ``changed``: they differ from the last written ones."""

    at: NDArray[np.float64]
    since: NDArray[np.uint32]
    count: NDArray[np.uint16]
    partial: NDArray[np.uint8]
    recent: NDArray[np.float32]
    daily: NDArray[np.float32]
    variance: NDArray[np.float32]
    day_peak: NDArray[np.float32]
    _machine: Rows

    def __init__(self, pairs_max: int = INSTANCES_MAX) -> None:
        self.pairs_max = pairs_max
        self.changed = False
        self.restore((), {})

    def __len__(self) -> int:
        return len(self.names)

    @property
    def instances(self) -> int:
        return len(self.names) - self._systems

    # ---- applying

    def apply(
        self, reports: Sequence[tuple[str, InstanceReport]], day_of: Callable[[Floats], Floats],
        most: Floats | float = np.inf,
    ) -> Applied:  # fmt: skip
        """Apply reports, each with its machine, in the order of arrival.

        ``most`` [reports, R]: the largest possible usage of an instance in each; NaN: unknown. ``day_of`` returns the
        number of the local day that holds the moment before each of these times, epoch s.
        """
        result = Applied()
        entries = self._entries(reports, result, np.broadcast_to(most, (len(reports), len(_UNKNOWN))))
        if not len(entries.rows):
            return result
        order = np.argsort(entries.rows, kind="stable")
        rows = entries.rows[order]
        first = np.r_[True, rows[1:] != rows[:-1]]
        turn = np.arange(len(rows)) - np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
        for number in range(int(turn.max()) + 1):  # the entries of a pair one after another; usually there is one
            chosen = order[turn == number]
            applied = self._apply(entries.rows[chosen], entries.at[chosen], entries.values[chosen], day_of)
            result.applied += applied
            result.late += len(chosen) - applied
        self.changed = self.changed or result.applied > 0
        result.evicted += self._make_room() if result.fresh else 0
        return result

    def _entries(self, reports: Sequence[tuple[str, InstanceReport]], result: Applied, most: Floats) -> _Entries:
        """Return the entries of reports that are not late; adds a row for each new pair."""
        numbers: list[int] = []
        names: list[str] = []
        ends: list[float] = []
        values: list[tuple[float | None, ...]] = []
        newest: dict[str, float] = {}
        fresh: dict[str, tuple[float, bool]] = {}
        for number, (machine, report) in enumerate(reports):
            system = pair_name(machine, "")
            row = self.row.get(system)
            known = newest.get(machine, self.at[row] if row is not None else -np.inf)
            if report.at < known:
                result.late += len(report.entries)
                continue
            newest[machine] = report.at
            began = fresh[system][0] if system in fresh else report.at if row is None else float(self.since[row])
            found = {system: report.system} | {pair_name(machine, name): one for name, one in report.entries.items()}
            if report.system is None and report.part > 1:
                del found[system]
            for name, one in found.items():
                if name not in self.row and name not in fresh:
                    fresh[name] = (report.at, int(report.at) == int(began))
                names.append(name)
                numbers.append(number)
                ends.append(report.at)
                values.append(_UNKNOWN if one is None else means(one))
        self._add(fresh)
        result.fresh = bool(fresh)
        rows = np.fromiter(map(self.row.__getitem__, names), np.intp, len(names))
        used = np.array(values, np.float64).reshape(len(names), len(_UNKNOWN))
        over = used > most[numbers]
        result.excess = int(over.any(axis=1).sum())
        used[over] = np.nan
        return _Entries(rows, np.array(ends, np.float64), used)

    def _add(self, fresh: Mapping[str, tuple[float, bool]]) -> None:
        used, needed = len(self.names), len(self.names) + len(fresh)
        if needed > len(self.at):
            size = max(needed, len(self.at) * 9 // 8 + 16)
            for name in COLUMNS:
                grown = blank(name, size)
                grown[..., :used] = getattr(self, name)[..., :used]
                setattr(self, name, grown)
            self._machine = np.resize(self._machine, size)
        for name, (since, partial) in fresh.items():
            row = len(self.names)
            self._name(row, name)
            self.names.append(name)
            self.since[row], self.partial[row] = int(since), partial

    def _name(self, row: int, name: str) -> None:
        machine, _, instance_id = name.partition(SEPARATOR)
        self.row[name] = row
        self._machine[row] = self._numbers.setdefault(machine, len(self._numbers))
        self._systems += not instance_id

    def _apply(self, rows: Rows, at: Floats, values: Floats, day_of: Callable[[Floats], Floats]) -> int:
        """Apply at most one entry of each row; return how many were after the row's last report."""
        new = at > self.at[rows]
        rows, at, values = rows[new], at[new], values[new].T
        if not len(rows):
            return 0
        before, count = self.at[rows], self.count[rows].astype(np.float64)
        share = 1.0 / (count + 1)
        for name, tau in (("recent", RECENT_S), ("daily", DAILY_S)):
            weight = np.maximum(share, -np.expm1((before - at) / tau))
            mean = getattr(self, name)[:, rows].astype(np.float64)
            known = ~np.isnan(mean)
            distance = values - np.where(known, mean, values)
            moved = np.where(known, mean, values) + weight * distance
            if name == "daily":
                self._spread(rows, distance[:FIRST], weight)
            getattr(self, name)[:, rows] = np.where(np.isnan(values), mean, moved)
        same_day = (count > 0) & (day_of(before) == day_of(at))
        peak = np.where(same_day, self.day_peak[:, rows], np.nan)
        self.day_peak[:, rows] = np.fmax(peak, values[:FIRST])
        self.at[rows] = at
        self.count[rows] = np.minimum(count + 1, COUNT_MAX)
        return len(rows)

    def _spread(self, rows: Rows, distance: Floats, weight: Floats) -> None:
        """Update the variance by new values at ``distance`` from the mean before them; NaN: not measured."""
        before = np.nan_to_num(self.variance[:, rows].astype(np.float64))
        moved = (1 - weight) * (before + weight * distance**2)
        self.variance[:, rows] = np.where(np.isnan(distance), self.variance[:, rows], moved)

    # ---- dropping

    def _make_room(self) -> int:
        """Drop pairs beyond the bounds, the longest silent first; return how many."""
        used = len(self.names)
        kept = within_bounds(self._machine[:used], self.at[:used], self.pairs_max, MACHINE_PAIRS_MAX)
        self.keep(kept)
        return used - len(kept)

    def drop_silent(self, before_s: float) -> int:
        """Drop pairs whose last report ended before a moment; return how many."""
        used = len(self.names)
        kept = np.flatnonzero(self.at[:used] >= before_s)
        self.keep(kept)
        return used - len(kept)

    def forget(self, forgotten: Mapping[str, float]) -> int:
        """Drop pairs of forgotten machines whose last report is not after that time; return how many."""
        until = np.full(len(self._numbers) + 1, -np.inf)
        for machine, moment in forgotten.items():
            until[self._numbers.get(machine, -1)] = moment
        used = len(self.names)
        kept = np.flatnonzero(self.at[:used] > until[self._machine[:used]])
        self.keep(kept)
        return used - len(kept)

    def keep(self, rows: Rows) -> None:
        """Drop all pairs except those in these rows, which keep their order."""
        if len(rows) == len(self.names):
            return
        columns = {name: getattr(self, name)[..., rows] for name in COLUMNS}
        self.restore([self.names[row] for row in rows], columns)
        self.changed = True

    def restore(self, names: Iterable[str], columns: Mapping[str, NDArray[Any]]) -> None:
        """Replace all pairs by these; a column that is not given is empty. Raises ValueError for a wrong shape."""
        self.names: list[str] = list(names)
        self.row: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._machine = np.zeros(len(self.names), np.intp)
        self._systems = 0
        for row, name in enumerate(self.names):
            self._name(row, name)
        for name in COLUMNS:
            column = blank(name, len(self.names))
            if name in columns:
                column[...] = columns[name]
            setattr(self, name, column)


def blank(name: str, pairs: int) -> NDArray[Any]:
    kind, axes, value = COLUMNS[name]
    return np.full((*axes, pairs), value, kind)


def within_bounds(machines: Rows, at: NDArray[np.floating[Any]], pairs_max: int, machine_pairs_max: int) -> Rows:
    """Return the rows to keep, ascending; all of them while no bound is exceeded.

    ``machines`` [K]: the number of each row's machine; ``at`` [K]: end of its last report. First a machine's own pairs
    are reduced to nine tenths of ``machine_pairs_max``, then all pairs to nine tenths of ``pairs_max``.

    >>> within_bounds(np.array([0, 1, 1, 1]), np.array([9.0, 5.0, 7.0, 6.0]), 10, 2).tolist()
    [0, 2]
    """
    rows = np.arange(len(machines))
    counts = np.bincount(machines, minlength=1)
    if len(rows) <= pairs_max and counts.max() <= machine_pairs_max:
        return rows
    kept = np.ones(len(rows), np.bool_)
    for machine in np.flatnonzero(counts > machine_pairs_max):
        own = np.flatnonzero(machines == machine)
        kept[_oldest(own, at, len(own) - machine_pairs_max * 9 // 10)] = False
    if kept.sum() > pairs_max:
        left = np.flatnonzero(kept)
        kept[_oldest(left, at, len(left) - pairs_max * 9 // 10)] = False
    return np.flatnonzero(kept)


def _oldest(rows: Rows, at: NDArray[np.floating[Any]], number: int) -> Rows:
    return rows[np.argsort(at[rows], kind="stable")][:number]
