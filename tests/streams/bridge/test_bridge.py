"""Another agent's messages as samples: what real agents wrote, and two made by hand with a reboot in each.

``telegraf-1.37.2.jsonl``: Telegraf itself, six collections of a virtual machine of 2 cores, 10 s apart.
``otel-0.145.0.jsonl``: the OpenTelemetry collector itself on the same machine, seven collections, 10 s apart, with
``system.memory.limit``; each scraper's metrics are a message.
``telegraf.jsonl``: six collections, 10 s apart, of a host of 4 cores and 16 GB; before the fifth it was rebooted.
``otel.jsonl``: five collections, 60 s apart, of 2 cores; before the fourth the counters began again, and have overtaken
their old values, which only ``startTimeUnixNano`` tells.
"""

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import MachineFacts, Message, Sample, decode, encode
from streams.bridge.formats import assembler as assembler_module
from streams.bridge.formats import otel, telegraf
from streams.bridge.formats.assembler import Assembler
from streams.bridge.formats.points import Point, UnreadableError

HERE = Path(__file__).parent
T = 1_795_000_000
READERS = {"telegraf": telegraf.read_points, "otel": otel.read_points}


def recording(agent):
    return (HERE / f"{agent}.jsonl").read_bytes().splitlines()


def bridge(agent, messages, **settings):
    """What is published of messages that come one after the other."""
    assembler = Assembler(T, **settings)
    done = []
    for number, raw in enumerate(messages):
        done += assembler.take(READERS[agent](raw), float(number))
    return done + assembler.flush(1e6)


def samples(found):
    """The samples alone, as the stream app would read them."""
    return [one for one in (decode(encode(message)) for message in found) if isinstance(one, Sample)]


def test_what_telegraf_wrote_becomes_samples():
    """All resources but the NIC, whose speed a virtual machine does not tell, at the times of the collections."""
    made = samples(bridge("telegraf", recording("telegraf-1.37.2")))
    assert [(one.machine, one.interval_s) for one in made] == [("vm", 10.0)] * 5
    assert [one.at - made[0].at for one in made] == [0, 10, 20, 30, 40]
    assert all(one.nic is None for one in made)
    for one in made:
        assert (one.cpu.capacity, one.memory.capacity, one.disk.capacity) == (2, 25276510208, 1)
        assert 1.8 < one.cpu.mean <= 2  # it was busy
        assert 0 <= one.disk.mean < 0.1
    assert made[0].memory.mean == 25276510208 - 23712788480


def test_what_the_collector_wrote_becomes_samples():
    """Its messages, one a scraper, make one reading; the memory's total is what it says, not the sum of the states."""
    made = samples(bridge("otel", recording("otel-0.145.0"), nic_speed=1.25e9))
    assert [(one.machine, round(one.interval_s)) for one in made] == [("vm", 10)] * 6
    for one in made:
        assert one.cpu and one.memory and one.disk and one.nic
        assert (one.cpu.capacity, one.memory.capacity, one.nic.capacity) == (2, 25276510208, 1.25e9)
        assert 1.8 < one.cpu.mean <= 2
        assert one.nic.mean < 1000  # all traffic was on the loopback


def test_names_that_come_and_go_do_not_add_up(monkeypatch):
    """An interface of another name in each collection: the oldest are forgotten and counted, the others are used."""
    monkeypatch.setattr(assembler_module, "PARTS_MAX", 8)
    assembler = Assembler(T, nic_speed=1e9)
    done = []
    for number in range(30):
        for part, value in (("eth0", 1e7 * number), (f"pod{number}", 5.0)):
            for quantity in ("received", "sent"):
                point = Point("m", T + 10.0 * number, quantity, part, value)
                done += assembler.take([point], float(number))
        done += assembler.take([Point("m", T + 10.0 * number, "nic_speed", f"pod{number}", 1e9)], float(number))
    machine = assembler._machines["m"]
    assert (len(machine.before), len(machine.known)) == (8, 8)
    assert assembler.counts["forgotten"] == (29 * 2 + 2 - 8) + (29 - 8)
    assert [one.nic.mean for one in samples(done) if one.nic] == pytest.approx([1e6] * 28)


