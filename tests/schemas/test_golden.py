"""What older versions wrote is still read, whatever comes later; what newer ones add is passed over.

The files under ``golden/`` were written by the version in their name and are never written again: a change of a format
adds a file. How a newer minor version looks is made up here from them.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from schemas.messages.sample import MachineFacts, Moments, Rejected, Sample, Usage, decode, encode
from schemas.tables.window_table import Header, TableError, WindowTable, decode_table, encode_table

GOLDEN = Path(__file__).parent / "golden"
SAMPLES = (GOLDEN / "sample.v1.jsonl").read_bytes().splitlines()
MACHINE = (GOLDEN / "machine.v1.json").read_bytes().strip()
TABLE = (GOLDEN / "window_table.v1.bin").read_bytes()

DECODED = [
    Sample(
        v=1,
        machine="db1.example.org",
        boot=1_789_990_000,
        seq=7,
        at=1_790_000_003.25,
        interval_s=10.0,
        cpu=Moments(10, 3.5, 2.5, 4.25, 64.0),
        memory=Moments(10, 2.0**36, 1e6, 2.0**36 + 1000, 2.0**37),
        nic=Moments(9, 125_000.5, 0.0, 125_000.5, 1.25e9),
    ),
    Sample(v=1, machine="m", boot=0, seq=0, at=0.0, interval_s=60.0, memory=Moments(1, 0.0, 0.0, 0.0, 1.0)),
    Sample(
        v=1,
        machine="db2",
        boot=1_789_990_000,
        seq=2**32 - 1,
        at=1_790_000_010.0,
        interval_s=10.0,
        cpu=Moments(10, 1.0, 0.5, 2.0, 8.0),
        classes={"prod": Usage(0.75, 1024.0), "batch": Usage(0.25)},
        instances={"redis-7001": Usage(0.5, 512.0, 10.0)},
    ),
]
FACTS = MachineFacts(
    v=1,
    machine="db1.example.org",
    boot=1_789_990_000,
    at=1_790_000_000.5,
    capacity={"cpu": 64.0, "memory": 2.0**37, "nic": 1.25e9},
    labels={"zone": "a", "rack": "r7"},
    agent_version="0.1.0",
)

MACHINES = ["db1.example.org", "db2", "m-3"]
WINDOWS_S = (300, 900)
KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "at": ("f8", ()),
    "skew": ("f4", ()),
    "end": ("f8", ()),
    "boot": ("f8", ()),
    "interval_s": ("f4", ()),
    "capacity": ("f8", (3,)),
    "mean": ("f8", (2, 3)),
    "std": ("f4", (2, 3)),
    "max": ("f4", (2, 3)),
    "percentile": ("f4", (2, 3, 4)),
    "filled": ("u2", (2, 3)),
    "coverage": ("f4", (2, 3)),
    "peak_today": ("f4", (3,)),
    "peak_yesterday": ("f4", (3,)),
    "peak_day": ("f8", ()),
    "peak_since": ("f8", ()),
    "class_prod": ("f4", (2, 3)),
}


def column(name: str) -> Any:
    """What the golden table holds: numbers that grow by a quarter from the column's place; the last cell NaN."""
    kind, axes = KINDS[name]
    shape = (*axes, len(MACHINES))
    values = (list(KINDS).index(name) * 1000 + np.arange(np.prod(shape)) / 4).reshape(shape).astype(kind)
    if kind[0] == "f":
        values[..., -1] = np.nan
    return values


def test_old_samples_are_still_read() -> None:
    """Every field of every line of sample.v1.jsonl."""
    assert [decode(line) for line in SAMPLES] == DECODED


def test_old_machine_facts_are_still_read() -> None:
    """Every field of machine.v1.json."""
    assert decode(MACHINE) == FACTS


def test_what_is_written_now_is_what_an_old_reader_expects() -> None:
    """Each golden message, encoded again, has the same fields and values; only defaults may be left out."""
    for message, line in zip([*DECODED, FACTS], [*SAMPLES, MACHINE], strict=True):
        assert msgspec.json.decode(encode(message)) == msgspec.json.decode(line)


def test_samples_and_facts_with_a_host_are_still_read() -> None:
    """As they were when the host's id was added; what has none is of no host."""
    lines = (GOLDEN / "sample.v1-host.jsonl").read_bytes().splitlines()
    decoded = [decode(line) for line in lines]
    assert [one.host_id for one in decoded] == ["8bfbab46c1906f9b96e503ee8a9a8ecb"] * 2
    assert [encode(one) for one in decoded] == lines
    assert {decode(line).host_id for line in [*SAMPLES, MACHINE]} == {""}


def add(value: Any) -> Any:
    """Add what this version does not know to every object."""
    if isinstance(value, dict):
        known = {key: add(inner) for key, inner in value.items()}
        if value.keys() & {"type", "mean"}:
            known |= {"newer": {"deep": [1, {"x": None}]}, "zone": "a"}
        return known
    return value


