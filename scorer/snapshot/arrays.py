"""The types of columns, with the machine as the last axis; functions that select, compare and show rows."""

from collections.abc import Callable, Mapping
from ctypes import c_size_t
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.values.numbers import finite

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]
Array = TypeVar("Array", bound=NDArray[Any])

ROUNDING = 1e-12
"""Relative slack, so that sums of floats meet a limit they equal; below a terabyte less than the ledger counts."""


def address(array: NDArray[Any]) -> int:
    """Return the address of an array's data; the caller keeps the array while the address is in use.

    The object of an array begins with the head of all objects, then this pointer (`PyArrayObject_fields` in numpy's C
    API). To read it there takes 0.1 us, ``array.ctypes.data`` 1.8; a decision reads forty. When the library of C
    functions is loaded, both are compared.
    """
    return c_size_t.from_address(id(array) + object.__basicsize__).value


def numbers(values: Floats, names: tuple[str, ...] = RESOURCES) -> Mapping[str, float | None]:
    """Return plain numbers by name for an explanation, None for one that is not finite."""
    return {name: finite(value) for name, value in zip(names, values.tolist(), strict=True)}


def by_row(rows: Integers, count: int) -> Callable[[int], Integers]:
    """Return a function from each of ``count`` rows to the positions in ``rows`` that contain it, in their order.

    >>> on = by_row(np.array([1, 0, 1]), 3)
    >>> on(1).tolist(), on(2).tolist()
    ([0, 2], [])
    """
    order = np.argsort(rows, kind="stable")
    ends = np.searchsorted(rows[order], np.arange(count + 1))
    return lambda row: order[ends[row] : ends[row + 1]]


def known_or(values: Floats, otherwise: float) -> Floats:
    """Return the values with NaN replaced; the same array when there is none.

    >>> known_or(np.array([1.0, np.nan]), 0.0).tolist()
    [1.0, 0.0]
    """
    if not np.isnan(values.sum()):
        return values
    return np.where(np.isnan(values), otherwise, values)