def test_parts_beyond_the_most_are_counted(monkeypatch):
    monkeypatch.setattr(assembler_module, "PARTS_MAX", 8)
    assembler = Assembler(T)
    assembler.take([Point("m", T + 0.0, "disk_busy_s", f"d{number}", 0.0) for number in range(20)] * 2, 0.0)
    assert assembler.counts == {"used": 16, "too-many": 24}


def test_telegraf_becomes_samples():
    """Each collection is one reading: rates between two, memory as it stands; veth, loop and other metrics are out."""
    found = bridge("telegraf", recording("telegraf"))
    facts = [one for one in found if isinstance(one, MachineFacts)]
    assert [one.machine for one in facts] == ["db1.example.org"]
    made = samples(found)
    assert [(one.seq, one.at, one.interval_s) for one in made] == [(n, T + 10.0 * (n + 1), 10.0) for n in range(5)]
    assert [one.cpu.mean for one in made if one.cpu] == pytest.approx([1.0, 2.0, 0.4, 1.0, 2.0])
    assert [one.memory.mean for one in made if one.memory] == pytest.approx([4.5e9, 5e9, 5.5e9, 6e9, 6.5e9])
    assert [one.nic.mean for one in made if one.nic] == pytest.approx([1e6, 5e6, 1e6, 3e5, 1e6])
    assert [one.disk.mean for one in made if one.disk] == pytest.approx([0.2, 0.5, 0.05, 0.1, 0.1])
    last = made[-1]
    assert (last.cpu.capacity, last.memory.capacity, last.nic.capacity, last.disk.capacity) == (4, 16e9, 1.25e8, 1)
    assert {one.n for one in (last.cpu, last.memory, last.nic, last.disk)} == {1}


def renamed(names, states=None):
    """Change the names of attributes, and states; a number of a core is a whole number where its name says so."""

    def change(metric):
        for attribute in [one for point in points_of(metric) for one in point.get("attributes", [])]:
            key, value = names.get(attribute["key"], attribute["key"]), attribute["value"]["stringValue"]
            attribute["key"] = key
            attribute["value"] = {"stringValue": (states or {}).get(value, value)}
            if key.endswith("logical_number"):
                attribute["value"] = {"intValue": value.removeprefix("cpu")}

    return change


def points_of(metric):
    return (metric.get("sum") or metric.get("gauge"))["dataPoints"]


def without_cores(metric):
    """Sum the time over the cores, as the receiver does since June 2026."""
    if metric["name"] == "system.cpu.time":
        found = {}
        for point in points_of(metric):
            (state,) = [one for one in point["attributes"] if one["key"] == "state"]
            one = found.setdefault(state["value"]["stringValue"], {**point, "attributes": [state], "asDouble": 0.0})
            one["asDouble"] += point["asDouble"]
        metric["sum"]["dataPoints"] = [*found.values()]


def with_count(metric):
    """Add the number of cores, beside the time of the CPU."""
    if metric["name"] != "system.cpu.time":
        return []
    point = {"timeUnixNano": points_of(metric)[0]["timeUnixNano"], "asInt": "2"}
    return [{"name": "system.cpu.logical.count", "sum": {"dataPoints": [point], "aggregationTemporality": 2}}]


