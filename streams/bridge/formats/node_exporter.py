"""node_exporter's metrics: its page, or the samples of it that Prometheus keeps. Pure.

| metric | as |
|---|---|
| node_cpu_seconds_total | busy time of each core: all modes but idle and iowait, or the rest of its idle time; cores |
| node_memory_MemTotal_bytes, node_memory_MemAvailable_bytes | used is total less available |
| node_network_receive_bytes_total, node_network_transmit_bytes_total | per interface |
| node_network_speed_bytes | per interface, where it is above 0 |
| node_network_info, node_network_flags, node_network_iface_id, node_network_iface_link, node_network_name_assign_type |
which interfaces count |
| node_disk_io_time_seconds_total | busy time per disk |
| node_uname_info | the machine's name |

Others are ignored. A page has a thousand lines and more, of which this reads a few by a pattern: a reader of the whole
format takes twenty times as long, and one bridge may read hundreds of pages a second.

Format: Prometheus' text exposition format 0.0.4, and the answers of its HTTP API to a query of a range of samples.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec

from streams.bridge.formats.interfaces import NOT_PHYSICAL, Interface, left_out
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
INFO = "node_network_info"
OF_LINKS = {
    "node_network_flags": "flags",
    "node_network_iface_id": "number",
    "node_network_iface_link": "link",
    "node_network_name_assign_type": "named",
}
METRICS = (CPU, TOTAL, AVAILABLE, UNAME, *BY_DEVICE, INFO, *OF_LINKS)
IDLE = ("idle", "iowait")
IDLE_S, CORES, SCRAPED_AT = "idle_s", "cores", "scraped_at"
"""Values that a query computes in addition: idle time and number of the cores, and the time of a scrape, epoch s."""

LINE_MAX = 65_536
"""The longest labels of a line that is read, bytes."""
_LINE = re.compile(
    rf"^({'|'.join(METRICS)})(?:\{{(.{{0,{LINE_MAX}}})\}})?[ \t]+(\S{{1,64}})(?:[ \t]+-?\d{{1,20}})?[ \t\r]*$".encode(),
    re.MULTILINE,
)
# A name begins where no name goes on, and a value is not given back: each is linear in the length of its line.
_LABEL = re.compile(rb'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*+)="((?:[^"\\]|\\.)*+)"')


class Value(msgspec.Struct, frozen=True, gc=False):
    metric: str
    labels: Mapping[str, str]
    value: float


def read_page(raw: bytes) -> list[Value]:
    """Return the values of `METRICS` on a page.

    A line with an invalid number or name is left out. Raises UnreadableError for a page with none of them, or with the
    name only.
    """
    found = []
    for metric, labels, value in _LINE.findall(raw):
        with suppress(ValueError):
            pairs = {key.decode(): _unescaped(text) for key, text in _LABEL.findall(labels)}
            found.append(Value(metric.decode(), pairs, float(value)))
    if all(one.metric == UNAME for one in found):
        raise UnreadableError(f"no {CPU}, no {TOTAL}: this is no page of node_exporter")
    return found


def _unescaped(text: bytes) -> str:
    found = text.decode()
    return found if "\\" not in found else found.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def name_of(values: Iterable[Value]) -> str:
    """Return the machine's own name on the page; "" without one."""
    return next((one.labels.get("nodename", "") for one in values if one.metric == UNAME), "")


def points(
    machine: str, at: float, values: Iterable[Value], source: str = "", excluded: str = NOT_PHYSICAL
) -> list[Point]:
    """Return the points of one moment of one machine; ``excluded``: the rule of names."""
    return [
        Point(machine, at, quantity, part, value, source=source, parts=tuple(parts))
        for quantity, part, value, *parts in _points(values, excluded)
    ]


def interfaces(values: Iterable[Value]) -> dict[str, Interface]:
    """Return by name the metrics of the interfaces that have traffic."""
    found = defaultdict[str, Interface](Interface)
    counted = set[str]()
    for one in values:
        if one.metric == INFO:
            link = found[one.labels.get("device", "")]
            link.address, link.operstate = one.labels.get("address", ""), one.labels.get("operstate", "")
        elif one.metric in OF_LINKS and math.isfinite(one.value):
            setattr(found[one.labels.get("device", "")], OF_LINKS[one.metric], int(one.value))
        elif BY_DEVICE.get(one.metric) == "nic_speed":
            found[one.labels.get("device", "")].speed = one.value
        elif BY_DEVICE.get(one.metric) == "received":
            counted.add(one.labels.get("device", ""))
    return {name: found[name] for name in sorted(counted)}


