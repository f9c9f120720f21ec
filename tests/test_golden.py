"""Each stored or sent format has a golden file that today's reader takes, and that today's writer writes again."""

import json
from pathlib import Path

import numpy as np
import pytest

from schemas.messages.sample import Rejected, Usage, decode, moments
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import TableError, decode_table, encode_table
from tests.golden import FORMATS
from tests.schemas.golden_values import BASE, FACTS, KINDS, MACHINES, RESOURCES, WINDOWS_S, column, header
from tests.schemas.golden_values import SAMPLES as DECODED
from tests.window_tables import unsummed

BY_NAME = {one.path.rpartition("/")[2].partition(".")[0]: one for one in FORMATS}


@pytest.mark.parametrize("one", FORMATS, ids=BY_NAME)
def test_each_format_is_read_and_written_again(one):
    """To the byte: a format that is changed gets a new file (`python -m tests.golden`)."""
    raw = one.file.read_bytes()
    assert one.again(raw) == raw


def test_every_golden_file_is_of_a_format():
    folders = {one.file.parent for one in FORMATS}
    assert {file for folder in folders for file in folder.iterdir()} == {one.file for one in FORMATS}


GOLDEN = Path(__file__).parent / "schemas" / "golden"
SAMPLES = (GOLDEN / "sample.v1.jsonl").read_bytes().splitlines()
MACHINE = (GOLDEN / "machine.v1.json").read_bytes().strip()
SUMMED = (GOLDEN / "window_table.v1.bin").read_bytes()
TABLE = unsummed(SUMMED)
"""The same as it was written before there was a checksum."""


def test_the_golden_messages_are_read():
    """Every field of every line of sample.v1.jsonl, and of machine.v1.json."""
    assert [decode(line) for line in SAMPLES] == DECODED
    assert decode(MACHINE) == FACTS
    first = DECODED[0]
    assert moments(first)[:4] == (first.cpu, first.memory, first.nic, first.disk)


def add(value):
    """Add what this version does not know to every object."""
    if isinstance(value, dict):
        known = {key: add(inner) for key, inner in value.items()}
        if value.keys() & {"type", "mean"}:
            known |= {"newer": {"deep": [1, {"x": None}]}, "zone": "a"}
        return known
    return value


@pytest.mark.parametrize("line", [*SAMPLES, MACHINE])
def test_a_newer_minor_sample_is_read_without_what_is_unknown(line):
    """More fields in the message and in its moments, a new resource, a new class of usage."""
    newer = add(json.loads(line)) | {"gpu": {"n": 1, "mean": 2.0}, "minor": 7}
    if newer["type"] == "sample":
        got = decode(json.dumps(newer).encode())
        assert got == decode(line)
        newer["classes"] = {"prod": {"cpu": 1.0, "gpu": 3.0}, "spot": {"cpu": 9.0}}
        message = decode(json.dumps(newer).encode())
        assert message.classes["prod"] == Usage(cpu=1.0)
    else:
        assert decode(json.dumps(newer).encode()) == FACTS


@pytest.mark.parametrize("version", [0, 2, 7, 2**70])
@pytest.mark.parametrize("line", [SAMPLES[0], MACHINE])
def test_another_major_sample_is_refused_by_name(version, line):
    """Also when it does not look like version 1 at all: the reason is the version, and both are named."""
    foreign = [json.loads(line) | {"v": version}, {"v": version, "type": "event", "host": "m"}]
    foreign.append({"v": version, "type": foreign[0]["type"], "machine": 3})
    for message in foreign:
        with pytest.raises(Rejected) as error:
            decode(json.dumps(message).encode())
        assert error.value.reason == "version"
        assert error.value.detail == f"v is {version}, this reader knows 1"


def assert_golden(table):
    """Header, names and every column are those of window_table.v1.bin."""
    found = table.header
    assert table.machines == MACHINES
    assert (found.machines, found.windows_s, found.partition, found.offset) == (3, WINDOWS_S, 5, 123_456_789_012)
    assert (found.topic_id, found.slot_s, found.facts, found.written_at) == ("t0pic", 10, 4, 1_790_000_000.25)
    assert (found.resources, found.base) == (RESOURCES, BASE)
    for name in KINDS:
        np.testing.assert_array_equal(table.columns[name], column(name), err_msg=name)
        assert table.columns[name].dtype == np.dtype(KINDS[name][0])


def test_the_golden_window_table_is_read():
    """Header, machines and columns of window_table.v1.bin, as read-only views of its bytes."""
    table = decode_table(TABLE)
    assert_golden(table)
    assert table.columns.keys() == KINDS.keys()
    assert not any(values.flags.writeable or values.flags.owndata for values in table.columns.values())


def test_the_golden_changes_are_put_on_their_base():
    """One machine has other values, one is added, two stay."""
    changes = decode_table((GOLDEN / "window_changes.v1.bin").read_bytes())
    table = PartitionWindows(decode_table(TABLE), changes).whole()
    assert table.machines == [*MACHINES, "m-4"]
    for name in KINDS:
        wanted = column(name)[..., [0, 1, 0, 1]]
        np.testing.assert_array_equal(table.columns[name], wanted, err_msg=name)


def test_a_newer_minor_table_is_read_without_what_is_unknown():
    """Minor 7 with a header field, columns and a kind of number of its own; the columns in another order."""
    columns = {"swap": np.ones((2, 3), "f2"), "flags": np.ones((2, 2, 2, 3), bool)}
    columns |= {name: column(name) for name in reversed(KINDS)}
    table = decode_table(encode_table(header(minor=7), columns, "\n".join(MACHINES).encode()))
    assert table.header.minor == 7
    assert_golden(table)
    table = decode_table(unsummed(TABLE, minor=7, checksum="abc", regions=[1, 2]))
    assert_golden(table)


@pytest.mark.parametrize("major", [0, 2, 7, 255])
def test_another_major_table_is_refused_by_name(major):
    with pytest.raises(TableError, match=rf"^window table of major version {major}; this reader knows 1$"):
        decode_table(TABLE[:7] + bytes([major]) + TABLE[8:])