class Deltas:
    """Make rises of counters, as the processor cumulativetodelta does; ``started``: whether they say since when."""

    def __init__(self, temporality, started):
        self.temporality, self.started = temporality, started
        self.before = {}

    def __call__(self, metric):
        if not metric.get("sum", {}).get("isMonotonic"):
            return
        metric["sum"]["aggregationTemporality"] = self.temporality
        kept = []
        for point in points_of(metric):
            key = json.dumps([metric["name"], point["attributes"]])
            before, self.before[key] = self.before.get(key), dict(point)
            if before is None:
                continue
            value = "asInt" if "asInt" in point else "asDouble"
            rise = float(point[value]) - float(before[value])
            point[value] = str(int(rise)) if value == "asInt" else rise
            point["startTimeUnixNano"] = before["timeUnixNano"] if self.started else "0"
            kept.append(point)
        metric["sum"]["dataPoints"] = kept


def utilization(metric):
    """Send shares in place of times, each core's of the whole time since the machine began."""
    if metric["name"] == "system.cpu.time":
        total = sum(point["asDouble"] for point in points_of(metric))
        for point in points_of(metric):
            point["asDouble"] /= total
        metric["name"], metric["gauge"] = "system.cpu.utilization", metric.pop("sum")


SEMCONV = {"cpu": "cpu.logical_number", "device": "network.interface.name", "direction": "network.io.direction"}
OF_2024 = {"cpu": "system.cpu.logical_number", "device": "system.device", "direction": "network.io.direction"}
OTEL_AS_IT_IS = {
    "as until June 2026": ([], False),
    "as since June 2026": ([lambda: without_cores], True),
    "since June 2026, cores asked for": ([], True),
    "semantic conventions": (
        [lambda: renamed({**SEMCONV, "state": "cpu.mode"}, {"wait": "iowait", "buffered": "buffers"})],
        False,
    ),
    "semantic conventions, no cores": (
        [lambda: without_cores, lambda: renamed({**SEMCONV, "state": "cpu.mode"}, {"wait": "iowait"})],
        True,
    ),
    "semantic conventions of 2024, CPU": ([lambda: renamed({**OF_2024, "state": "system.cpu.state"})], False),
    "semantic conventions of 2024, memory": ([lambda: renamed({**OF_2024, "state": "system.memory.state"})], False),
    "deltas": ([lambda: Deltas(1, True)], False),
    "deltas, no cores": ([lambda: without_cores, lambda: Deltas(1, True)], True),
    "deltas, named in words": ([lambda: Deltas("AGGREGATION_TEMPORALITY_DELTA", True)], False),
    "deltas without a start": ([lambda: Deltas(1, False)], False),
}
"""Real messages of 0.145.0, changed to what other versions and settings of the collector write. Sources: documentation
of hostmetricsreceiver's scrapers and pull requests 49162, 49325 (opentelemetry-collector-contrib);
docs/system/system-metrics.md of semantic-conventions, v1.21 to main; README of cumulativetodeltaprocessor."""


@pytest.mark.parametrize("changes, count", OTEL_AS_IT_IS.values(), ids=OTEL_AS_IT_IS)
def test_the_collector_of_other_versions_says_the_same(changes, count):
    """Each resource of each collection, as from the recording itself."""
    made = [make() for make in changes]
    messages = []
    for raw in recording("otel-0.145.0"):
        message = json.loads(raw)
        for scope in [scope for group in message["resourceMetrics"] for scope in group["scopeMetrics"]]:
            scope["metrics"] += [more for metric in scope["metrics"] for more in with_count(metric) if count]
            for metric in scope["metrics"]:
                for change in made:
                    change(metric)
        messages.append(json.dumps(message).encode())
    wanted = samples(bridge("otel", recording("otel-0.145.0"), nic_speed=1.25e9))
    found = samples(bridge("otel", messages, nic_speed=1.25e9))
    # Of deltas without a start the first collection with any is the first point of a counter.
    wanted, found = wanted[1:], found[-len(wanted) + 1 :]
    for one, other in zip(wanted, found, strict=True):
        for resource in ("cpu", "memory", "nic", "disk"):
            a, b = getattr(one, resource), getattr(other, resource)
            assert b is not None, resource
            assert (b.capacity, b.mean) == (a.capacity, pytest.approx(a.mean, rel=1e-6, abs=1e-9)), resource


