"""OpenTelemetry's messages: metrics of the collector's hostmetrics receiver in OTLP, as JSON or as protobuf. Pure.

    resourceMetrics > resource.attributes (host.name)
                    > scopeMetrics > metrics > name, gauge | sum > dataPoints > attributes, timeUnixNano, as...

| metric                   | attributes        | as                                                     |
|--------------------------|-------------------|--------------------------------------------------------|
| system.cpu.time          | state; core, or none | busy and total time, or idle time alone; idle and wait are idle |
| system.cpu.logical.count |                   | cores; without it those that have a time of their own  |
| system.cpu.utilization   | state; core, or none | the busy share, where no time is sent               |
| system.memory.usage      | state             | used; the total is used, free, cached and buffered     |
| system.memory.limit      |                   | the total, where it is sent; the states add up to 1 % more |
| system.network.io        | device, direction | per interface                                          |
| system.disk.io_time      | device            | per disk                                               |

Attributes have the receiver's names or those of the semantic conventions (`NAMES`). Other metrics are ignored.
``startTimeUnixNano`` shows that a counter was reset even when it is above its old value. For a sum of delta temporality
it is the start of the rise. Until June 2026 the receiver sends the time of each core, since then their sum and the
number of cores (pull requests 49162 and 49325 of opentelemetry-collector-contrib).

Format: OTLP's JSON encoding (numbers of 64 bits are strings), its protobuf encoding, and the documentation of the
hostmetrics receiver.
"""

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from streams.bridge.formats.points import ALL_CORES, COUNTERS, ROUNDING, Point, Quantity, UnreadableError

DELTA = (1, "1", "AGGREGATION_TEMPORALITY_DELTA")
IDLE = frozenset(("idle", "wait", "iowait"))
WHOLE = frozenset(("used", "free", "cached", "buffered", "buffers"))
"""States of memory that add up to the total; slabs are included in ``cached``."""
NAMES = {
    "core": ("cpu", "cpu.logical_number", "system.cpu.logical_number"),
    "state": ("state", "cpu.mode", "system.cpu.state", "system.memory.state"),
    "device": ("device", "system.device", "network.interface.name"),
    "direction": ("direction", "network.io.direction", "system.network.io.direction"),
}
"""By meaning: the attribute's names, the receiver's first, then those of the semantic conventions."""


