"""Usage by instance as the stream app wrote it: figures of one pair by name, and columns over all pairs by digest.

A digest is valid within one process: `pair_digest` of a machine and an instance's id, 64 bits. The ledger view keeps
the digest of each instance, so that 100,000 pairs are joined without comparing names.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.rpc.results import InstanceUsage
from schemas.tables.instance_table import COLUMNS, FIRST, SEPARATOR, pair_name
from schemas.tables.window_table import TableError, WindowTable, aligned
from scorer.snapshot.arrays import Floats, Integers

RECENT = 0.8
"""Part of the mean of the last half hour in `UsageColumns.mean`; the rest is the mean of a day."""
AGE_MAX_S = 600.0
"""A figure is current until its machine's newest sample is so much later."""


def pair_digest(machine: str, instance_id: str = "") -> int:
    """Return 64 bits that identify a pair in this process; without an id, the machine's system."""
    return hash(pair_name(machine, instance_id))


class UsageIndex:
    """The position of each pair among the joined rows of some tables; of two rows of one pair the newer one counts."""

    def __init__(self, tables: "Sequence[UsageTable]") -> None:
        self._tables = tables
        digests = np.concatenate([np.zeros(0, np.int64), *(table.digests for table in tables)])
        self.order: Integers = np.argsort(digests, kind="stable")
        self.digests: Integers = digests[self.order]
        self.unique = bool((self.digests[1:] != self.digests[:-1]).all())
        """Whether no pair is in two tables."""
        if not self.unique:
            at = _joined(tables, "at")[0]
            self.order = np.lexsort((at, digests))
            self.digests = digests[self.order]
            last = np.append(self.digests[1:] != self.digests[:-1], True)
            self.order, self.digests = self.order[last], self.digests[last]

    @cached_property
    def systems(self) -> Integers:
        """[K] The joined row of the system of each row's machine, -1 without one."""
        return self.rows(np.concatenate([np.zeros(0, np.int64), *(table.systems for table in self._tables)]))

    @cached_property
    def of_rows(self) -> Integers:
        """[K] The digest of each joined row; 0 for the older row of a pair that is in two tables."""
        found = np.zeros(sum(table.digests.size for table in self._tables), np.int64)
        found[self.order] = self.digests
        return found

    def rows(self, digests: Integers) -> Integers:
        """Return [K]: the joined row of each pair, -1 without one."""
        if not self.digests.size:
            return np.full(digests.size, -1, np.int64)
        place = np.minimum(np.searchsorted(self.digests, digests), self.digests.size - 1)
        return np.where(self.digests[place] == digests, self.order[place], -1)


class UsageColumns:
    """Figures of all pairs: [K] or [R, K], NaN where nothing was measured.

    Read-only; each is computed at the first access.
    """

    def __init__(self, tables: "Sequence[UsageTable]", index: UsageIndex) -> None:
        self._tables = tables
        self.index = index
        self.at: Floats = _joined(tables, "at")[0]
        """[K] End of the last report."""

    def prepare(self) -> None:
        """Make what decisions ask for."""
        _ = self.since, self.mean, self.recent_of_system

    @cached_property
    def since(self) -> Floats:
        """[K] End of the first report."""
        found: Floats = _joined(self._tables, "since")[0]
        return found

    @cached_property
    def count(self) -> Floats:
        """[K] How many reports."""
        found: Floats = _joined(self._tables, "count")[0]
        return found

    @cached_property
    def recent(self) -> Floats:
        """[R, K] Mean of about the last 30 minutes."""
        return _joined(self._tables, "recent")

    @cached_property
    def daily(self) -> Floats:
        """[R, K] Mean of about the last 24 hours."""
        return _joined(self._tables, "daily")

    @cached_property
    def variance(self) -> Floats:
        """[F, K] Variance of the reports' means around `daily`, of the first F resources."""
        return _joined(self._tables, "variance")

    @cached_property
    def mean(self) -> Floats:
        """[R, K] ``0.8 recent + 0.2 daily``, or the one of both that is known."""
        both = RECENT * self.recent + (1 - RECENT) * self.daily
        return np.where(np.isfinite(both), both, np.where(np.isfinite(self.recent), self.recent, self.daily))

    @cached_property
    def recent_of_system(self) -> Floats:
        """[R, K] In the row of a machine's system: the sum of `recent` over the pairs in the machine's last report."""
        systems = self.index.systems
        listed = np.flatnonzero((systems >= 0) & (systems != np.arange(systems.size)))
        listed = listed[self.at[listed] == self.at[systems[listed]]]
        values = np.nan_to_num(self.recent[:, listed])
        sums = [np.bincount(systems[listed], part, minlength=systems.size) for part in values]
        return np.array(sums, np.float64)

    def running_before(self, at_s: float, now_s: float) -> int:
        """Return how many instances were first reported before ``at_s`` and are current at ``now_s``."""
        is_instance = (self.index.systems != np.arange(self.at.size)) & (self.index.of_rows != 0)
        return int(np.count_nonzero(is_instance & (self.since < at_s) & (self.at >= now_s - AGE_MAX_S)))

    def rows(self, digests: Integers, now_s: Floats) -> Integers:
        """Return [K]: the row of each pair with a report that is current at ``now_s`` [K], else -1."""
        rows = self.index.rows(digests)
        if not self.at.size:
            return rows
        current = (rows >= 0) & (self.at[rows] >= now_s - AGE_MAX_S)
        return np.where(current, rows, -1)

    @staticmethod
    def take(values: Floats, rows: Integers) -> Floats:
        """Return the values [..., K] of these rows; NaN for a row of -1."""
        if not values.shape[-1]:
            return np.full((*values.shape[:-1], rows.size), np.nan)
        return np.where(rows >= 0, values[..., rows], np.nan)


