"""A fleet in a JSON file: how ``windward rank --machines`` and the tests describe machines.

    {
      "machines": [
        {"name": "a1", "capacity": {"cpu": 64, "memory": "256G", "nic": "1.25G"},
         "usage": {"cpu": {"mean": 20, "std": 4}, "memory": "100G"}},
        {"name": "a2", "capacity": {"cpu": 64, "memory": "256G"},
         "windows": {"300": {"cpu": {"mean": 30, "std": 6, "p95": 41, "max": 50, "coverage": 0.4}}},
         "age_s": 4, "labels": {"rack": "r7"}, "operator": {"cordon": true}}
      ],
      "instances": [{"id": "i1", "machine": "a1", "cpu": 2, "memory": "10G", "placed_ago_s": 30, "started": true}],
      "operator": {"*": {"reserve": {"memory": "8G"}}}
    }

| field of a machine         | meaning, and what holds without it                                                     |
|----------------------------|----------------------------------------------------------------------------------------|
| capacity                   | by resource, absolute; a resource without one is unknown, never 0                      |
| usage                      | by resource: a mean, or statistics (below); for every window that ``windows`` lacks    |
| windows                    | by window length in s, then by resource                                                |
| age_s, interval_s          | age of the newest sample (0), publishing interval (10)                                 |
| window_age_s               | age of the end of the windows (``age_s``)                                              |
| skew_s                     | learned clock skew (0)                                                                 |
| peak_today, peak_yesterday | highest one-minute mean by resource (the longest window's maximum; unknown)            |
| classes                    | mean usage by priority class, then by resource (unknown)                               |
| labels                     | what the agent says of it                                                              |
| operator                   | what operators say of it: `schemas.operator.OperatorFacts`                             |

Statistics: ``mean``, ``std`` (0), ``p50 p90 p95 p99`` and ``max`` (the mean), ``coverage`` (1), ``filled`` slots (what
the coverage makes). Amounts are numbers in base units (cores, bytes, bytes/s) or text with a suffix. A machine without
``usage`` and ``windows`` has no data. An instance has the fields of a request, its machine, ``placed_ago_s`` (long
ago), ``started`` (true) and ``state`` (confirmed). ``now`` and ``windows_s`` (300, 900, 3600) may be given at the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S
from schemas.operator import InvalidOperatorFacts, OperatorFacts, read_operator_facts
from schemas.quantity import parse_quantity
from schemas.request import InvalidRequest, Quantity, read_request
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.sample import VERSION, MachineFacts
from schemas.window_table import PERCENTILES, Header, WindowTable, decode_table, encode_table
from scorer.instance import Instance
from scorer.ledger_view import LedgerView, copy_with, instance_of
from scorer.snapshot import Snapshot, build_snapshot

WINDOWS_S = (300, 900, 3600)
NOW_S = 1_700_000_000.0
LONG_AGO_S = 7 * 86_400.0


class InvalidFleet(ValueError):
    """A fleet file that cannot be read; the message names machine and field."""


class _Statistics(msgspec.Struct, forbid_unknown_fields=True):
    """Usage of one resource over one window."""

    mean: Quantity
    std: Quantity = 0.0
    p50: Quantity | None = None
    p90: Quantity | None = None
    p95: Quantity | None = None
    p99: Quantity | None = None
    max: Quantity | None = None
    coverage: float = 1.0
    filled: int | None = None
    warming: bool | None = None


_ByResource = dict[str, Quantity | _Statistics]


class _Machine(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    capacity: dict[str, Quantity] = {}
    usage: _ByResource = {}
    windows: dict[str, _ByResource] = {}
    age_s: float = 0.0
    window_age_s: float | None = None
    interval_s: float = 10.0
    skew_s: float = 0.0
    peak_today: dict[str, Quantity] = {}
    peak_yesterday: dict[str, Quantity] = {}
    classes: dict[str, dict[str, Quantity]] = {}
    labels: dict[str, str] = {}
    operator: dict[str, Any] = {}
    at: float | None = None
    end: float | None = None
    boot: float | None = None
    peak_since: float | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    machines: list[_Machine]
    instances: list[dict[str, Any]] = []
    operator: dict[str, dict[str, Any]] = {}
    now: float = NOW_S
    windows_s: tuple[int, ...] | None = None
    counts: dict[str, int] = {}
    refused: list[Any] = []


@dataclass(frozen=True)
class OfflineFleet:
    """What a decision needs, from a file."""

    snapshot: Snapshot
    ledger: LedgerView
    now_s: float


def read_fleet(value: Any) -> OfflineFleet:
    """Return the fleet in decoded JSON; a bare list is the list of machines.

    Raises InvalidFleet.
    """
    try:
        file = msgspec.convert({"machines": value} if isinstance(value, list) else value, _File)
    except msgspec.ValidationError as error:
        what, at, path = str(error).rpartition(" - at `$.")
        raise InvalidFleet(f"{path.rstrip('`')}: {what}" if at else str(error)) from None
    names = [machine.name for machine in file.machines]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidFleet(f"machines: {twice!r} is there twice")
    operator = {name: _operator(name, entry) for name, entry in file.operator.items()}
    operator |= {
        machine.name: _operator(machine.name, machine.operator) for machine in file.machines if machine.operator
    }
    facts = {
        machine.name: MachineFacts(v=VERSION, machine=machine.name, boot=0, at=0.0, labels=machine.labels)
        for machine in file.machines
        if machine.labels
    }
    ledger = LedgerView(_instance(number, entry, file.now) for number, entry in enumerate(file.instances, 1))
    table = _table(file)
    snapshot = build_snapshot([table], facts, operator, ledger_machines=ledger.machine_names)
    return OfflineFleet(snapshot, ledger, file.now)


def _operator(name: str, entry: Mapping[str, Any]) -> OperatorFacts:
    try:
        return read_operator_facts(entry)
    except InvalidOperatorFacts as error:
        raise InvalidFleet(f"operator of {name}: {error}") from None


def _instance(number: int, entry: dict[str, Any], now_s: float) -> Instance:
    own = {"machine", "placed_ago_s", "started", "state"}
    machine = entry.get("machine")
    place = f"instances[{entry.get('id', number)}]"
    if not isinstance(machine, str) or not machine:
        raise InvalidFleet(f"{place}.machine: expected a machine's name")
    ago_s = entry.get("placed_ago_s", LONG_AGO_S)
    started = entry.get("started", True)
    state: Literal["reserved", "confirmed"] = entry.get("state", "confirmed")
    if not isinstance(ago_s, int | float) or not isinstance(started, bool) or state not in ("reserved", "confirmed"):
        raise InvalidFleet(f"{place}: placed_ago_s is a number, started true or false, state reserved or confirmed")
    try:
        request = read_request({key: value for key, value in entry.items() if key not in own})
    except InvalidRequest as error:
        raise InvalidFleet(f"{place}.{error}") from None
    record = instance_of(request, machine, now_s - ago_s, request.id or f"instance-{number}")
    running = started and state == "confirmed"
    return copy_with(record, state=state, started_at=now_s - ago_s if running else 0.0)


def _table(file: _File) -> WindowTable:
    """Return the machines as a window table, through the same bytes that Redis holds."""
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
        "peak_since": np.zeros(shape[2:]), "class_mean": np.full((len(PRIORITY_CLASSES), *shape), np.nan),
    }  # fmt: skip
    for row, machine in enumerate(file.machines):
        _fill(columns, row, machine, windows_s, file.now)
    header = Header(machines=len(file.machines), windows_s=windows_s, slot_s=SLOT_S, columns=[])
    return decode_table(encode_table(header, columns, "\n".join(m.name for m in file.machines).encode()))


def _window_lengths(machine: _Machine) -> list[int]:
    for name in machine.windows:
        if not name.isdigit() or int(name) == 0:
            raise InvalidFleet(f"{machine.name}.windows: {name!r} is no length in seconds")
    return [int(name) for name in machine.windows]


def _fill(
    columns: Mapping[str, NDArray[Any]], row: int, machine: _Machine, windows_s: Sequence[int], now_s: float
) -> None:
    for resource, amount in machine.capacity.items():
        columns["capacity"][_resource(machine, "capacity", resource), row] = _amount(machine, "capacity", amount)
    if not machine.usage and not machine.windows:
        return
    columns["at"][row] = now_s - machine.age_s + machine.skew_s
    columns["skew"][row] = machine.skew_s
    columns["end"][row] = now_s - (machine.age_s if machine.window_age_s is None else machine.window_age_s)
    columns["interval_s"][row] = machine.interval_s
    for position, window_s in enumerate(windows_s):
        usage = {**machine.usage, **machine.windows.get(str(window_s), {})}
        for resource, said in usage.items():
            _fill_statistics(columns, (position, _resource(machine, "usage", resource), row), machine, window_s, said)
    for day in ("peak_today", "peak_yesterday"):
        for resource, amount in getattr(machine, day).items():
            columns[day][_resource(machine, day, resource), row] = _amount(machine, day, amount)
    if not machine.peak_today:
        columns["peak_today"][:, row] = columns["max"][-1, :, row]
    for name, usage_of_class in machine.classes.items():
        if name not in PRIORITY_CLASSES:
            raise InvalidFleet(f"{machine.name}.classes: no class {name!r}; there are {', '.join(PRIORITY_CLASSES)}")
        for resource, amount in usage_of_class.items():
            index = _resource(machine, f"classes.{name}", resource)
            columns["class_mean"][PRIORITY_CLASSES.index(name), :, index, row] = _amount(machine, "classes", amount)


def _fill_statistics(
    columns: Mapping[str, NDArray[Any]],
    at: tuple[int, int, int],
    machine: _Machine,
    window_s: int,
    said: Quantity | _Statistics,
) -> None:
    statistics = said if isinstance(said, _Statistics) else _Statistics(mean=said)
    position, resource, row = at
    mean = _amount(machine, "mean", statistics.mean)
    columns["mean"][at] = mean
    columns["std"][at] = _amount(machine, "std", statistics.std)
    columns["max"][at] = mean if statistics.max is None else _amount(machine, "max", statistics.max)
    for place, percent in enumerate(PERCENTILES):
        value = getattr(statistics, f"p{percent}")
        columns["percentile"][position, resource, place, row] = mean if value is None else _amount(machine, "p", value)
    possible = window_s / max(SLOT_S, machine.interval_s)
    columns["coverage"][at] = statistics.coverage
    filled = round(statistics.coverage * possible) if statistics.filled is None else statistics.filled
    columns["filled"][at] = filled


def _resource(machine: _Machine, field: str, name: str) -> int:
    if name not in RESOURCES:
        raise InvalidFleet(f"{machine.name}.{field}: no resource {name!r}; there are {', '.join(RESOURCES)}")
    return RESOURCES.index(name)


def _amount(machine: _Machine, field: str, value: float | str) -> float:
    try:
        return parse_quantity(value)
    except ValueError as error:
        raise InvalidFleet(f"{machine.name}.{field}: {error}") from None