def kept(metric, name, *states):
    if metric["name"] == name:
        data = metric.get("sum") or metric["gauge"]
        data["dataPoints"] = [
            one for one in data["dataPoints"]
            if any(each["key"] == "state" and each["value"]["stringValue"] in states for each in one["attributes"])
        ]  # fmt: skip


def first_value(metric, name, value):
    """Replace the value of a metric's first point."""
    if metric["name"] == name:
        points_of(metric)[0].pop("asInt", None)
        points_of(metric)[0]["asDouble"] = value


def stolen(metric):
    """Have stolen time fall by 0.4 s a second, and its share be below 0."""
    for point in points_of(metric) if metric["name"].startswith("system.cpu") else ():
        if point["attributes"][1]["value"]["stringValue"] == "steal":
            passed_s = int(point["timeUnixNano"]) / 1e9 - T
            point["asDouble"] = 1e6 - 0.4 * passed_s if metric["name"] == "system.cpu.time" else -0.1


def no_limit(metric):
    """Leave the memory's total out, as by default."""
    if metric["name"] == "system.memory.limit":
        metric["name"] = "system.memory.page_size"


OTEL_IN_PART = {
    # name: changes of each metric, the resource without a reading. The first five: filterprocessor drops data points
    "idle time alone": ((lambda m: kept(m, "system.cpu.time", "idle"),), ""),
    "no idle time": ((lambda m: kept(m, "system.cpu.time", "user", "system", "wait"),), "cpu"),
    "idle share alone": ((utilization, lambda m: kept(m, "system.cpu.utilization", "idle")), ""),
    "no idle share": ((utilization, lambda m: kept(m, "system.cpu.utilization", "user", "system")), "cpu"),
    "stolen time that falls": ((stolen,), "cpu"),
    "stolen time that falls, as deltas": ((stolen, Deltas(1, True)), "cpu"),
    "stolen share below 0": ((utilization, stolen), "cpu"),
    "used memory alone": ((no_limit, lambda m: kept(m, "system.memory.usage", "used")), "memory"),
    # protobuf.dev, ProtoJSON: NaN and infinities are strings
    "NaN": ((lambda m: first_value(m, "system.disk.io_time", "NaN"),), "disk"),
    "Infinity beside others": ((lambda m: first_value(m, "system.network.packets", "-Infinity"),), ""),
    "more memory than there is": ((lambda m: first_value(m, "system.memory.usage", 4e10),), "memory"),
}


@pytest.mark.parametrize("changes, lacking", OTEL_IN_PART.values(), ids=OTEL_IN_PART)
def test_what_the_collector_leaves_out_is_never_zero(changes, lacking):
    """A resource that cannot be known has no reading and is told; the others are as ever."""
    assembler, done = Assembler(T, nic_speed=1.25e9, cores=2.0), list[Message]()
    for number, raw in enumerate(recording("otel-0.145.0")):
        message = json.loads(raw)
        for group in message["resourceMetrics"]:
            for metric in [one for scope in group["scopeMetrics"] for one in scope["metrics"]]:
                for change in changes:
                    change(metric)
        done += assembler.take(otel.read_points(json.dumps(message).encode()), float(number))
    made = samples(done + assembler.flush(1e6))
    for one in made:
        assert [name for name in ("cpu", "memory", "nic", "disk") if getattr(one, name) is None] == [lacking] * bool(
            lacking
        )
        assert one.cpu is None or one.cpu.mean > 1.5
    assert [resource for _, resource, _ in assembler.lacking] == [lacking] * bool(lacking)


