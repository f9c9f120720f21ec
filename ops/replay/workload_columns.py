"""The columns of a workload as they were given; errors name file, column and row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.workload import WorkloadError
from schemas.resources import PRIORITY_CLASSES
from scorer.snapshot.arrays import Bools, Floats

Where = Callable[[str, int], str]
"""Returns the place of a value as text, from its column and its position there."""

OF_MACHINES = {
    "machine": "machine",
    "cores": "cores",
    "mem_capacity_mib": "mem_capacity_mib",
    "machine_labels": "labels",
}
"""Columns of the table of machines, by the array that holds each; all others are of the instances."""


def in_arrays(source: str) -> Where:
    """Return the places of an ``.npz``: rows of its arrays count from 1.

    >>> in_arrays("mine.npz")("cores", 0)
    'mine.npz: cores, row 1'
    """
    return lambda column, position: f"{source}: {column}, row {position + 1}"


def in_tables(source: str, files: Mapping[str, str]) -> Where:
    """Return the places of a folder of tables: rows count from the header, which is row 1; ``files`` by table.

    >>> in_tables("mine", {"machines": "machines.csv"})("machine_labels", 0)
    'mine/machines.csv: labels, row 2'
    """

    def where(column: str, position: int) -> str:
        table = "machines" if column in OF_MACHINES else "instances"
        return f"{source}/{files[table]}: {OF_MACHINES.get(column, column)}, row {position + 2}"

    return where


def check_columns(arrays: Mapping[str, NDArray[Any]], where: Where) -> None:
    """Refuse names given twice and numbers that are none, or out of bounds. Raises WorkloadError."""
    for name in ("machine", "instance"):
        _check_names(arrays.get(name, np.empty(0)), name, where)
    for name in ("cores", "mem_capacity_mib"):
        _check_numbers(arrays, name, "above 0", lambda values: values > 0, where, may_miss=name != "cores")
    for name in ("asked_cores", "asked_mem_mib"):
        _check_numbers(arrays, name, "of 0 or more", lambda values: values >= 0, where)
    for name in ("start_s", "end_s"):
        _check_numbers(arrays, name, "", lambda values: np.ones(values.shape, np.bool_), where)
    for name in ("expected_cores", "expected_mem_mib"):
        _check_numbers(arrays, name, "of 0 or more", lambda values: values >= 0, where, may_miss=True)
    if not arrays.keys() >= {"start_s", "end_s"}:
        return
    early = np.asarray(arrays["end_s"], np.float64) <= np.asarray(arrays["start_s"], np.float64)
    if early.any():
        raise WorkloadError(f"{where('end_s', _first(early))}: the instance ends before it starts")


def _check_names(names: NDArray[Any], column: str, where: Where) -> None:
    seen: set[str] = set()
    for position, name in enumerate(map(str, names)):
        if not name:
            raise WorkloadError(f"{where(column, position)}: expected a name")
        if name in seen:
            raise WorkloadError(f"{where(column, position)}: {name!r} is there twice")
        seen.add(name)


def _check_numbers(
    arrays: Mapping[str, NDArray[Any]], name: str, what: str, good: Callable[[Floats], Bools], where: Where,
    may_miss: bool = False,
) -> None:  # fmt: skip
    if name not in arrays:
        return
    values = np.asarray(arrays[name], np.float64)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.isfinite(values) & good(values)) & ~(np.isnan(values) & may_miss)
    if wrong.any():
        at = _first(wrong)
        raise WorkloadError(f"{where(name, at)}: expected a number{' ' * bool(what)}{what}, got {values[at]:g}")


def _first(wrong: Bools) -> int:
    return int(np.flatnonzero(wrong)[0])


def labels_of(arrays: Mapping[str, NDArray[Any]], name: str, where: Where) -> list[dict[str, str]]:
    """Return the labels in a column of ``key=value,key=value``; none without the column. Raises WorkloadError."""
    found = []
    for position, text in enumerate(arrays.get(name, ())):
        pairs = [pair.partition("=") for pair in str(text).split(",") if pair]
        if any(not key or not equals for key, equals, _ in pairs):
            raise WorkloadError(f"{where(name, position)}: expected key=value,key=value, got {str(text)!r}")
        found.append({key.strip(): value.strip() for key, _, value in pairs})
    return found


def classes_of(arrays: Mapping[str, NDArray[Any]], where: Where) -> Sequence[str]:
    """Return the priority classes, prod where none is given; none without the column. Raises WorkloadError."""
    found = [str(name) or PRIORITY_CLASSES[0] for name in arrays.get("priority_class", ())]
    for position, name in enumerate(found):
        if name not in PRIORITY_CLASSES:
            place = where("priority_class", position)
            raise WorkloadError(f"{place}: expected {', '.join(PRIORITY_CLASSES)}, got {name!r}")
    return found