def _joined(tables: "Sequence[UsageTable]", name: str) -> Floats:
    """Return a column over the pairs of all tables as float64, [axes, K]; at least one axis is before the pairs'."""
    axes = int(np.prod(COLUMNS[name][1], dtype=int))
    parts: list[Floats] = [np.zeros((axes, 0))]
    for table in tables:
        column, pairs = table.column(name), table.digests.size
        parts.append(
            np.full((axes, pairs), np.nan) if column is None else column.astype(np.float64).reshape(axes, pairs)
        )
    return np.concatenate(parts, axis=1)


class UsageTable:
    """One partition's table. Its indexes, by name and by digest, are made at the first look-up."""

    def __init__(self, table: WindowTable, previous: "UsageTable | None" = None) -> None:
        """``previous``: its indexes are reused while the pairs are the same."""
        if wrong := _wrong(table):
            raise TableError(f"usage by instance is damaged: {wrong}")
        self.table = table
        same = previous is not None and previous.table.names == table.names
        self._rows: dict[str, int] | None = previous._rows if same and previous is not None else None
        self._digests: Integers | None = previous._digests if same and previous is not None else None
        self._systems: Integers | None = previous._systems if same and previous is not None else None
        self._columns: dict[str, NDArray[Any] | None] = {}

    def row(self, name: str) -> int | None:
        """Return the row of a pair; None without one."""
        if self._rows is None:
            self._rows = {pair: row for row, pair in enumerate(self.table.machines)}
        return self._rows.get(name)

    @property
    def digests(self) -> Integers:
        """[K] `pair_digest` of each row."""
        if self._digests is None:
            names = self.table.machines
            self._digests = np.fromiter(map(hash, names), np.int64, len(names))
        return self._digests

    @property
    def systems(self) -> Integers:
        """[K] The digest of the system of each row's machine."""
        if self._systems is None:
            names = (name.partition(SEPARATOR)[0] + SEPARATOR for name in self.table.machines)
            self._systems = np.fromiter(map(hash, names), np.int64, len(self.digests))
        return self._systems

    def column(self, name: str) -> NDArray[Any] | None:
        """Return a column, its resources aligned by name; None for one that the table lacks."""
        if name not in self._columns:
            self._columns[name] = aligned(self.table, name)
        return self._columns[name]


class Usages:
    """The usage by instance of all partitions at one moment. Read-only."""

    def __init__(self, tables: Sequence[UsageTable] = (), previous: "Usages | None" = None) -> None:
        """``previous``: its index of the pairs is reused while the pairs are the same."""
        self.tables = tables
        names = [table.table.names for table in tables]
        same = previous is not None and [table.table.names for table in previous.tables] == names
        self._index: UsageIndex | None = previous._index if same and previous is not None else None

    def __bool__(self) -> bool:
        return bool(self.tables)

    @cached_property
    def columns(self) -> UsageColumns:
        """The figures of all pairs as columns, computed at the first access."""
        if self._index is None or not self._index.unique:
            self._index = UsageIndex(self.tables)
        return UsageColumns(self.tables, self._index)

    def find(self, machine: str, instance_id: str) -> InstanceUsage | None:
        """Return the usage of an instance on a machine, the newest of all partitions; None when there is none.

        Callers pass only instances that the ledger has on that machine, since an agent may report any id.
        """
        name = pair_name(machine, instance_id)
        found = [_usage(table, row) for table in self.tables if (row := table.row(name)) is not None]
        return max(found, key=lambda usage: usage.at, default=None)


def _wrong(table: WindowTable) -> str:
    """Return why a column cannot be used: it has no numbers, or other axes than in `COLUMNS`; "" without a fault."""
    for name in COLUMNS.keys() & table.columns.keys():
        axes, column = COLUMNS[name][1], table.columns[name]
        if column.ndim != len(axes) + 1 or column.dtype.kind not in "fiu":
            return f"{name} is {column.dtype} with axes {list(column.shape)}"
    return ""


def _usage(table: UsageTable, row: int) -> InstanceUsage:
    def one(name: str) -> float:
        column = table.column(name)
        return float(COLUMNS[name][2] if column is None else column[row])

    def by_resource(name: str, names: Sequence[str] = RESOURCES) -> dict[str, float]:
        column = table.column(name)
        values = [] if column is None else np.asarray(column[: len(names), row], np.float64).tolist()
        return {resource: value for resource, value in zip(names, values, strict=False) if math.isfinite(value)}

    return InstanceUsage(
        at=one("at"),
        since=one("since"),
        count=int(one("count")),
        partial=bool(one("partial")),
        recent=by_resource("recent"),
        daily=by_resource("daily"),
        variance=by_resource("variance", RESOURCES[:FIRST]),
        day_peak=by_resource("day_peak", RESOURCES[:FIRST]),
    )