def test_protobuf_says_what_json_says():
    """One collection, a message a scraper, written by the protobuf library; cut anywhere it is refused."""
    packed = [bytes.fromhex(line) for line in (HERE / "otel-0.145.0.pb.hex").read_text().split()]
    plain = recording("otel-0.145.0")[: len(packed)]
    assert [otel.read_points(raw) for raw in packed] == [otel.read_points(raw) for raw in plain]
    assert sum(len(otel.read_points(raw)) for raw in packed) == 17
    for end in range(1, len(packed[1])):
        with pytest.raises(UnreadableError):
            otel.read_points(packed[1][:end])


def test_a_message_that_names_no_machine_is_told():
    """Nothing would be read, without a word: no processor resourcedetection; Telegraf's ``omit_hostname``."""
    raw = recording("otel-0.145.0")[0].replace(b"host.name", b"service.name")
    with pytest.raises(UnreadableError, match=r"host\.name.*--machine-key"):
        otel.read_points(raw)
    assert otel.read_points(b'{"resourceMetrics":[]}') == []
    metric = {"name": "mem", "tags": {"hostname": "m"}, "fields": {"total": 5, "available": 2}, "timestamp": T}
    with pytest.raises(UnreadableError, match=r"tag host, .*--machine-key"):
        telegraf.read_points(json.dumps(metric).encode())
    assert telegraf.read_points(json.dumps(metric | {"name": "postgresql"}).encode()) == []


@pytest.mark.parametrize("agent", READERS)
@pytest.mark.parametrize("key", [rb"[sS]tamp\"", rb"(?<!stamp)\""], ids=["times", "values"])
def test_a_number_of_400_digits_is_refused_or_none(agent, key):
    for raw in recording(agent):
        with contextlib.suppress(UnreadableError):
            READERS[agent](re.sub(key + rb":\s*\d+", lambda one: one[0] + b"0" * 400, raw))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(raw):
    with contextlib.suppress(UnreadableError):
        otel.read_points(b"\n" + raw)


def test_otel_becomes_samples_of_a_minute():
    """What is measured once a minute says so by its interval and n; a counter that began again counts from 0."""
    made = samples(bridge("otel", recording("otel"), nic_speed=1.25e9))
    assert [round(one.interval_s) for one in made] == [60] * 4
    assert [one.at for one in made] == pytest.approx([T + 60.0 * (n + 1) + 0.012 for n in range(4)])
    assert [one.cpu.mean for one in made if one.cpu] == pytest.approx([0.5, 1.0, 2 * 150 / 1150, 0.5])
    assert [one.memory.mean for one in made if one.memory] == [3e9] * 4
    assert [one.memory.capacity for one in made if one.memory] == [8e9] * 4
    assert [one.nic.mean for one in made if one.nic] == pytest.approx([1e6, 1e6, 131e6 / 60, 1e6])
    assert [one.disk.mean for one in made if one.disk] == pytest.approx([0.1, 0.5, 1.0, 0.05])
    assert {one.cpu.n for one in made if one.cpu} == {1}


def test_an_interface_of_unknown_speed_is_left_out_alone():
    """A second port without a cable has no speed; the first one counts as before."""
    assembler, done = Assembler(T), list[Message]()
    for number in range(3):
        at = T + 10.0 * number
        found = [Point("m", at, "nic_speed", "eth0", 1.25e8)]
        for part, rate in (("eth0", 1e7), ("eth1", 5e8)):
            found += [Point("m", at, "received", part, rate * number), Point("m", at, "sent", part, 0.0)]
        done += assembler.take(found, float(number))
    made = samples(done + assembler.flush(1e6))
    assert [(one.nic.mean, one.nic.capacity) for one in made if one.nic] == [(1e6, 1.25e8)] * 2


def test_a_longer_interval_holds_several_readings():
    """Two collections of 10 s in a sample of 20 s: n is 2, mean and maximum are theirs."""
    first, second = samples(bridge("telegraf", recording("telegraf"), interval_s=20.0))[:2]
    assert (first.interval_s, first.at) == (20.0, T + 20.0)
    assert (first.cpu.n, first.cpu.mean, first.cpu.max) == (2, pytest.approx(1.5), pytest.approx(2.0))
    assert second.at == T + 40.0


