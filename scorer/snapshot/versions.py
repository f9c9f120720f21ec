"""Versions of rows: which machines of a snapshot differ from those of another.

Each row has a number that was drawn when the row changed last. Two snapshots of one *shape* (the same machines in the
same rows, the same windows) have equal versions exactly where nothing of a machine changed: its row in the window
tables, its facts, its labels, operators' rules for it. So rows of machines are brought up to date by
`Snapshot.changed_since`. What is learned, reported by instance or predicted has no row: compare those by identity.

Numbers are drawn once in a process. So two snapshots that were made from the same one never share a new version.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from schemas.tables.partition_windows import PartitionWindows
from scorer.snapshot.arrays import Bools, Integers

_numbers = count(1)


def new_number() -> int:
    """Return a number that no shape or version of this process has yet."""
    return next(_numbers)


def raised(versions: Integers, rows: Bools | Integers) -> Integers:
    """Return the versions with a new number in these rows; the same array when there are none."""
    if not (rows.any() if rows.dtype == np.bool_ else rows.size):
        return versions
    found = versions.copy()
    found[rows] = new_number()
    found.flags.writeable = False
    return found


def changed_rows(before: Sequence[PartitionWindows], tables: Sequence[PartitionWindows]) -> Bools:
    """Return [rows of all tables]: whether a row changed; the tables have the same machines.

    A table without versions has changed in all rows, unless it is the same one.
    """
    return np.concatenate([np.zeros(0, np.bool_), *map(_changed, before, tables)])


def _changed(before: PartitionWindows, table: PartitionWindows) -> Bools:
    if table is before or (table.base is before.base and table.changes is before.changes):
        return np.zeros(table.machines_count, np.bool_)
    if table.versions is None or before.versions is None:
        return np.ones(table.machines_count, np.bool_)
    changed: Bools = table.versions != before.versions
    return changed
