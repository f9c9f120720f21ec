"""The resource axis of a window table's columns: which axis it is, and how it is divided over two columns.

`schemas.tables.window_table` says why a column has only the first three resources, and a further column the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIRST_RESOURCES = ("cpu", "memory", "nic")
"""The resources of the first release."""

FURTHER = "further_"
_CLASS = "class_"
_RESOURCE_AXES = dict.fromkeys(
    (
        "capacity", "mean", "std", "max", "filled", "coverage", "peak_today", "peak_yesterday", "peak_today_s",
        "peak_yesterday_s", "n", "m2", "peak", "recent", "daily",
    ),
    -2,
) | {"percentile": -3}  # fmt: skip
"""The R axis of a column, counted from the last; of usage by class it is -2."""


def resource_axis(name: str) -> int | None:
    """Return the R axis of a column, counted from the last; None: it has none.

    >>> resource_axis("mean"), resource_axis("class_prod"), resource_axis("at")
    (-2, -2, None)
    """
    return -2 if name.startswith(_CLASS) else _RESOURCE_AXES.get(name)


def split_resources(columns: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return the columns with the resources after the first three in columns of their own."""
    first = len(FIRST_RESOURCES)
    found: dict[str, NDArray[np.generic]] = {}
    for name, column in columns.items():
        axis = resource_axis(name)
        if axis is None or column.ndim < -axis or column.shape[axis] <= first:
            found[name] = column
            continue
        after: Any = (slice(None),) * (-axis - 1)
        found[name] = column[(..., slice(None, first), *after)]
        found[FURTHER + name] = column[(..., slice(first, None), *after)]
    return found


def disagreement(columns: Mapping[str, NDArray[np.generic]], named: Sequence[str]) -> str:
    """Return why the resource axes of these columns and the names of their resources disagree; "" when they agree."""
    if len(set(named)) != len(named):
        return f"a resource is listed twice among {', '.join(named)}"
    for name, column in columns.items():
        axis = resource_axis(name)
        if axis is None:
            continue
        further = columns.get(FURTHER + name)
        if column.ndim < -axis or (further is not None and _other_axes(further, axis) != _other_axes(column, axis)):
            return f"{name} has axes {list(column.shape)}"
        held = column.shape[axis] + (0 if further is None else further.shape[axis])
        if held > len(named):
            return f"{name} has {held} resources, {len(named)} are named"
    return ""


def _other_axes(column: NDArray[np.generic], axis: int) -> tuple[int, ...]:
    return column.shape[:axis] + column.shape[axis + 1 :]
