"""The windows of one partition: two values in Redis, a base and the changes since it, written in one transaction.

The base is a window table of all machines, rewritten every few seconds. The changes are a window table of the machines
whose row changed since that base. They are all of them each time, so that nothing has to be read in order or trimmed.
They have the base's columns and one more:

| column | dtype, shape | meaning                                                                                  |
|--------|--------------|------------------------------------------------------------------------------------------|
| row    | u4 [M]       | the row in the base, ascending; from the number of its machines on: a machine after them  |

Both headers have the number of the base, ``base``. Changes of another base are ignored. So a base without changes, or
changes without their base, is a loss: a reader keeps its last data, and the writer writes both again.
"""

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.tables.window_table import Header, TableError, WindowTable

ROW, VERSION = "row", "version"


class PartitionWindows:
    """A base with its changes; a table from elsewhere, such as a file, has no changes. Read-only."""

    def __init__(
        self, base: WindowTable, changes: WindowTable | None = None, previous: "PartitionWindows | None" = None
    ) -> None:
        """``previous``: its names are reused while they are equal. Raises TableError for changes that do not fit."""
        self.base = base
        self.changes = changes
        self.header: Header = (changes or base).header
        """The header that was written last; its ``machines`` are the rows of that value."""
        self.rows: NDArray[np.int64] = np.zeros(0, np.int64)
        """The rows of the changes."""
        self.machines_count = base.header.machines
        added: list[bytes] = []
        if changes is not None:
            self.rows = _rows(base, changes)
            self.machines_count = max(base.header.machines, int(self.rows[-1]) + 1 if self.rows.size else 0)
            if new := self.machines_count - base.header.machines:
                added = changes.names.split(b"\n")[-new:]
        self.names: bytes = b"\n".join([base.names, *added] if base.names else added) if added else base.names
        """The machine ids joined by newlines: equal bytes mean equal rows."""
        if previous is not None and previous.names == self.names:
            self.names = previous.names

    @property
    def machines(self) -> list[str]:
        return self.names.decode().split("\n") if self.names else []

    @cached_property
    def versions(self) -> NDArray[np.int64] | None:
        """[rows] The column ``version``; None for a table without it."""
        return None if VERSION not in self.base.columns else np.asarray(self.column(VERSION), np.int64)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of all machines; raises KeyError for one that the table does not have."""
        base = self.base.columns[name]
        if self.changes is None or not self.rows.size:
            return base
        whole: NDArray[Any] = np.empty((*base.shape[:-1], self.machines_count), base.dtype)
        whole[..., : base.shape[-1]] = base
        whole[..., self.rows] = self.changes.columns[name]
        return whole

    def whole(self) -> WindowTable:
        """Return the table of all machines as they are now."""
        header = msgspec.structs.replace(self.header, machines=self.machines_count)
        return WindowTable(header, {name: self.column(name) for name in self.base.columns}, self.names)


def _rows(base: WindowTable, changes: WindowTable) -> NDArray[np.int64]:
    """Return the rows of the changes; raises TableError unless they are changes of this base."""
    old, new = base.header, changes.header
    if new.base != old.base or not old.base:
        raise TableError(f"changes since base {new.base}; this is base {old.base}")
    column = changes.columns.get(ROW)
    if column is None or column.dtype.kind != "u" or column.ndim != 1:
        raise TableError("changes are damaged: they have no rows")
    kinds = [(name, kind, shape[:-1]) for name, kind, shape in new.columns if name != ROW]
    same = kinds == [(name, kind, shape[:-1]) for name, kind, shape in old.columns]
    if not same or (old.resources, old.windows_s, old.partition) != (new.resources, new.windows_s, new.partition):
        raise TableError("changes are damaged: they have other columns than their base")
    rows: NDArray[np.int64] = column.astype(np.int64)
    added = rows[np.searchsorted(rows, old.machines) :]
    if (rows[1:] <= rows[:-1]).any() or (added != np.arange(old.machines, old.machines + added.size)).any():
        raise TableError("changes are damaged: their rows are not ascending, or some are left out")
    return rows