def _points(values: Iterable[Value], excluded: str) -> Iterator[tuple[Any, ...]]:
    modes, single = defaultdict[str, dict[str, float]](dict), dict[str, float]()
    values = list(values)
    links = interfaces(values)
    out = left_out(links, excluded)
    for name, link in links.items():
        if name not in out:
            yield "nic_told", name, float(bool(link.address or link.flags or link.number))
    for one in values:
        if one.metric == CPU:
            modes[one.labels.get("cpu", "")][one.labels.get("mode", "")] = one.value
        elif one.metric in (IDLE_S, CORES, TOTAL, AVAILABLE):
            single[one.metric] = one.value
        elif one.metric in BY_DEVICE:
            quantity, device = BY_DEVICE[one.metric], one.labels.get("device", "")
            if (device not in out or quantity == "disk_busy_s") and (quantity != "nic_speed" or one.value > 0):
                yield quantity, device, one.value
    idle_s, cores = single.get(IDLE_S, math.nan), single.get(CORES, 0.0)
    counted = {core: each for core, each in modes.items() if "idle" in each}
    if counted and all(mode in IDLE for each in counted.values() for mode in each):
        idle_s, cores, counted = sum(sum(each.values()) for each in counted.values()), float(len(counted)), {}
    if counted or cores:
        yield "cores", "", cores or float(len(counted))
        # The idle time of other cores than before is another counter: the difference of both means nothing.
        yield "cpu_idle_s", f"{cores:.0f} cores", idle_s
    for core, each in counted.items():
        busy = [value for mode, value in each.items() if mode not in IDLE]
        yield "cpu_busy_s", core, sum(busy), *busy
        yield "cpu_total_s", core, sum(each.values())
    if TOTAL in single:
        yield "memory_total", "", single[TOTAL]
        yield "memory_used", "", single[TOTAL] - single.get(AVAILABLE, math.nan)


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: Literal["vector"]
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: Literal["success", "error"]
    data: _Data | None = None
    error: str = ""


class Scrape(msgspec.Struct, frozen=True, gc=False):
    """The newest scrape of one target that Prometheus stores."""

    target: str
    at: float
    machine: str
    """"" where the target lacks the label that names its machine."""
    values: list[Value]


_answer = msgspec.json.Decoder(_Answer)
_OWN_LABELS = {
    UNAME: ("domainname", "machine", "nodename", "release", "sysname", "version"),
    INFO: ("address", "adminstate", "broadcast", "device", "duplex", "ifalias", "operstate"),
}
_KIND = "windward"


def query_of(selector: str) -> str:
    """Return the query for the newest values of all targets, with the time of their scrapes.

    Prometheus sums only the idle time of a machine's cores, since reading a series costs it 10 us. So all eight modes
    of 64 cores take four times as long (2.42, busy machine). The answer has 4 kB a machine with four interfaces and
    disks: 20 MB for 5,000, where the samples of each core were 450 to 690. Metrics that decide which interfaces count
    add an estimated half.

    ``without`` keeps all labels of a target: one that is scraped by two jobs is two targets, and its cores are not
    added up. One query, since Prometheus commits a scrape as a whole: with two queries, the second might see a newer
    one.
    """
    more = f",{selector}" if selector else ""
    others = "|".join(name for name in METRICS if name != CPU)
    idle = "|".join(IDLE)
    computed = {
        IDLE_S: f'sum without (cpu, mode) ({CPU}{{mode=~"{idle}"{more}}})',
        CORES: f'count without (cpu, mode) ({CPU}{{mode="idle"{more}}})',
        SCRAPED_AT: f'max without (cpu, mode) (timestamp({{__name__=~"{CPU}|{TOTAL}",cpu=~"0|",mode=~"idle|"{more}}}))',
    }
    parts = [f'label_replace({what}, "{_KIND}", "{name}", "", "")' for name, what in computed.items()]
    parts.append(f'{{__name__=~"{others}"{more}}}')
    return " or ".join(parts)


def read_answer(raw: bytes, machine_key: str) -> list[Scrape]:
    """Return the targets of an answer to `query_of`.

    ``machine_key``: the label that names the machine; "": the host's own name, else ``instance`` without its port.
    Series belong to one target if all labels except those of the metric itself are equal.

    Raises UnreadableError for an invalid answer, or an error.
    """
    try:
        answer = _answer.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"not an answer of Prometheus' HTTP API: {error}") from None
    if answer.data is None or answer.status != "success":
        raise UnreadableError(f"Prometheus: {answer.error or answer.status}")
    labels, found, times = dict[str, dict[str, str]](), defaultdict[str, list[Value]](list), dict[str, float]()
    for series in answer.data.result:
        metric, own, others = _of_target(series.metric)
        target = ",".join(f"{key}={others[key]}" for key in sorted(others))
        labels[target] = others
        try:
            value = float(series.value[1])
        except ValueError:
            continue
        if metric == SCRAPED_AT:
            times[target] = value
        else:
            found[target].append(Value(metric, own, value))
    return [
        Scrape(target, times[target], _machine(labels[target], values, machine_key), values)
        for target, values in sorted(found.items())
        if target in times
    ]


def _of_target(labels: dict[str, str]) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the metric, its own labels, and the labels of the target."""
    others = dict(labels)
    name = others.pop("__name__", "")
    metric = others.pop(_KIND, name)
    own = {}
    for label in _OWN_LABELS.get(metric, ("device",) if metric in BY_DEVICE or metric in OF_LINKS else ()):
        # Prometheus puts "exported_" before a metric's label that its target has, too.
        value = others.pop(f"exported_{label}", None)
        own[label] = others.pop(label, "") if value is None else value
    return metric, own, others


def _machine(labels: Mapping[str, str], values: Iterable[Value], machine_key: str) -> str:
    if machine_key:
        return labels.get(machine_key, "")
    instance = labels.get("instance", "")
    return name_of(values) or instance.rpartition(":")[0] or instance