class Value(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A value of an attribute; only text and whole numbers are read."""

    string_value: str = ""
    int_value: str | int = ""


class Attribute(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: Value = Value()


class DataPoint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    time_unix_nano: str | int
    start_time_unix_nano: str | int = 0
    attributes: list[Attribute] = []
    as_double: float | str | None = None
    as_int: str | int | None = None


class Data(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    data_points: list[DataPoint] = []
    aggregation_temporality: int | str = 2


class Metric(msgspec.Struct, frozen=True, gc=False):
    """One metric; other kinds than gauge and sum are ignored."""

    name: str
    gauge: Data | None = None
    sum: Data | None = None


class Scope(msgspec.Struct, frozen=True, gc=False):
    """The metrics of one scraper."""

    metrics: list[Metric] = []


class Resource(msgspec.Struct, frozen=True, gc=False):
    """The attributes of the machine that the metrics describe."""

    attributes: list[Attribute] = []


class ResourceMetrics(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource: Resource = Resource()
    scope_metrics: list[Scope] = []


class Metrics(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_metrics: list[ResourceMetrics]


_decoder = msgspec.json.Decoder(Metrics)


def read_points(raw: bytes, machine_key: str = "host.name") -> list[Point]:
    """Return the points of a message; ``machine_key`` is the resource attribute that names the machine.

    Raises UnreadableError for a message that is not OTLP metrics, or that names no machine.
    """
    try:
        # Protobuf begins with a line feed, and its second byte, a length, may be a brace.
        groups = (_decoder.decode(raw) if raw[:1] == b"{" else _message(Metrics, raw)).resource_metrics
        found = [point for group in groups for point in _of_machine(group, machine_key)]
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError, struct.error, TypeError) as error:
        raise UnreadableError(f"not OTLP's JSON or protobuf: {error}") from None
    if groups and not any(_text(group.resource.attributes, machine_key) for group in groups):
        raise UnreadableError(f"no resource has the attribute {machine_key}, which names the machine: --machine-key")
    return found


def _fields(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield the fields of a message in protobuf: number, and bytes or a whole number."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        wire, value = key & 7, 0
        if wire == 0:
            value, at = _varint(raw, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            size, at = _varint(raw, at)
        if size is None or at + size > len(raw):
            raise ValueError(f"a field of {size} bytes and kind {wire} at byte {at} of {len(raw)}")
        yield key >> 3, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(raw):
            break
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number without an end at byte {at} of {len(raw)}")


def _message(kind: type[Any], raw: bytes) -> Any:
    """Return a message in protobuf as the type into which JSON is decoded."""
    found: dict[str, Any] = {}
    for number, value in _fields(raw):
        if number in _PROTOBUF[kind]:
            name, read = _PROTOBUF[kind][number]
            if name.endswith("[]"):
                found.setdefault(name[:-2], []).append(read(value))
            else:
                found[name] = read(value)
    return kind(**found)


_fixed = partial(int.from_bytes, byteorder="little", signed=True)
_PROTOBUF: dict[type, dict[int, tuple[str, Callable[[Any], Any]]]] = {
    Metrics: {1: ("resource_metrics[]", partial(_message, ResourceMetrics))},
    ResourceMetrics: {1: ("resource", partial(_message, Resource)), 2: ("scope_metrics[]", partial(_message, Scope))},
    Resource: {1: ("attributes[]", partial(_message, Attribute))},
    Scope: {2: ("metrics[]", partial(_message, Metric))},
    Metric: {1: ("name", bytes.decode), 5: ("gauge", partial(_message, Data)), 7: ("sum", partial(_message, Data))},
    Data: {1: ("data_points[]", partial(_message, DataPoint)), 2: ("aggregation_temporality", int)},
    DataPoint: {
        2: ("start_time_unix_nano", _fixed),
        3: ("time_unix_nano", _fixed),
        4: ("as_double", lambda raw: struct.unpack("<d", raw)[0]),
        6: ("as_int", _fixed),
        7: ("attributes[]", partial(_message, Attribute)),
    },
    Attribute: {1: ("key", bytes.decode), 2: ("value", partial(_message, Value))},
    Value: {1: ("string_value", bytes.decode), 3: ("int_value", int)},
}
"""By type the fields to read: number, name with [] where it is repeated, and the function that reads it."""


def _of_machine(group: ResourceMetrics, machine_key: str) -> Iterator[Point]:
    machine = _text(group.resource.attributes, machine_key)
    if not machine:
        return
    told = any(metric.name == "system.memory.limit" for scope in group.scope_metrics for metric in scope.metrics)
    for scope in group.scope_metrics:
        for metric in scope.metrics:
            data = metric.sum or metric.gauge
            if data is None or metric.name not in _READERS:
                continue
            delta = data is metric.sum and data.aggregation_temporality in DELTA
            for point in _READERS[metric.name](machine, data.data_points):
                summed = point.quantity == "memory_total" and metric.name == "system.memory.usage"
                unusable = delta and point.quantity not in COUNTERS and point.quantity != "cores"
                if not (told and summed) and not unusable:
                    yield point._replace(delta=delta)


def _text(attributes: list[Attribute], key: str) -> str:
    return next((one.value.string_value or str(one.value.int_value) for one in attributes if one.key == key), "")


def _meant(point: DataPoint, what: str) -> str:
    return next(filter(None, (_text(point.attributes, name) for name in NAMES[what])), "")


def _value(point: DataPoint) -> float:
    if point.as_double is not None:
        return float(point.as_double)
    return math.nan if point.as_int is None else float(point.as_int)


def _times(point: DataPoint) -> tuple[float, float]:
    return int(point.time_unix_nano) / 1e9, int(point.start_time_unix_nano) / 1e9


def _cpu(machine: str, points: list[DataPoint]) -> Iterator[Point]:
    cores = defaultdict[tuple[str, float, float], dict[str, float]](dict)
    for one in points:
        cores[_meant(one, "core"), *_times(one)][_meant(one, "state")] = _value(one)
    idle = defaultdict[tuple[float, float], float](float)
    alone = all(state in IDLE for states in cores.values() for state in states)
    for (core, at, started), states in cores.items():
        if core:
            yield Point(machine, at, "cores", core, 1.0)
        if alone:
            idle[at, started] += sum(states.values())
        elif "idle" in states:
            busy = tuple(states[state] for state in sorted(states) if state not in IDLE)
            yield Point(machine, at, "cpu_busy_s", core, sum(busy), started, parts=busy)
            yield Point(machine, at, "cpu_total_s", core, sum(states.values()), started)
    for (at, started), value in idle.items():
        yield Point(machine, at, "cpu_idle_s", ALL_CORES, value, started)


def _utilization(machine: str, points: list[DataPoint]) -> Iterator[Point]:
    idle, busy, cores = defaultdict[float, float](float), defaultdict[float, float](float), Counter[float]()
    for one in points:
        state, (at, _) = _meant(one, "state"), _times(one)
        value = _value(one)
        (idle if state in IDLE else busy)[at] += value if value > -ROUNDING else math.nan
        cores[at] += state == "idle"
    for at, number in cores.items():
        total = busy[at] + idle[at] if at in busy else number
        yield Point(machine, at, "cpu_busy_share", "", 1 - idle[at] / total if number and total else math.nan)


def _memory(machine: str, points: list[DataPoint]) -> Iterator[Point]:
    moments = defaultdict[float, dict[str, float]](dict)
    for one in points:
        moments[_times(one)[0]][_meant(one, "state")] = _value(one)
    for at, states in moments.items():
        yield Point(machine, at, "memory_used", "", states.get("used", math.nan))
        if "free" in states:
            yield Point(machine, at, "memory_total", "", sum(states[state] for state in states.keys() & WHOLE))


def _each(quantity: Quantity, part: str, machine: str, points: list[DataPoint]) -> Iterator[Point]:
    for one in points:
        at, started = _times(one)
        yield Point(machine, at, quantity, _meant(one, part) if part else "", _value(one), started)


def _network(machine: str, points: list[DataPoint]) -> Iterator[Point]:
    for direction, quantity in _DIRECTIONS.items():
        chosen = [one for one in points if _meant(one, "direction") == direction]
        yield from _each(quantity, "device", machine, chosen)


_DIRECTIONS: dict[str, Quantity] = {"receive": "received", "transmit": "sent"}
_READERS: dict[str, Any] = {
    "system.cpu.time": _cpu,
    "system.cpu.logical.count": partial(_each, "cores", ""),
    "system.cpu.utilization": _utilization,
    "system.memory.usage": _memory,
    "system.memory.limit": partial(_each, "memory_total", ""),
    "system.network.io": _network,
    "system.disk.io_time": partial(_each, "disk_busy_s", "device"),
}
