"""A fleet in a JSON file: how ``windward rank --fleet-file`` and the tests describe machines.

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

| field of a machine         | meaning, and its default                                                               |
|----------------------------|----------------------------------------------------------------------------------------|
| capacity                   | by resource, absolute; a resource without one is unknown, never 0                      |
| usage                      | by resource: a mean, or statistics (below); for every window that ``windows`` lacks    |
| windows                    | by window length in s, then by resource                                                |
| age_s, interval_s          | age of the newest sample (0), publishing interval (10)                                 |
| window_age_s               | age of the end of the windows (``age_s``)                                              |
| skew_s                     | learned clock skew (0)                                                                 |
| peak_today, peak_yesterday | highest one-minute mean by resource (the longest window's maximum; unknown)            |
| peak_today_ago_s, peak_yesterday_ago_s | how long ago that minute was, by resource (unknown)                        |
| classes                    | mean usage by priority class, then by resource (unknown)                               |
| system                     | what it uses besides its instances, by resource, where theirs is measured (unknown)    |
| labels                     | labels that the agent reports                                                          |
| operator                   | operators' rules: `schemas.messages.operator.OperatorFacts`                            |

Statistics: ``mean``, ``std`` (0), ``p50 p90 p95 p99`` and ``max`` (the mean), ``coverage`` (1), ``filled`` slots (what
the coverage makes). Amounts are numbers in base units (cores, bytes, bytes/s) or text with a suffix. A machine without
``usage`` and ``windows`` has no data. An instance has the fields of a request, its machine, ``placed_ago_s`` (long
ago), ``started`` (true) and ``state`` (confirmed). What it uses, where that is measured: ``usage`` by resource,
``usage_since_s`` (a day) before the last report, which is ``usage_age_s`` (0) older than the sample. ``leavers`` lists
instances that ended, ``ended_ago_s`` (0) ago: a profile with ``debits`` subtracts their load from the windows. Of one
that is ``failed`` (false) the start failed.
``learned`` has the learned factors by resource. ``now`` and ``windows_s`` (300, 900, 3600) may be given at the top.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from schemas.messages.operator import InvalidOperatorFacts, OperatorFacts, read_operator_facts
from schemas.messages.sample import VERSION, MachineFacts
from schemas.names import SLOT_S, WINDOWS_S
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import InvalidRequest, Quantity, read_request
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.learned import FACTOR_MAX, FACTOR_MIN, Learned
from schemas.tables.window_table import PERCENTILES, Header, WindowTable, decode_table, encode_table
from schemas.values.errors import field_error, shortened
from schemas.values.numbers import Epoch
from schemas.values.quantity import parse_amount
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.inputs import FleetState
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.usages import Usages, UsageTable

NOW_S = 1_700_000_000.0
DAY_S = 86_400.0
AMOUNT_MAX = 1e16

_Value = TypeVar("_Value")
Seconds = Annotated[float, Meta(ge=-1e11, le=1e11)]
Ago = Annotated[float, Meta(ge=0, le=1e9)]
WindowLength = Annotated[int, Meta(ge=1, le=10**9)]


class InvalidFleet(ValueError):
    """A fleet file that cannot be read; the message names machine and field."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class Statistics(msgspec.Struct, forbid_unknown_fields=True):
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


ByResource = dict[str, Quantity | Statistics]


