"""Telegraf's messages: its ``json`` output format, one metric a message or many under ``metrics``. Pure.

    {"name":"cpu", "tags": {"cpu": "cpu-total", "host": "db1"}, "fields": {"usage_idle": 97.5}, "timestamp": 1795000000}

| metric | fields used                                             | as                                              |
|--------|---------------------------------------------------------|-------------------------------------------------|
| cpu    | time_*, else usage_idle, usage_iowait or usage_active   | busy time of ``cpu-total``, the other ones count |
| system | n_cpus                                                  | cores                                           |
| mem    | total, available                                        | used is total less available                    |
| net    | bytes_recv, bytes_sent; speed in Mbit/s if it is sent   | per interface                                   |
| diskio | io_time in ms                                           | per disk                                        |

Other metrics are ignored. ``json_timestamp_units`` may be any: the unit of a time is derived from its size.

Format: the documentation of Telegraf's JSON serializer and of its cpu, mem, net, diskio and system inputs.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from streams.bridge.formats.points import ALL_CORES, ROUNDING, Point, UnreadableError


class Metric(msgspec.Struct, frozen=True, gc=False):
    """One metric as Telegraf serializes it; unknown keys are ignored."""

    name: str
    fields: dict[str, Any]
    timestamp: float
    tags: dict[str, str] = {}


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Many metrics in one message."""

    metrics: list[Metric]


_one = msgspec.json.Decoder(Metric)
_many = msgspec.json.Decoder(Batch)

BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
IDLE = ("idle", "iowait")


def read_points(raw: bytes, machine_key: str = "host") -> list[Point]:
    """Return the points of a message; ``machine_key`` is the tag that names the machine.

    Raises UnreadableError for a message that is not Telegraf's JSON.
    """
    try:
        metrics = _many.decode(raw).metrics if raw.lstrip()[:10].startswith(b'{"metrics"') else [_one.decode(raw)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"not Telegraf's JSON: {error}") from None
    metrics = [metric for metric in metrics if metric.name in _READERS]
    if metrics and not any(metric.tags.get(machine_key) for metric in metrics):
        raise UnreadableError(f"no metric has the tag {machine_key}, which names the machine: --machine-key")
    return [
        Point(machine, epoch_s(metric.timestamp), quantity, part, value, parts=tuple(parts))
        for metric in metrics
        if (machine := metric.tags.get(machine_key))
        for quantity, part, value, *parts in _READERS[metric.name](metric)
    ]


def epoch_s(timestamp: float) -> float:
    """Return a time in seconds, whatever its unit: s, ms, µs or ns.

    >>> [epoch_s(1790000000 * scale) for scale in (1, 1e3, 1e6, 1e9)]
    [1790000000.0, 1790000000.0, 1790000000.0, 1790000000.0]
    """
    for scale in (1.0, 1e3, 1e6):
        if abs(timestamp) < 1e11 * scale:
            return timestamp / scale
    return timestamp / 1e9


Found = Iterator[tuple[Any, ...]]


def _number(metric: Metric, field: str) -> float:
    value = metric.fields.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)  # one of 400 digits is no float
    return math.nan


def _cpu(metric: Metric) -> Found:
    core = metric.tags.get("cpu", "cpu-total")
    if core != "cpu-total":
        yield "cores", core, 1.0
        return
    seconds = {name: _number(metric, f"time_{name}") for name in BUSY + IDLE}
    if not math.isnan(seconds["idle"]):
        busy, idle = ([seconds[name] for name in names if not math.isnan(seconds[name])] for names in (BUSY, IDLE))
        if math.isnan(seconds["user"] + seconds["system"]):  # idle time alone: the rest of the cores' time is busy
            yield "cpu_idle_s", ALL_CORES, sum(idle)
            return
        yield "cpu_busy_s", ALL_CORES, sum(busy), *busy
        yield "cpu_total_s", ALL_CORES, sum(busy + idle)
        return
    waiting, idle_percent = _number(metric, "usage_iowait"), _number(metric, "usage_idle")
    share = 1.0 - (idle_percent + (0.0 if math.isnan(waiting) else waiting)) / 100
    if math.isnan(idle_percent):
        share = _number(metric, "usage_active") / 100
    fell = [part for name in (*BUSY, "iowait") if (part := _number(metric, f"usage_{name}") / 100) < -ROUNDING]
    share = min(fell, default=share)
    yield "cpu_busy_share", "", share if not -ROUNDING < share < 0 else 0.0


def _system(metric: Metric) -> Found:
    yield "cores", "", _number(metric, "n_cpus")


def _mem(metric: Metric) -> Found:
    total = _number(metric, "total")
    yield "memory_total", "", total
    yield "memory_used", "", total - _number(metric, "available")


def _net(metric: Metric) -> Found:
    interface = metric.tags.get("interface", "")
    yield "received", interface, _number(metric, "bytes_recv")
    yield "sent", interface, _number(metric, "bytes_sent")
    if (speed := _number(metric, "speed")) > 0:
        yield "nic_speed", interface, speed * 1e6 / 8


def _diskio(metric: Metric) -> Found:
    yield "disk_busy_s", metric.tags.get("name", ""), _number(metric, "io_time") / 1000


_READERS = {"cpu": _cpu, "system": _system, "mem": _mem, "net": _net, "diskio": _diskio}
