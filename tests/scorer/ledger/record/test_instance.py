"""The record of an instance: what is stored of amounts that were given and of those that were not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.rpc.request import read_request
from scorer.ledger.record.instance import Instance, read_record, record_tail
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
