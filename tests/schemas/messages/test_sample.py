"""Every way a message can be wrong, and the reason it is refused with."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import (
    ENTRIES_MAX,
    MESSAGE_BYTES_MAX,
    InstanceMeans,
    Moments,
    Rejected,
    Sample,
    Usage,
    check_machine_id,
    decode,
    encode,
)
from tests.schemas.test_json_schema import allows

REASONS = {"empty", "too-long", "malformed", "version", "no-resource", "impossible"}

CPU = {"n": 10, "mean": 2.0, "m2": 1.0, "max": 3.0, "capacity": 8.0}
GOOD = {
    "type": "sample",
    "v": 1,
    "machine": "m1",
    "boot": 1_790_000_000,
    "seq": 1,
    "at": 1_790_000_010.5,
    "interval_s": 10,
    "cpu": CPU,
}
FACTS = {"type": "machine", "v": 1, "machine": "m1", "boot": 1, "at": 1.0}


def without(field):
    return {key: value for key, value in GOOD.items() if key != field}


def cpu(**changes):
    """The good sample with other moments; None takes a field away."""
    return GOOD | {"cpu": {key: value for key, value in (CPU | changes).items() if value is not None}}


REJECTED = [
    # name, message (bytes as they are, else made JSON), reason, part of the detail
    ("no value", None, "empty", "no value"),
    ("empty value", b"", "empty", "no value"),
    ("one byte too long", b" " * (MESSAGE_BYTES_MAX + 1), "too-long", "16385 bytes, at most 16384"),
    ("garbage", b"\x00\xff\x13garbage", "malformed", "JSON is malformed"),
    ("only spaces", b"    ", "malformed", "truncated"),
    ("text", b"hello", "malformed", "malformed"),
    ("cut", json.dumps(GOOD).encode()[:-1], "malformed", "truncated"),
    ("something after it", json.dumps(GOOD).encode() + b"{}", "malformed", "trailing"),
    ("a list", [GOOD], "malformed", "Expected `object`, got `array`"),
    ("a number", 3, "malformed", "Expected `object`"),
    ("null", b"null", "malformed", "Expected `object`"),
    ("no type", {"v": 1}, "malformed", "missing required field `type`"),
    ("unknown type", GOOD | {"type": "event"}, "malformed", "Invalid value 'event'"),
    ("type is a number", GOOD | {"type": 1}, "malformed", "Expected `str` - at `$.type`"),
    ("not UTF-8", json.dumps(GOOD).encode().replace(b"m1", b"\xff\xfe"), "malformed", ""),
    ("a lone surrogate", json.dumps(GOOD).encode().replace(b"m1", b"\\ud800"), "malformed", "surrogate"),
    ("deep nesting", b"[" * 8000 + b"]" * 8000, "malformed", ""),
    ("deep nesting in an unknown field", b'{"x":' * 2500 + b"1" + b"}" * 2500, "malformed", ""),
    ("NaN", json.dumps(cpu(mean=float("nan"))).encode(), "malformed", "invalid character"),
    ("Infinity", json.dumps(cpu(max=float("inf"))).encode(), "malformed", "invalid character"),
    ("a number out of range", json.dumps(GOOD).encode().replace(b"2.0", b"2e999"), "malformed", "out of range"),
    ("version 0", GOOD | {"v": 0}, "version", "v is 0, this reader knows 1"),
    ("version 2", GOOD | {"v": 2}, "version", "v is 2, this reader knows 1"),
    ("version -1", GOOD | {"v": -1}, "version", "v is -1"),
    ("version 2 in another shape", {"v": 2, "hello": "world"}, "version", "v is 2, this reader knows 1"),
    ("version is text", GOOD | {"v": "1"}, "malformed", "Expected `int`, got `str` - at `$.v`"),
    ("version is a fraction", GOOD | {"v": 1.5}, "malformed", "at `$.v`"),
    ("version is a boolean", GOOD | {"v": True}, "malformed", "at `$.v`"),
    ("no version", without("v"), "malformed", "missing required field `v`"),
    ("no machine", without("machine"), "malformed", "missing required field `machine`"),
    ("no boot", without("boot"), "malformed", "missing required field `boot`"),
    ("no seq", without("seq"), "malformed", "missing required field `seq`"),
    ("no at", without("at"), "malformed", "missing required field `at`"),
    ("no interval", without("interval_s"), "malformed", "missing required field `interval_s`"),
    ("machine is empty", GOOD | {"machine": ""}, "malformed", "at `$.machine`"),
    ("machine is a number", GOOD | {"machine": 7}, "malformed", "at `$.machine`"),
    ("machine is over-long", GOOD | {"machine": "m" * 254}, "malformed", "length <= 253 - at `$.machine`"),
    ("boot is negative", GOOD | {"boot": -1}, "malformed", "at `$.boot`"),
    ("boot is beyond 32 bits", GOOD | {"boot": 2**32}, "malformed", "at `$.boot`"),
    ("seq is negative", GOOD | {"seq": -1}, "malformed", "at `$.seq`"),
    ("seq is a fraction", GOOD | {"seq": 1.5}, "malformed", "at `$.seq`"),
    ("at is negative", GOOD | {"at": -0.5}, "malformed", "at `$.at`"),
    ("at is in milliseconds", GOOD | {"at": 1_790_000_010_500}, "malformed", "at `$.at`"),
    ("at is text", GOOD | {"at": "2026-11-21"}, "malformed", "at `$.at`"),
    ("interval is zero", GOOD | {"interval_s": 0}, "malformed", "at `$.interval_s`"),
    ("interval is negative", GOOD | {"interval_s": -10}, "malformed", "at `$.interval_s`"),
    ("interval is over an hour", GOOD | {"interval_s": 3601}, "malformed", "at `$.interval_s`"),
    ("moments are a number", GOOD | {"cpu": 3}, "malformed", "at `$.cpu`"),
    ("moments are a list", GOOD | {"cpu": [10, 2.0, 1.0, 3.0, 8.0]}, "malformed", "at `$.cpu`"),
    ("moments lack n", cpu(n=None), "malformed", "missing required field `n` - at `$.cpu`"),
    ("moments lack capacity", cpu(capacity=None), "malformed", "missing required field `capacity` - at `$.cpu`"),
    ("no readings", cpu(n=0), "malformed", "at `$.cpu.n`"),
    ("too many readings", cpu(n=65_536), "malformed", "at `$.cpu.n`"),
    ("half a reading", cpu(n=2.5), "malformed", "at `$.cpu.n`"),
    ("mean is negative", cpu(mean=-0.001), "malformed", "at `$.cpu.mean`"),
    ("mean is absurd", cpu(mean=1e17, max=1e17), "malformed", "at `$.cpu.mean`"),
    ("mean is text", cpu(mean="2"), "malformed", "at `$.cpu.mean`"),
    ("mean is null", GOOD | {"cpu": CPU | {"mean": None}}, "malformed", "at `$.cpu.mean`"),
    ("m2 is negative", cpu(m2=-1e-9), "malformed", "at `$.cpu.m2`"),
    ("m2 is absurd", cpu(m2=1e35), "malformed", "at `$.cpu.m2`"),
    ("max is negative", cpu(max=-1.0), "malformed", "at `$.cpu.max`"),
    ("capacity is zero", cpu(capacity=0), "malformed", "at `$.cpu.capacity`"),
    ("capacity is negative", cpu(capacity=-8), "malformed", "at `$.cpu.capacity`"),
    ("no resource", without("cpu"), "no-resource", "none of cpu, memory, nic"),
    ("resources are null", GOOD | {"cpu": None, "memory": None}, "no-resource", "none of"),
    ("only unknown resources", without("cpu") | {"gpu": CPU}, "no-resource", "none of"),
    ("maximum below the mean", cpu(max=1.9), "impossible", "max 1.9 is below mean 2.0"),
    ("maximum below the mean of memory", GOOD | {"memory": CPU | {"max": 1.0}}, "impossible", "max 1.0"),
    ("classes are a list", GOOD | {"classes": ["prod"]}, "malformed", "at `$.classes`"),
    ("usage of a class is negative", GOOD | {"classes": {"prod": {"cpu": -1}}}, "malformed", "at `$.classes[...].cpu`"),
    ("instances hold text", GOOD | {"instances": {"i": "x"}}, "malformed", "at `$.instances[...]`"),
    ("facts without a machine", {"type": "machine", "v": 1, "boot": 1, "at": 1}, "malformed", "`machine`"),
    ("facts of version 3", FACTS | {"v": 3}, "version", "v is 3, this reader knows 1"),
    ("labels are numbers", FACTS | {"labels": {"a": 1}}, "malformed", "at `$.labels[...]`"),
    ("interfaces are too long", FACTS | {"interfaces": {"names": "x" * 201}}, "malformed", "at `$.interfaces[...]`"),
    ("interfaces with an escape", FACTS | {"interfaces": {"names": "\x1b[2J"}}, "malformed", "`$.interfaces[...]`"),
    ("capacity of facts is negative", FACTS | {"capacity": {"cpu": -1}}, "malformed", "at `$.capacity[...]`"),
]


@pytest.mark.parametrize(("name", "message", "reason", "detail"), REJECTED, ids=[row[0] for row in REJECTED])
def test_a_wrong_message_is_refused_with_its_reason(name, message, reason, detail):
    """One of a closed set of reasons, and a detail that names the field or the trouble."""
    raw = message if message is None or isinstance(message, bytes) else json.dumps(message).encode()
    with pytest.raises(Rejected) as error:
        decode(raw)
    assert error.value.reason == reason
    assert detail in error.value.detail
    assert str(error.value) == f"{error.value.reason}: {error.value.detail}"


def test_every_reason_has_a_row():
    assert {row[2] for row in REJECTED} == REASONS


ACCEPTED = [
    ("plain", GOOD),
    ("unknown fields", GOOD | {"future": {"a": [1]}, "gpu": 3}),
    ("longest machine id", GOOD | {"machine": "m" * 253}),
    ("idle", cpu(mean=0, m2=0, max=0)),
    ("maximum equal to the mean", cpu(max=2.0)),
    ("maximum a rounding below the mean", cpu(mean=2.0, max=2.0 - 1e-12)),
    ("load above capacity", cpu(mean=9.0, max=12.0)),
    ("numbers at their limits", cpu(n=65_535, mean=1e16, m2=1e34, max=1e16, capacity=1e16)),
    ("the epoch", GOOD | {"at": 0, "boot": 0, "seq": 0}),
    ("the longest interval", GOOD | {"interval_s": 3600}),
    ("an unknown class", GOOD | {"classes": {"spot": {"cpu": 1}}}),
    ("bare facts", FACTS),
    ("facts with interfaces", FACTS | {"interfaces": {"kernel": "eth0, eth1", "names": "x" * 200}}),
    ("full facts", FACTS | {"capacity": {"cpu": 1, "gpu": 4}, "labels": {"a": "b"}, "agent_version": "9"}),
]


@pytest.mark.parametrize(("name", "message"), ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_a_right_message_is_read(name, message):
    assert decode(json.dumps(message).encode()).machine == message["machine"], name


def test_a_message_of_the_largest_size_is_read():
    raw = json.dumps(GOOD).encode()
    assert decode(raw + b" " * (MESSAGE_BYTES_MAX - len(raw))) == decode(raw)


def test_of_a_repeated_field_the_last_counts():
    raw = json.dumps(GOOD).encode()
    assert decode(raw[:-1] + b',"seq":5}').seq == 5


MACHINE_IDS = [
    ("host name", "db1", True),
    ("full name", "db1.eu-1.example.org", True),
    ("with a colon", "10.0.0.1:7001", True),
    ("every printable sign", "".join(map(chr, range(33, 127))), True),
    ("star", "*", True),
    ("empty", "", False),
    ("space", "db 1", False),
    ("trailing newline", "db1\n", False),
    ("newline inside", "db1\ndb2", False),
    ("tab", "a\tb", False),
    ("zero byte", "a\0b", False),
    ("delete", "a\x7f", False),
    ("umlaut", "müller", False),
    ("chinese", "机器", False),
    ("emoji", "🚀", False),
    ("no-break space", "a\u00a0b", False),
]


@pytest.mark.parametrize(("name", "machine", "good"), MACHINE_IDS, ids=[row[0] for row in MACHINE_IDS])
def test_machine_ids_are_printable_ascii(name, machine, good):
    if good:
        check_machine_id(machine)
    else:
        with pytest.raises(Rejected) as error:
            check_machine_id(machine)
        assert error.value.reason == "machine-id", name
        assert repr(machine) in error.value.detail


amounts = st.floats(0, 1e16, allow_nan=False)
moments = st.builds(
    lambda n, mean, m2, above, capacity: Moments(n, mean, m2, min(mean + above, 1e16), capacity),
    st.integers(1, 65_535),
    amounts,
    st.floats(0, 1e34),
    amounts,
    st.floats(0, 1e16, exclude_min=True),
)
usages = st.dictionaries(st.text(max_size=9), st.builds(Usage, amounts, amounts, amounts), max_size=3)
samples = st.builds(
    Sample,
    v=st.just(1),
    machine=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=253),
    boot=st.integers(0, 2**32 - 1),
    seq=st.integers(0, 2**32 - 1),
    at=st.floats(0, 1e11),
    interval_s=st.floats(0, 3600, exclude_min=True),
    cpu=moments,
    memory=st.none() | moments,
    nic=st.none() | moments,
    classes=st.none() | usages,
    instances=st.none() | usages,
)


@given(sample=samples)
def test_what_is_encoded_is_decoded(sample):
    """Every number to the bit, and what is absent stays absent."""
    assert decode(encode(sample)) == sample


@given(raw=st.binary(max_size=200))
def test_bytes_are_read_or_refused(raw):
    try:
        decode(raw)
    except Rejected as error:
        assert error.reason in REASONS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(field=st.sampled_from([*GOOD, "memory", "nic", "classes", "instances"]), value=json_values)
def test_any_value_in_any_field_is_read_or_refused(field, value):
    try:
        got = decode(msgspec.json.encode(GOOD | {field: value}))
    except Rejected as error:
        assert error.reason in REASONS
    else:
        assert decode(encode(got)) == got


GOLDEN = (Path(__file__).parents[1] / "golden" / "sample.v1.jsonl").read_bytes().splitlines()[-2:]
REPORT = {"at": 1_790_000_010.5, "interval_s": 60.0, "entries": {"redis-1": {"cpu": 0.5}}}
SAMPLE = {
    "type": "sample", "v": 1, "machine": "m1", "boot": 1, "seq": 1, "at": 1_790_000_010.5, "interval_s": 10,
    "cpu": {"n": 10, "mean": 2.0, "m2": 1.0, "max": 3.0, "capacity": 8.0},
}  # fmt: skip


def read(report):
    message = decode(json.dumps(SAMPLE | {"instance_report": report}).encode())
    assert isinstance(message, Sample)
    return message


REFUSED = [
    # name, changes of the report, reason, part of the detail
    ("no end", {"at": None}, "malformed", "`$.instance_report.at`"),
    ("after the sample", {"at": 1_790_000_011.0}, "impossible", "after the sample's end"),
    ("no interval", {"interval_s": 0}, "malformed", "`$.instance_report.interval_s`"),
    ("a part beyond the last", {"part": 2}, "impossible", "part 2 of 1"),
    ("a part too many", {"part": 65, "parts": 65}, "malformed", "`$.instance_report.part`"),
    ("negative usage", {"entries": {"a": {"cpu": -1}}}, "malformed", "instance_report.entries"),
    ("an empty id", {"entries": {"": {"cpu": 1}}}, "malformed", "instance_report.entries"),
    ("a space in the id", {"entries": {"a b": {"cpu": 1}}}, "malformed", "instance_report.entries"),
    ("a line's end in the id", {"entries": {"a\n": {"cpu": 1}}}, "malformed", "instance_report.entries"),
    ("an over-long id", {"entries": {"a" * 254: {"cpu": 1}}}, "malformed", "instance_report.entries"),
    ("too many", {"entries": {f"i{n}": {} for n in range(ENTRIES_MAX + 1)}}, "malformed", "instance_report.entries", ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "reason", "detail"), REFUSED)
def test_what_cannot_be_is_refused_by_name(name, changes, reason, detail):
    with pytest.raises(Rejected) as error:
        read(REPORT | changes)
    assert error.value.reason == reason, name
    assert detail in error.value.detail


def test_a_report_may_leave_out_what_is_not_known():
    """A resource that cannot be measured is None, never 0; unknown fields and resources are passed over."""
    report = read(REPORT | {"newer": 1, "entries": {"a": {"gpu": 1.0}, "b": {"cpu": 0.0}}}).instance_report
    assert (report.system, report.part, report.parts) == (None, 1, 1)
    assert report.entries == {"a": InstanceMeans(), "b": InstanceMeans(cpu=0.0)}
    assert report.entries["a"].cpu is None


def test_the_schema_agrees():
    """The golden samples are valid by the JSON Schema; an entry that is no object is not."""
    assert all(allows("sample.v1.schema.json", json.loads(line)) for line in GOLDEN)
    wrong = SAMPLE | {"instance_report": REPORT | {"entries": {"a": 1}}}
    assert not allows("sample.v1.schema.json", wrong)
