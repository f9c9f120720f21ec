"""Usage by instance as one value: what was written is read again; what is damaged is refused, whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import InstanceMeans, InstanceReport
from schemas.tables.window_table import Header, TableError, decode_table, encode_table
from streams.fold.instance_usage import InstanceUsage
from streams.state.checkpoint import encode_usage, restore_usage
from tests.streams.fold.test_instance_usage import DAYS, START, applied, report, state

HEADER = {"partition": 3, "offset": 77, "topic_id": "t", "written_at": START}


def some():
    """Two machines, three instances; nic and disk known of one."""
    usage = applied(("m", report(0, a=1.0, b=2.0)), ("n", report(5, system=0.5, c=3.0)), ("m", report(60, a=4.0)))
    entries = {"c": InstanceMeans(cpu=1.0, memory=2.0, nic=3.0, disk=0.25)}
    usage.apply([("n", InstanceReport(at=START + 65, interval_s=60.0, entries=entries))], DAYS)
    return usage


def test_what_is_written_is_read_again():
    usage, again = some(), InstanceUsage()
    header = restore_usage(again, encode_usage(usage, HEADER))
    assert (header.partition, header.offset, header.topic_id) == (3, 77, "t")
    assert repr(state(again)) == repr(state(usage))
    assert again.instances == usage.instances == 3
    for one in (usage, again):
        one.apply([("m", report(120, a=9.0, d=1.0))], DAYS)
    assert repr(state(again)) == repr(state(usage))


def test_resources_are_aligned_by_name():
    """A value of a worker that knows three, one of them unknown here: each figure stays its resource's."""
    table = decode_table(encode_usage(some(), HEADER))
    pairs = table.header.machines
    recent = np.arange(3.0 * pairs, dtype="f4").reshape(3, pairs)
    header = Header(machines=pairs, windows_s=(), columns=[], resources=("cpu", "gpu", "memory"))
    usage = InstanceUsage()
    restore_usage(usage, encode_table(header, {"recent": recent}, table.names))
    np.testing.assert_array_equal(usage.recent[:2], recent[[0, 2]])
    assert np.isnan(usage.recent[2:]).all()
    assert (usage.count == 0).all()


@given(st.integers(0, 400), st.integers(0, 255))
def test_damage_is_refused_and_leaves_what_there_was(place, value):
    """Whatever byte is wrong: refused, or read as some figures; never another error, never half."""
    raw = bytearray(encode_usage(some(), HEADER))
    raw[place % len(raw)] = value
    usage = applied(("x", report(0, y=1.0)))
    before = repr(state(usage))
    try:
        restore_usage(usage, bytes(raw))
    except TableError:
        assert repr(state(usage)) == before


@pytest.mark.parametrize(
    ("name", "columns", "names"),
    [
        ("a pair twice", {"at": np.zeros(2)}, b"m\ta\nm\ta"),
        ("a column of another shape", {"at": np.zeros((3, 2))}, b"m\ta\nm\tb"),
        ("a column without its axis", {"variance": np.zeros(2)}, b"m\ta\nm\tb"),
    ],
)
def test_what_does_not_fit_is_refused(name, columns, names):
    raw = encode_table(Header(machines=2, windows_s=(), columns=[]), columns, names)
    with pytest.raises(TableError, match="usage by instance is damaged"):
        restore_usage(InstanceUsage(), raw)
