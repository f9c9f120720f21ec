"""The record of an instance: what is stored of amounts that were given and of those that were not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.rpc.request import Request, read_request
from scorer.ledger.record.instance import (
    CHANGED_BY_A_MOVE,
    Arrival,
    Instance,
    Moving,
    arrival,
    as_held,
    copy_with,
    read_record,
    record_tail,
    with_arrival,
)
from scorer.ledger.record.rules import Rules
from scorer.ledger.record.units import in_units
from scorer.ledger.view.view import instance_of

FIRST = b'{"machine":"m","state":"reserved",'


@pytest.mark.parametrize(("given", "stored"), [({}, {}), ({"cpu": 0}, {"cpu": 0}), ({"cpu": 0.5}, {"cpu": 500_000})])
def test_a_record_tells_0_from_none_given(given: dict[str, float], stored: dict[str, int]) -> None:
    """An amount that was not given is not in the record, and is None when it is read; a 0 stays a 0."""
    tail = record_tail(instance_of(read_request({"id": "a", **given}), "m", 0.0))
    assert msgspec.json.decode(b"{" + tail + b"}")["amounts"] == stored
    read = read_record(FIRST + tail + b"}")
    assert read.amounts == (given.get("cpu"), *[None] * (len(RESOURCES) - 1))


def test_a_null_in_a_record_is_none_given() -> None:
    """Another writer may say it so."""
    read = read_record(FIRST + b'"id":"a","amounts":{"cpu":null,"memory":0},"priority_class":"prod"}')
    assert read.amounts[:2] == (None, 0.0)


texts = st.text(max_size=8)


times = st.floats(0, 1e12, allow_nan=False)


@st.composite
def whole_amounts(draw: st.DrawFn, missing: float | None) -> tuple[float | None, ...]:
    """Draw an amount for each resource that is a whole number of units, or ``missing``."""
    units = [draw(st.none() | st.integers(0, 2**50)) for _ in RESOURCES]
    ones = [in_units(name, 1.0) for name in RESOURCES]
    return tuple(missing if n is None else n / one for n, one in zip(units, ones, strict=True))


@settings(deadline=None)
@given(
    st.builds(
        Instance,
        id=texts, machine=texts, state=st.sampled_from(["reserved", "confirmed", "expired"]),
        amounts=whole_amounts(None), expected=st.just(()) | whole_amounts(-1.0),
        labels=st.dictionaries(texts, texts, max_size=2),
        role=texts, cluster=texts, ports=st.tuples(st.integers(1, 65535)), expires_at=times,
        maxmemory=st.integers(0, 2**50).map(float), priority_class=texts, version=st.integers(0, 2**40),
    )
)  # fmt: skip
def test_a_record_is_put_together_again(record: Instance) -> None:
    """The fields that change and the rest, joined as the scripts join them, are the record; whatever its texts hold."""
    head = {name: getattr(record, name) for name in ("version", "state", "machine", "expires_at")}
    joined = msgspec.json.encode(head)[:-1] + b",\n" + record_tail(record) + b"}"
    read = read_record(joined)
    if any(amount != -1.0 for amount in record.expected):
        assert read == record
    else:  # nothing declared is as good as an empty tuple
        assert msgspec.structs.replace(read, expected=()) == msgspec.structs.replace(record, expected=())
    assert b"\n" not in record_tail(record)


def test_amounts_are_by_name_and_not_given_is_not_zero() -> None:
    """A record names whole units; an amount that was not given stands nowhere, is None again and counts 0."""
    record = Instance(
        id="a", machine="m", state="reserved", amounts=(0.5, None, *[0.0] * (len(RESOURCES) - 2)), maxmemory=8e9
    )
    tail = msgspec.json.decode(b"{" + record_tail(record) + b"}")
    assert tail["amounts"] == {
        name: n for name, n in zip(RESOURCES, [500_000, None, *[0] * 9], strict=False) if n is not None
    }
    assert tail["maxmemory"] == 8_000_000_000
    assert in_units("memory", None) == 0


# ---- a moving instance

ONE = Instance(
    id="a", machine="m1", state="confirmed", amounts=Request(cpu=1.0, memory=2e9).given_amounts(), labels={"app": "x"}
)
NEW = Arrival(amounts=Request(cpu=4.0).given_amounts(), maxmemory=5.0, rules=Rules(selector="disk=ssd"))


def test_each_machine_has_its_own_amounts() -> None:
    """Where it is those it had, where it moves to the new ones; labels are one."""
    moves = copy_with(ONE, moving=Moving("m2", 1.0, 61.0, 7, NEW))
    assert as_held(moves, "m1") is moves
    there = as_held(moves, "m2")
    assert (there.machine, there.state, there.amounts, there.labels) == ("m2", "reserved", NEW.amounts, ONE.labels)
    assert arrival(with_arrival(moves)) == NEW
    assert with_arrival(ONE) is ONE
    assert as_held(copy_with(ONE, moving=Moving("m2", 1.0, 61.0)), "m2").amounts == ONE.amounts


def test_a_move_is_read_from_a_record() -> None:
    """The tail of what it becomes has fields that a move does not change: they are passed over."""
    raw = (
        b'{"id":"a","machine":"m1","state":"confirmed","amounts":{"cpu":1000000},"moving":{"to":"m2",'
        b'"since":1,"until":61,"number":7,"new":{"id":"a","amounts":{"cpu":4000000},"labels":{"app":"x"},"counts":[],'
        b'"maxmemory":5,"rules":{"selector":"disk=ssd"}}}}'
    )
    read = read_record(raw)
    assert read.moving is not None
    assert read.moving.new == NEW
    assert set(CHANGED_BY_A_MOVE) < set(Instance.__struct_fields__)
