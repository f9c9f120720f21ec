"""The machines of a fleet file, and what its instances use, as tables: through the same bytes that Redis holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S, WINDOWS_S
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import Quantity
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import PERCENTILES, Header, WindowTable, decode_table, encode_table
from scorer.commands.shared.fleet_fields import (
    DAY_S,
    FileMachine,
    FilePlaced,
    FleetFile,
    InvalidFleet,
    Statistics,
    amount_of,
    amounts_of,
    by_row,
)
from scorer.ledger.record.instance import Instance

_SINCE_MAX = 2.0**32 - 1


def window_table(file: FleetFile) -> WindowTable:
    """Return the machines as a window table that was encoded and decoded once."""
    named = {window_s for machine in file.machines for window_s in _window_lengths(machine)}
    windows_s = tuple(sorted(file.windows_s or named or WINDOWS_S))
    shape = (len(windows_s), len(RESOURCES), len(file.machines))
    columns: dict[str, NDArray[Any]] = {
        "at": np.full(shape[2:], np.nan), "skew": np.zeros(shape[2:], "f4"), "end": np.full(shape[2:], np.nan),
        "boot": np.zeros(shape[2:]), "interval_s": np.full(shape[2:], np.nan, "f4"),
        "capacity": np.full(shape[1:], np.nan), "mean": np.full(shape, np.nan), "std": np.full(shape, np.nan),
        "max": np.full(shape, np.nan), "percentile": np.full((*shape[:2], len(PERCENTILES), shape[2]), np.nan),
        "filled": np.zeros(shape, "u2"), "coverage": np.zeros(shape, "f4"),
        "peak_today": np.full(shape[1:], np.nan), "peak_yesterday": np.full(shape[1:], np.nan),
        "peak_today_s": np.full(shape[1:], np.nan), "peak_yesterday_s": np.full(shape[1:], np.nan),
        "peak_day": np.zeros(shape[2:]), "peak_since": np.zeros(shape[2:]),
        **{f"class_{name}": np.full(shape, np.nan) for name in PRIORITY_CLASSES},
    }  # fmt: skip
    for row, machine in enumerate(file.machines):
        _fill(columns, row, machine, windows_s, file.now)
    header = Header(machines=len(file.machines), windows_s=windows_s, slot_s=SLOT_S, columns=[])
    return decode_table(encode_table(header, columns, "\n".join(m.name for m in file.machines).encode()))


def _window_lengths(machine: FileMachine) -> list[int]:
    for name in machine.windows:
        if not name.isdigit() or int(name) == 0:
            raise InvalidFleet(f"{machine.name}.windows: {name!r} is no length in seconds")
    return [int(name) for name in machine.windows]


def _fill(
    columns: Mapping[str, NDArray[Any]], row: int, machine: FileMachine, windows_s: Sequence[int], now_s: float
) -> None:
    for resource, amount in amounts_of(f"{machine.name}.capacity", machine.capacity).items():
        columns["capacity"][resource, row] = amount
    if not machine.usage and not machine.windows:
        return
    columns["at"][row] = now_s - machine.age_s + machine.skew_s
    columns["skew"][row] = machine.skew_s
    columns["end"][row] = now_s - (machine.age_s if machine.window_age_s is None else machine.window_age_s)
    columns["interval_s"][row] = machine.interval_s
    for position, window_s in enumerate(windows_s):
        usage = {**machine.usage, **machine.windows.get(str(window_s), {})}
        for resource, _, said in by_row(f"{machine.name}.usage", usage):
            _fill_statistics(columns, (position, resource, row), machine, window_s, said)
    for day in ("peak_today", "peak_yesterday"):
        for resource, amount in amounts_of(f"{machine.name}.{day}", getattr(machine, day)).items():
            columns[day][resource, row] = amount
        for resource, _, ago_s in by_row(f"{machine.name}.{day}_ago_s", getattr(machine, f"{day}_ago_s")):
            columns[f"{day}_s"][resource, row] = now_s - ago_s
    if not machine.peak_today:
        columns["peak_today"][:, row] = columns["max"][-1, :, row]
    for name, usage_of_class in machine.classes.items():
        if name not in PRIORITY_CLASSES:
            raise InvalidFleet(f"{machine.name}.classes: no class {name!r}; there are {', '.join(PRIORITY_CLASSES)}")
        for resource, amount in amounts_of(f"{machine.name}.classes.{name}", usage_of_class).items():
            columns[f"class_{name}"][:, resource, row] = amount


def _fill_statistics(
    columns: Mapping[str, NDArray[Any]],
    at: tuple[int, int, int],
    machine: FileMachine,
    window_s: int,
    said: Quantity | Statistics,
) -> None:
    statistics = said if isinstance(said, Statistics) else Statistics(mean=said)
    position, resource, row = at
    mean = columns["mean"][at] = amount_of(f"{machine.name}.mean", statistics.mean, RESOURCES[resource])

    def given(name: str) -> float:
        value = getattr(statistics, name)
        return mean if value is None else amount_of(f"{machine.name}.{name}", value)

    columns["std"][at], columns["max"][at] = given("std"), given("max")
    for place, percent in enumerate(PERCENTILES):
        columns["percentile"][position, resource, place, row] = given(f"p{percent}")
    possible = window_s / max(SLOT_S, machine.interval_s)
    columns["coverage"][at] = statistics.coverage
    filled = round(statistics.coverage * possible) if statistics.filled is None else statistics.filled
    columns["filled"][at] = filled


def usage_table(file: FleetFile, said: Iterable[tuple[Instance, FilePlaced]]) -> WindowTable | None:
    """Return the usage of the instances and systems of a file; None when it has none.

    ``said``: each instance with what the file says of it. Raises InvalidFleet naming instance or machine, and resource.
    """
    rows: list[tuple[str, float, float, dict[int, float]]] = []
    ends = {machine.name: file.now - machine.age_s for machine in file.machines}
    measured = set()
    for instance, placed in said:
        if placed.usage is not None:
            measured.add(instance.machine)
            at = ends.get(instance.machine, file.now) - placed.usage_age_s
            amounts = amounts_of(f"instances[{instance.id}].usage", placed.usage)
            rows.append((pair_name(instance.machine, instance.id), at, at - placed.usage_since_s, amounts))
    for machine in file.machines:
        if machine.system or machine.name in measured:
            at, system = ends[machine.name], amounts_of(f"{machine.name}.system", machine.system)
            rows.append((pair_name(machine.name, ""), at, at - DAY_S, system))
    if not rows:
        return None
    columns = {name: np.full((*axes, len(rows)), absent, kind) for name, (kind, axes, absent) in COLUMNS.items()}
    columns |= {name: columns[name].astype("f8") for name in ("recent", "daily")}  # as exact as the file says it
    columns["count"][:] = 100
    for row, (_, at, since, usage) in enumerate(rows):
        columns["at"][row], columns["since"][row] = at, min(max(since, 0.0), _SINCE_MAX)
        for resource, mean in usage.items():
            columns["recent"][resource, row] = columns["daily"][resource, row] = mean
    names = "\n".join(name for name, *_ in rows).encode()
    return decode_table(encode_table(Header(machines=len(rows), windows_s=(), columns=[]), columns, names))
