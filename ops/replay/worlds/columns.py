"""The columns of a workload as they were given; errors name file, column and row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.replay.workload import WorkloadError
from schemas.resources import PRIORITY_CLASSES
from scorer.snapshot.arrays import Bools, Floats

Where = Callable[[str, int], str]
"""Returns the place of a value as text, from its column and its position there."""

ARRAYS = {
    "machine": "M", "cores": "M", "mem_capacity_mib": "M", "machine_labels": "M",
    "ts": "T", "slot_s": "T",
    "instance": "K", "asked_cores": "K", "asked_mem_mib": "K", "start_s": "K", "end_s": "K", "kind": "K", "labels": "K",
    "priority_class": "K", "expected_cores": "K", "expected_mem_mib": "K",
    "cpu_cores": "KT", "mem_mib": "KT", "fill_s": "",
}  # fmt: skip
"""The arrays of an ``.npz`` with their axes; other arrays are ignored."""
TEXTS = {"machine", "machine_labels", "instance", "kind", "labels", "priority_class"}
"""The columns of text; the others are numbers."""
TABLES = {
    "machines": ("machine", "cores"),
    "instances": ("instance", "asked_cores", "start_s", "end_s"),
    "usage": ("instance", "ts", "cpu_cores"),
}
"""The tables of a folder, with the columns that each must have."""
AMOUNT_MAX = 1e9
"""The largest number of cores or MiB."""
TIME_MAX_S = 1e11
"""The largest time, s, and the smallest with a minus."""


class _Numbers(NamedTuple):
    """The numbers that a column may hold."""

    expected: str
    may_miss: bool = False
    """NaN may stand for no value."""
    least: float = 0.0
    most: float = AMOUNT_MAX


NUMBERS = {
    "cores": _Numbers("above 0"),
    "mem_capacity_mib": _Numbers("above 0", may_miss=True),
    "asked_cores": _Numbers("of 0 or more"),
    "asked_mem_mib": _Numbers("of 0 or more"),
    "expected_cores": _Numbers("of 0 or more", may_miss=True),
    "expected_mem_mib": _Numbers("of 0 or more", may_miss=True),
    "start_s": _Numbers("", least=-TIME_MAX_S, most=TIME_MAX_S),
    "end_s": _Numbers("", may_miss=True, least=-TIME_MAX_S, most=TIME_MAX_S),
}
"""The columns of numbers but the usage, with what they may hold; checked in this order."""


def array_of(table: str, column: str) -> str:
    """Return the name of the array for a column of machines or instances; "" for any other column, which is ignored.

    >>> array_of("machines", "labels"), array_of("instances", "labels"), array_of("instances", "machine")
    ('machine_labels', 'labels', '')
    """
    name = "machine_labels" if (table, column) == ("machines", "labels") else column
    return name if ARRAYS.get(name) == {"machines": "M", "instances": "K"}[table] else ""


def in_arrays(source: str) -> Where:
    """Return the places of values in an ``.npz``, for errors: rows of its arrays count from 1.

    >>> in_arrays("mine.npz")("cores", 0)
    'mine.npz: cores, row 1'
    """
    return lambda column, position: f"{source}: {column}, row {position + 1}"


def in_tables(source: str, files: Mapping[str, str]) -> Where:
    """Return the places of values in a folder of tables, for errors: the header is row 1. ``files``: by table.

    >>> in_tables("mine", {"machines": "machines.csv"})("machine_labels", 0)
    'mine/machines.csv: labels, row 2'
    """

    def where(column: str, position: int) -> str:
        table = "machines" if ARRAYS[column] == "M" else "instances"
        return f"{source}/{files[table]}: {column.removeprefix('machine_')}, row {position + 2}"

    return where


def check_arrays(arrays: Mapping[str, NDArray[Any]], source: str) -> None:
    """Refuse arrays that are missing, have another shape, or have text in place of numbers. Raises WorkloadError."""
    for name in (*TABLES["machines"], *TABLES["instances"], "cpu_cores"):
        if name not in arrays:
            raise WorkloadError(f"{source}: has no {name}")
    if "ts" not in arrays and "slot_s" not in arrays:
        raise WorkloadError(f"{source}: has neither ts nor slot_s")
    cells = arrays["ts"] if "ts" in arrays else arrays["slot_s"]
    sizes = {"M": np.size(arrays["machine"]), "K": np.size(arrays["instance"]), "T": np.size(cells)}
    for name, axes in ARRAYS.items():
        if name not in arrays:
            continue
        expected = tuple(sizes[axis] for axis in axes)
        if np.shape(arrays[name]) != expected:
            raise WorkloadError(f"{source}: {name}: has the shape {np.shape(arrays[name])}, expected {expected}")
        kind = arrays[name].dtype
        if name not in TEXTS and kind.kind not in "iuf":
            raise WorkloadError(f"{source}: {name}: expected numbers, got {'text' if kind.kind in 'SU' else kind}")


def check_columns(arrays: Mapping[str, NDArray[Any]], where: Where) -> None:
    """Refuse duplicate names, and values that are not numbers or out of bounds. Raises WorkloadError."""
    for name in ("machine", "instance"):
        _check_names(arrays[name], name, where)
    for name, numbers in NUMBERS.items():
        if name in arrays:
            _check_numbers(np.asarray(arrays[name], np.float64), name, numbers, where)
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


def _check_numbers(values: Floats, name: str, numbers: _Numbers, where: Where) -> None:
    with np.errstate(invalid="ignore"):
        good = values > 0 if numbers.expected == "above 0" else values >= numbers.least
        wrong = ~(good & (values <= numbers.most)) & ~(np.isnan(values) & numbers.may_miss)
    if wrong.any():
        at = _first(wrong)
        expected = f"expected a number {numbers.expected}".rstrip()
        if abs(values[at]) > numbers.most:
            expected = f"expected a number of at most {numbers.most:g}"
        raise WorkloadError(f"{where(name, at)}: {expected}, got {values[at]:g}")


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
