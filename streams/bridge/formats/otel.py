"""OpenTelemetry's messages: metrics of the collector's hostmetrics receiver in OTLP JSON. Pure.

    resourceMetrics > resource.attributes (host.name)
                    > scopeMetrics > metrics > name, gauge | sum > dataPoints > attributes, timeUnixNano, as...

| metric                 | attributes         | as                                                     |
|------------------------|--------------------|--------------------------------------------------------|
| system.cpu.time        | cpu, state         | busy and total time of each core; idle and wait are idle |
| system.memory.usage    | state              | used; the total is used, free, cached and buffered       |
| system.memory.limit    |                    | the total, where it is sent; the states add up to 1 % more |
| system.network.io      | device, direction  | per interface                                          |
| system.disk.io_time    | device             | per disk                                               |

Other metrics are ignored, and so are sums that are not cumulative. ``startTimeUnixNano`` shows that a counter was reset
even when it is above its old value.

Format: OTLP's JSON encoding (numbers of 64 bits are strings) and the documentation of the hostmetrics receiver.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from streams.bridge.formats.points import Point, Quantity, UnreadableError

CUMULATIVE = (2, "AGGREGATION_TEMPORALITY_CUMULATIVE")
IDLE = frozenset(("idle", "wait"))
WHOLE = frozenset(("used", "free", "cached", "buffered"))
"""States of memory that add up to the total; slabs are included in ``cached``."""


class Value(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A value of an attribute; only text is read."""

    string_value: str = ""


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """A key with its value."""

    key: str
    value: Value = Value()


class DataPoint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One measured value."""

    time_unix_nano: str | int
    start_time_unix_nano: str | int = 0
    attributes: list[Attribute] = []
    as_double: float | None = None
    as_int: str | int | None = None


class Data(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The points of a gauge or of a sum."""

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
    """The attributes of the machine that the metrics are of."""

    attributes: list[Attribute] = []


class ResourceMetrics(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metrics of one machine."""

    resource: Resource = Resource()
    scope_metrics: list[Scope] = []


class Metrics(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One message."""

    resource_metrics: list[ResourceMetrics]


_decoder = msgspec.json.Decoder(Metrics)


def read_points(raw: bytes, machine_key: str = "host.name") -> list[Point]:
    """Return the points of a message; ``machine_key`` is the resource attribute that names the machine.

    Raises UnreadableError for a message that is not OTLP JSON of metrics.
    """
    try:
        groups = _decoder.decode(raw).resource_metrics
        return [point for group in groups for point in _of_machine(group, machine_key)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, OverflowError) as error:
        raise UnreadableError(f"not OTLP's JSON: {error}") from None


def _of_machine(group: ResourceMetrics, machine_key: str) -> Iterator[Point]:
    machine = _text(group.resource.attributes, machine_key)
    if not machine:
        return
    told = any(metric.name == "system.memory.limit" for scope in group.scope_metrics for metric in scope.metrics)
    for scope in group.scope_metrics:
        for metric in scope.metrics:
            data = metric.sum or metric.gauge
            if data is None or metric.name not in _READERS or data.aggregation_temporality not in CUMULATIVE:
                continue
            for point in _READERS[metric.name](machine, data.data_points):
                summed = point.quantity == "memory_total" and metric.name == "system.memory.usage"
                if math.isfinite(point.value) and point.value >= 0 and not (told and summed):
                    yield point


def _text(attributes: list[Attribute], key: str) -> str:
    return next((one.value.string_value for one in attributes if one.key == key), "")


def _value(point: DataPoint) -> float:
    if point.as_double is not None:
        return point.as_double
    return math.nan if point.as_int is None else float(point.as_int)


def _times(point: DataPoint) -> tuple[float, float]:
    return int(point.time_unix_nano) / 1e9, int(point.start_time_unix_nano) / 1e9


def _cpu(machine: str, points: list[DataPoint]) -> Iterator[Point]:
    busy: dict[tuple[str, float, float], float] = defaultdict(float)
    total: dict[tuple[str, float, float], float] = defaultdict(float)
    for one in points:
        key = (_text(one.attributes, "cpu"), *_times(one))
        total[key] += _value(one)
        busy[key] += 0.0 if _text(one.attributes, "state") in IDLE else _value(one)
    for (core, at, started), value in total.items():
        yield Point(machine, at, "cpu_busy_s", core, busy[core, at, started], started)
        yield Point(machine, at, "cpu_total_s", core, value, started)
        if core:
            yield Point(machine, at, "cores", core, 1.0)


def _memory(machine: str, points: list[DataPoint]) -> Iterator[Point]:
    total: dict[float, float] = defaultdict(float)
    for one in points:
        state, (at, _) = _text(one.attributes, "state"), _times(one)
        if state in WHOLE:
            total[at] += _value(one)
        if state == "used":
            yield Point(machine, at, "memory_used", "", _value(one))
    for at, value in total.items():
        yield Point(machine, at, "memory_total", "", value)


def _each(quantity: Quantity, part: str, machine: str, points: list[DataPoint]) -> Iterator[Point]:
    for one in points:
        at, started = _times(one)
        yield Point(machine, at, quantity, _text(one.attributes, part) if part else "", _value(one), started)


def _network(machine: str, points: list[DataPoint]) -> Iterator[Point]:
    for direction, quantity in _DIRECTIONS.items():
        chosen = [one for one in points if _text(one.attributes, "direction") == direction]
        yield from _each(quantity, "device", machine, chosen)


_DIRECTIONS: dict[str, Quantity] = {"receive": "received", "transmit": "sent"}
_READERS: dict[str, Any] = {
    "system.cpu.time": _cpu,
    "system.memory.usage": _memory,
    "system.memory.limit": partial(_each, "memory_total", ""),
    "system.network.io": _network,
    "system.disk.io_time": partial(_each, "disk_busy_s", "device"),
}
