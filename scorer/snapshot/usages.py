"""Usage by instance as the stream app wrote it: figures by machine and instance, looked up by name."""

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
from scorer.snapshot.arrays import Integers
from scorer.snapshot.usage_columns import UsageColumns, UsageIndex


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
        """[K] `scorer.snapshot.usage_columns.pair_digest` of each row."""
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