class FileMachine(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    capacity: dict[str, Quantity] = {}
    usage: ByResource = {}
    windows: dict[str, ByResource] = {}
    age_s: Seconds = 0.0
    window_age_s: Seconds | None = None
    interval_s: Seconds = 10.0
    skew_s: Seconds = 0.0
    peak_today: dict[str, Quantity] = {}
    peak_yesterday: dict[str, Quantity] = {}
    peak_today_ago_s: dict[str, Seconds] = {}
    peak_yesterday_ago_s: dict[str, Seconds] = {}
    classes: dict[str, dict[str, Quantity]] = {}
    system: dict[str, Quantity] = {}
    labels: dict[str, str] = {}
    operator: dict[str, Any] = {}
    at: Epoch | None = None
    end: Epoch | None = None
    boot: Epoch | None = None
    peak_since: Epoch | None = None


class FilePlaced(msgspec.Struct, kw_only=True):
    """The fields of an instance, or a leaver, in the file, other than its request."""

    machine: str = ""
    placed_ago_s: Seconds = 7 * DAY_S
    started: bool = True
    state: Literal["reserved", "confirmed"] = "confirmed"
    ended_ago_s: Ago = 0.0
    """Set for an instance that has ended or moved away, and for no other; so is ``failed``."""
    failed: bool = False
    usage: dict[str, Any] | None = None
    usage_since_s: Ago = DAY_S
    usage_age_s: Ago = 0.0


class FleetFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    machines: list[FileMachine]
    instances: list[dict[str, Any]] = []
    leavers: list[dict[str, Any]] = []
    learned: dict[str, float] = {}
    operator: dict[str, dict[str, Any]] = {}
    now: Epoch = NOW_S
    windows_s: tuple[WindowLength, ...] | None = None
    counts: dict[str, int] = {}
    refused: list[Any] = []


def by_row(place: str, given: Mapping[str, _Value]) -> Iterator[tuple[int, str, _Value]]:
    """Yield row, name and value of each resource. Raises InvalidFleet for an unknown resource."""
    for name, value in given.items():
        if name not in RESOURCES:
            raise InvalidFleet(f"{place}: no resource {name!r}; there are {', '.join(RESOURCES)}")
        yield RESOURCES.index(name), name, value


def amounts_of(place: str, given: Mapping[str, Quantity]) -> dict[int, float]:
    """Return amounts in base units by row. Raises InvalidFleet."""
    found = {row: amount_of(f"{place}.{name}", value, name) for row, name, value in by_row(place, given)}
    for row, amount in found.items():
        if not 0 <= amount <= AMOUNT_MAX:
            raise InvalidFleet(f"{place}.{RESOURCES[row]}: expected 0 to {AMOUNT_MAX:g}, got {amount!r}")
    return found


def amount_of(place: str, value: Quantity, resource: str = "") -> float:
    """Return an amount in base units, from a number or a text with a suffix. Raises InvalidFleet."""
    try:
        return parse_amount(resource, msgspec.convert(value, Quantity))
    except ValueError as error:  # msgspec's is one
        raise InvalidFleet(f"{place}: {error}") from None


__all__ = ["FleetState", "InvalidFleet", "read_fleet"]


def read_fleet(value: Any) -> FleetState:
    """Return the fleet in decoded JSON; a bare list is the list of machines.

    Raises InvalidFleet.
    """
    try:
        file = msgspec.convert({"machines": value} if isinstance(value, list) else value, FleetFile)
        msgspec.json.encode(value)
    except msgspec.ValidationError as error:
        raise InvalidFleet(field_error(error)) from None
    except UnicodeEncodeError:
        raise InvalidFleet("a text in it is not valid Unicode: it holds half of a surrogate pair") from None
    names = [machine.name for machine in file.machines]
    if broken := next((name for name in names if "\n" in name), None):
        raise InvalidFleet(f"machines: {broken!r} is no name: it has more than one line")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidFleet(f"machines: {twice!r} is listed twice")
    operator = {name: _operator(name, entry) for name, entry in file.operator.items()}
    operator |= {
        machine.name: _operator(machine.name, machine.operator) for machine in file.machines if machine.operator
    }
    facts = {
        machine.name: MachineFacts(v=VERSION, machine=machine.name, boot=0, at=0.0, labels=machine.labels)
        for machine in file.machines
        if machine.labels
    }
    placed = [_placed("instances", number, entry, file.now) for number, entry in enumerate(file.instances, 1)]
    left = [_placed("leavers", number, entry, file.now) for number, entry in enumerate(file.leavers, 1)]
    leavers = sorted((leaver for leaver, _ in left), key=lambda leaver: leaver.ended_at)
    ledger = LedgerView([instance for instance, _ in placed], leavers)
    table, usage = window_table(file), usage_table(file, [*placed, *left])
    usages = Usages([UsageTable(usage)]) if usage else None
    for resource, factor in file.learned.items():
        if resource not in RESOURCES or not FACTOR_MIN <= factor <= FACTOR_MAX:
            raise InvalidFleet(f"learned.{resource}: expected a resource with {FACTOR_MIN} to {FACTOR_MAX}: {factor}")
    learned = Learned(version=1, factors=dict(file.learned)) if file.learned else None
    snapshot = build_snapshot([table], facts, operator, ledger_machines=ledger.machine_names)
    return FleetState(snapshot.with_use(learned, usages), ledger, file.now)


def _operator(name: str, entry: Mapping[str, Any]) -> OperatorFacts:
    try:
        return read_operator_facts(entry)
    except InvalidOperatorFacts as error:
        raise InvalidFleet(f"operator of {name}: {error}") from None


def _placed(of: str, number: int, entry: Mapping[str, Any], now_s: float) -> tuple[Instance, FilePlaced]:
    """Return an entry of ``instances`` or ``leavers`` as a record, with its fields other than the request."""
    place = f"{of}[{entry.get('id', number)}]"
    own = {*FilePlaced.__struct_fields__} - ({"ended_ago_s", "failed"} if of == "instances" else set())
    try:
        said = msgspec.convert(entry, FilePlaced)
        if not said.machine or "\n" in said.machine:
            raise InvalidFleet(f"{place}.machine: expected a machine's name")
        request = read_request({key: value for key, value in entry.items() if key not in own})
    except msgspec.ValidationError as error:
        raise InvalidFleet(f"{place}.{field_error(error)}") from None
    except InvalidRequest as error:
        raise InvalidFleet(f"{place}.{error}") from None
    at_s = now_s - said.placed_ago_s
    record = instance_of(request, said.machine, at_s, request.id or f"instance-{number}")
    started_at = at_s if said.started and said.state == "confirmed" else 0.0
    if of == "leavers":
        ended = {"ended_at": now_s - said.ended_ago_s, "failed": said.failed}
        return copy_with(record, state="released", started_at=started_at, **ended), said
    return copy_with(record, state=said.state, started_at=started_at), said


_SINCE_MAX = 2.0**32 - 1


def window_table(file: FleetFile) -> WindowTable:
    """Return the machines as a window table, encoded and decoded once as on its way through Redis."""
    named = [(machine.name, name) for machine in file.machines for name in machine.windows]
    for owner, name in named:
        if not name.isdigit() or int(name) == 0:
            raise InvalidFleet(f"{owner}.windows: {name!r} is no length in seconds")
    windows_s = tuple(sorted(file.windows_s or {int(name) for _, name in named} or WINDOWS_S))
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

    ``said``: each instance with its fields in the file. Raises InvalidFleet naming instance or machine, and resource.
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