@pytest.mark.parametrize("line", [*SAMPLES, MACHINE])
def test_a_newer_minor_sample_is_read_without_what_is_unknown(line: bytes) -> None:
    """More fields in the message and in its moments, a new resource, a new class of usage."""
    newer = add(json.loads(line)) | {"gpu": {"n": 1, "mean": 2.0}, "minor": 7}
    if newer["type"] == "sample":
        got = decode(json.dumps(newer).encode())
        assert got == decode(line)
        newer["classes"] = {"prod": {"cpu": 1.0, "gpu": 3.0}, "spot": {"cpu": 9.0}}
        message = decode(json.dumps(newer).encode())
        assert isinstance(message, Sample)
        assert message.classes is not None
        assert message.classes["prod"] == Usage(cpu=1.0)
    else:
        assert decode(json.dumps(newer).encode()) == FACTS


@pytest.mark.parametrize("version", [0, 2, 7, 2**70])
@pytest.mark.parametrize("line", [SAMPLES[0], MACHINE])
def test_another_major_sample_is_refused_by_name(version: int, line: bytes) -> None:
    """Also when it does not look like version 1 at all: the reason is the version, and both are named."""
    foreign: list[dict[str, Any]] = [json.loads(line) | {"v": version}, {"v": version, "type": "event", "host": "m"}]
    foreign.append({"v": version, "type": foreign[0]["type"], "machine": 3})
    for message in foreign:
        with pytest.raises(Rejected) as error:
            decode(json.dumps(message).encode())
        assert error.value.reason == "version"
        assert error.value.detail == f"v is {version}, this reader knows 1"


def assert_golden(table: WindowTable) -> None:
    """Header, names and every column are those of window_table.v1.bin."""
    header = table.header
    assert table.machines == MACHINES
    assert (header.machines, header.windows_s, header.partition, header.offset) == (3, WINDOWS_S, 5, 123_456_789_012)
    assert (header.topic_id, header.slot_s, header.facts, header.written_at) == ("t0pic", 10, 4, 1_790_000_000.25)
    for name in KINDS:
        np.testing.assert_array_equal(table.columns[name], column(name), err_msg=name)
        assert table.columns[name].dtype == np.dtype(KINDS[name][0])


def test_an_old_window_table_is_still_read() -> None:
    """Header, machines and columns of window_table.v1.bin, as read-only views of its bytes."""
    table = decode_table(TABLE)
    assert_golden(table)
    assert table.columns.keys() == KINDS.keys()
    assert not any(values.flags.writeable or values.flags.owndata for values in table.columns.values())


def rewrite(**changes: Any) -> bytes:
    """The golden table with another header; ``without`` leaves fields of it out."""
    _, _, length = struct.unpack_from("<7sBI", TABLE)
    header = json.loads(TABLE[12 : 12 + length])
    without = changes.pop("without", ())
    header = {key: value for key, value in (header | changes).items() if key not in without}
    head = json.dumps(header).encode()
    head += b" " * (-(12 + len(head)) % 8)
    return struct.pack("<7sBI", b"WINDTBL", 1, len(head)) + head + TABLE[12 + length :]


def test_a_newer_minor_table_is_read_without_what_is_unknown() -> None:
    """Minor 7 with a header field, columns and a kind of number of its own; the columns in another order."""
    columns: dict[str, Any] = {"swap": np.ones((2, 3), "f2"), "flags": np.ones((2, 2, 2, 3), bool)}
    columns |= {name: column(name) for name in reversed(KINDS)}
    header = Header(
        minor=7,
        machines=3,
        windows_s=WINDOWS_S,
        partition=5,
        offset=123_456_789_012,
        topic_id="t0pic",
        facts=4,
        written_at=1_790_000_000.25,
        columns=[],
    )
    table = decode_table(encode_table(header, columns, "\n".join(MACHINES).encode()))
    assert table.header.minor == 7
    assert_golden(table)
    table = decode_table(rewrite(minor=7, checksum="abc", regions=[1, 2]))
    assert_golden(table)


def test_a_table_that_does_not_say_how_long_its_names_are_is_read() -> None:
    """As the first writers left it."""
    assert_golden(decode_table(rewrite()))
    table = decode_table(rewrite(without=("names_bytes", "minor")))
    assert table.header.names_bytes == -1
    assert_golden(table)


@pytest.mark.parametrize("major", [0, 2, 7, 255])
def test_another_major_table_is_refused_by_name(major: int) -> None:
    """Both versions are named."""
    with pytest.raises(TableError, match=rf"^window table of major version {major}; this reader knows 1$"):
        decode_table(TABLE[:7] + bytes([major]) + TABLE[8:])
