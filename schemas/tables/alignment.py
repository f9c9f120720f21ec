"""Aligns a window table's columns with the resources of this process, by name."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.tables.window_table import WindowTable, resource_axis


def resource_parts(table: WindowTable, name: str) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the parts of a column with an R axis: consecutive rows of `schemas.resources`, and their values.

    Resources that this process does not know are left out.
    """
    axis, column = resource_axis(name), table.columns.get(name)
    assert axis is not None, name
    if column is None:
        return
    after: Any = (slice(None),) * (-axis - 1)
    for place, count, row in _runs(table.header.resources[: column.shape[axis]]):
        yield slice(row, row + count), column[(..., slice(place, place + count), *after)]


@lru_cache(maxsize=64)
def _runs(names: tuple[str, ...]) -> tuple[tuple[int, int, int], ...]:
    """Return (place in ``names``, length, place in `schemas.resources`) of each sequence that is equal in both."""
    place, found = 0, []
    while place < len(names):
        if names[place] not in RESOURCES:
            place += 1
            continue
        row = RESOURCES.index(names[place])
        count = 1
        while names[place : place + count + 1] == RESOURCES[row : row + count + 1] and place + count < len(names):
            count += 1
        found.append((place, count, row))
        place += count
    return tuple(found)


def aligned(table: WindowTable, name: str) -> NDArray[Any] | None:
    """Return a column with its R axis in the order of `schemas.resources`; NaN where the table has nothing.

    In a column of whole numbers that is 0. A column without an R axis is returned unchanged, None for a missing one.
    """
    axis = resource_axis(name)
    if axis is None or name not in table.columns:
        return table.columns.get(name)
    parts = list(resource_parts(table, name))
    if len(parts) == 1 and parts[0][0] == slice(0, len(RESOURCES)):
        return parts[0][1]
    like = table.columns[name]
    shape = list(like.shape)
    shape[axis] = len(RESOURCES)
    whole: NDArray[Any] = np.full(shape, np.nan if like.dtype.kind == "f" else 0, like.dtype)
    target = np.moveaxis(whole, axis, 0)
    for rows, part in parts:
        target[rows] = np.moveaxis(part, axis, 0)
    return whole
