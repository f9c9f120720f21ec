"""The machines of a fleet file as a window table, through the same bytes that Redis holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S, WINDOWS_S
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import Quantity
from schemas.tables.window_table import PERCENTILES, Header, WindowTable, decode_table, encode_table
from scorer.commands.shared.fleet_fields import (
    FileMachine,
    FleetFile,
    InvalidFleet,
    Statistics,
    amount_of,
    resource_index,
)


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
    for resource, amount in machine.capacity.items():
        columns["capacity"][resource_index(machine, "capacity", resource), row] = amount_of(
            machine, "capacity", amount, resource
        )
    if not machine.usage and not machine.windows:
        return
    columns["at"][row] = now_s - machine.age_s + machine.skew_s
    columns["skew"][row] = machine.skew_s
    columns["end"][row] = now_s - (machine.age_s if machine.window_age_s is None else machine.window_age_s)
    columns["interval_s"][row] = machine.interval_s
    for position, window_s in enumerate(windows_s):
        usage = {**machine.usage, **machine.windows.get(str(window_s), {})}
        for resource, said in usage.items():
            _fill_statistics(
                columns, (position, resource_index(machine, "usage", resource), row), machine, window_s, said
            )
    for day in ("peak_today", "peak_yesterday"):
        for resource, amount in getattr(machine, day).items():
            columns[day][resource_index(machine, day, resource), row] = amount_of(machine, day, amount)
        for resource, ago_s in getattr(machine, f"{day}_ago_s").items():
            columns[f"{day}_s"][resource_index(machine, f"{day}_ago_s", resource), row] = now_s - ago_s
    if not machine.peak_today:
        columns["peak_today"][:, row] = columns["max"][-1, :, row]
    for name, usage_of_class in machine.classes.items():
        if name not in PRIORITY_CLASSES:
            raise InvalidFleet(f"{machine.name}.classes: no class {name!r}; there are {', '.join(PRIORITY_CLASSES)}")
        for resource, amount in usage_of_class.items():
            index = resource_index(machine, f"classes.{name}", resource)
            columns[f"class_{name}"][:, index, row] = amount_of(machine, "classes", amount)


def _fill_statistics(
    columns: Mapping[str, NDArray[Any]],
    at: tuple[int, int, int],
    machine: FileMachine,
    window_s: int,
    said: Quantity | Statistics,
) -> None:
    statistics = said if isinstance(said, Statistics) else Statistics(mean=said)
    position, resource, row = at
    mean = amount_of(machine, "mean", statistics.mean, RESOURCES[resource])
    columns["mean"][at] = mean
    columns["std"][at] = amount_of(machine, "std", statistics.std)
    columns["max"][at] = mean if statistics.max is None else amount_of(machine, "max", statistics.max)
    for place, percent in enumerate(PERCENTILES):
        value = getattr(statistics, f"p{percent}")
        columns["percentile"][position, resource, place, row] = (
            mean if value is None else amount_of(machine, "p", value)
        )
    possible = window_s / max(SLOT_S, machine.interval_s)
    columns["coverage"][at] = statistics.coverage
    filled = round(statistics.coverage * possible) if statistics.filled is None else statistics.filled
    columns["filled"][at] = filled