def test_a_batch_is_its_metrics():
    """Telegraf may put many metrics into one message, and write its times in ms."""
    whole = [json.loads(line) for line in recording("telegraf")]
    for metric in whole:
        metric["timestamp"] *= 1000
    batch = [json.dumps({"metrics": whole[n : n + 25]}).encode() for n in range(0, len(whole), 25)]
    assert samples(bridge("telegraf", batch)) == samples(bridge("telegraf", recording("telegraf")))


def test_metrics_of_a_collection_come_in_any_order():
    lines = recording("telegraf")
    size = len(lines) // 6
    mixed = [line for n in range(6) for line in [*lines[n * size : (n + 1) * size]][::-1] * 2]
    assert samples(bridge("telegraf", mixed)) == samples(bridge("telegraf", lines))


def test_what_is_older_than_what_was_used_is_late():
    """A collection read again changes nothing and is counted."""
    assembler = Assembler(T)
    for raw in recording("telegraf"):
        assembler.take(telegraf.read_points(raw), 0.0)
    assembler.flush(1e6)
    used = assembler.counts["used"]
    again = [assembler.take(telegraf.read_points(raw), 1e6) for raw in recording("telegraf")]
    assert not any(again)
    assert assembler.counts["used"] == used
    assert assembler.counts["late"] > 0


def test_one_time_of_the_future_does_not_silence_a_machine():
    """It is refused and counted; the collections beside it are used as ever."""
    assembler = Assembler(T)
    ahead = {"name": "mem", "tags": {"host": "db1.example.org"}, "fields": {"total": 5, "available": 2}}
    assembler.take(telegraf.read_points(json.dumps(ahead | {"timestamp": T + 900}).encode()), 0.0, T + 100.0)
    done = [one for raw in recording("telegraf") for one in assembler.take(telegraf.read_points(raw), 0.0, T + 100.0)]
    assert assembler.counts["refused"] == 2
    assert len(samples(done)) == 4


def test_a_machine_whose_name_cannot_be_one_is_counted():
    assembler = Assembler(T)
    metric = {"name": "mem", "tags": {"host": "a b\n"}, "fields": {"total": 5, "available": 2}, "timestamp": T}
    assembler.take(telegraf.read_points(json.dumps(metric).encode()), 0.0)
    assert assembler.counts == {"refused": 2}


NO_FORMAT = [b"", b"cpu,host=a usage_idle=3 17", b"[]", b'{"name": 1}', b'{"metrics": 3}', b"\xff\xfe", b"[" * 10_000]


@pytest.mark.parametrize("raw", [*NO_FORMAT, b'{"resourceMetrics": [{"scopeMetrics": 1}]}'])
def test_what_is_not_the_format_is_one_error(raw):
    for read in READERS.values():
        with pytest.raises(UnreadableError):
            read(raw)


@pytest.mark.parametrize("agent", READERS)
@given(data=st.data())
def test_damage_is_an_error_or_valid_samples(agent, data):
    """Any change of some bytes: UnreadableError, or samples that the stream app can read; never anything else."""
    lines = recording(agent)
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(lines) - 1))
        raw = bytearray(lines[place])
        at = data.draw(st.integers(0, len(raw) - 1))
        changed = data.draw(st.sampled_from([b"", b"9", b"-", b"e9", b"e300", b"null", b'"', b"}"]))
        raw[at : at + data.draw(st.integers(0, 3))] = changed
        lines[place] = bytes(raw)
    assembler = Assembler(T, nic_speed=1e9)
    for number, raw_line in enumerate(lines):
        try:
            points = READERS[agent](bytes(raw_line))
        except UnreadableError:
            continue
        for message in assembler.take(points, float(number)):
            decode(encode(message))
    for message in assembler.flush(1e6):
        decode(encode(message))
