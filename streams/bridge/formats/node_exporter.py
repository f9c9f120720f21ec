"""node_exporter's metrics: its page, or the samples of it that Prometheus keeps. Pure.

| metric | as |
|---|---|
| node_cpu_seconds_total | busy time of each core: all modes but idle and iowait; cores |
| node_memory_MemTotal_bytes, node_memory_MemAvailable_bytes | used is total less available |
| node_network_receive_bytes_total, node_network_transmit_bytes_total | per interface |
| node_network_speed_bytes | per interface, where it is above 0 |
| node_disk_io_time_seconds_total | busy time per disk |
| node_uname_info | the machine's name |

Others are ignored. A page has a thousand lines and more, of which this reads a few by a pattern: a reader of the whole
format takes twenty times as long, and one bridge may read hundreds of pages a second.

Format: Prometheus' text exposition format 0.0.4, and the answers of its HTTP API to a query of a range of samples.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from streams.bridge.formats.points import Point, Quantity, UnreadableError

CPU = "node_cpu_seconds_total"
TOTAL, AVAILABLE = "node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes"
UNAME = "node_uname_info"
BY_DEVICE: dict[str, Quantity] = {
    "node_network_receive_bytes_total": "received",
    "node_network_transmit_bytes_total": "sent",
    "node_network_speed_bytes": "nic_speed",
    "node_disk_io_time_seconds_total": "disk_busy_s",
}
METRICS = (CPU, TOTAL, AVAILABLE, UNAME, *BY_DEVICE)
IDLE = ("idle", "iowait")

_LINE = re.compile(rf"^({'|'.join(METRICS)})(?:\{{(.*)\}})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t\r]*$".encode(), re.MULTILINE)
_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Value(msgspec.Struct, frozen=True, gc=False):
    """One value of one metric."""

    metric: str
    labels: Mapping[str, str]
    value: float


def read_page(raw: bytes) -> list[Value]:
    """Return the values that a page has of `METRICS`.

    Raises UnreadableError for one without any of them, and for a number that is none.
    """
    found = []
    for metric, labels, value in _LINE.findall(raw):
        try:
            pairs = {key.decode(): _unescaped(text) for key, text in _LABEL.findall(labels)}
            found.append(Value(metric.decode(), pairs, float(value)))
        except ValueError:
            raise UnreadableError(f"{metric.decode()}: {value[:40]!r} is no number") from None
    if not any(one.metric == CPU for one in found):
        raise UnreadableError(f"no {CPU}: this is no page of node_exporter, or its collector cpu is off")
    return found


def _unescaped(text: bytes) -> str:
    found = text.decode()
    return found if "\\" not in found else found.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def name_of(values: Iterable[Value]) -> str:
    """Return the name that the machine gives itself; "" where it does not say it."""
    return next((one.labels.get("nodename", "") for one in values if one.metric == UNAME), "")


def points(machine: str, at: float, values: Iterable[Value]) -> list[Point]:
    """Return the points of one moment of one machine."""
    return [
        Point(machine, at, quantity, part, value)
        for quantity, part, value in _points(values)
        if math.isfinite(value) and value >= 0
    ]


def _points(values: Iterable[Value]) -> Iterator[tuple[Quantity, str, float]]:
    busy, total, memory = defaultdict[str, float](float), defaultdict[str, float](float), dict[str, float]()
    for one in values:
        if one.metric == CPU:
            core = one.labels.get("cpu", "")
            total[core] += one.value
            busy[core] += 0.0 if one.labels.get("mode") in IDLE else one.value
        elif one.metric in (TOTAL, AVAILABLE):
            memory[one.metric] = one.value
        elif one.metric in BY_DEVICE:
            yield BY_DEVICE[one.metric], one.labels.get("device", ""), one.value
    if total:
        yield "cores", "", float(len(total))
    for core in total:
        yield "cpu_busy_s", core, busy[core]
        yield "cpu_total_s", core, total[core]
    if TOTAL in memory:
        yield "memory_total", "", memory[TOTAL]
        yield "memory_used", "", memory[TOTAL] - memory.get(AVAILABLE, math.nan)


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


_answer = msgspec.json.Decoder(_Answer)


def query_of(selector: str, range_s: float) -> str:
    """Return the query for the samples of the last seconds.

    >>> query_of('job="node"', 45.0)[-16:]
    'job="node"}[45s]'
    """
    names = "|".join(METRICS)
    return f'{{__name__=~"{names}"{"," * bool(selector)}{selector}}}[{range_s:.0f}s]'


def read_answer(raw: bytes, machine_key: str, seen: dict[str, float]) -> tuple[list[Point], int]:
    """Return the points of an answer to `query_of` in the order of time, and how many targets have no name.

    ``machine_key``: the label that names the machine; "": the name that it gives itself, else ``instance`` without its
    port. ``seen``: by ``instance`` the newest scrape that was read before; it is brought up to date. All series of a
    target have the time of the scrape.

    Raises UnreadableError for an answer that is none, or says an error.
    """
    try:
        answer = _answer.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"not an answer of Prometheus' HTTP API: {error}") from None
    if answer.data is None or answer.status != "success":
        raise UnreadableError(f"Prometheus: {answer.error or answer.status}")
    names, moments = dict[str, str](), defaultdict[tuple[float, str], list[Value]](list)
    for series in answer.data.result:
        labels = series.metric
        instance, metric = labels.get("instance", ""), labels.get("__name__", "")
        if machine_key:
            names[instance] = labels.get(machine_key, "")
        elif metric == UNAME:
            names[instance] = labels.get("nodename", "")
        newest = seen.get(instance, -math.inf)
        for at, value in series.values:
            if at > newest:
                moments[at, instance].append(Value(metric, labels, float(value)))
    found, nameless = list[Point](), set[str]()
    for (at, instance), values in sorted(moments.items(), key=lambda one: one[0]):
        seen[instance] = at
        machine = names.get(instance) or ("" if machine_key else instance.rpartition(":")[0] or instance)
        if machine:
            found += points(machine, at, values)
        else:
            nameless.add(instance)
    return found, len(nameless)
