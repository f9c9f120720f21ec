"""What goes to the scripts and comes back: records, units, digests, queries."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.request import read_request
from schemas.rpc import Query, Reply
from scorer.instance import Instance
from scorer.ledger import in_units, record_tail, request_digest, too_large
from scorer.rpc import read_query

texts = st.text(max_size=8)
amounts = st.floats(0, 1e12, allow_nan=False)


@given(
    st.builds(
        Instance,
        id=texts, machine=texts, state=st.sampled_from(["reserved", "confirmed", "expired"]),
        amounts=st.tuples(amounts, amounts, amounts), labels=st.dictionaries(texts, texts, max_size=2), role=texts,
        cluster=texts, ports=st.tuples(st.integers(1, 65535)), expires_at=amounts, version=st.integers(0, 2**40),
    )
)  # fmt: skip
def test_a_record_is_put_together_again(record: Instance) -> None:
    """The fields that change and the rest, joined as the scripts join them, are the record; whatever its texts hold."""
    head = {name: getattr(record, name) for name in ("version", "state", "machine", "expires_at")}
    joined = msgspec.json.encode(head)[:-1] + b",\n" + record_tail(record) + b"}"
    assert msgspec.json.decode(joined, type=Instance) == record
    assert b"\n" not in record_tail(record)


def test_units_round_to_the_nearest_and_nan_is_no_limit() -> None:
    """Amounts become whole numbers; what is not known limits nothing."""
    assert in_units(0, 0.1) * 39 == in_units(0, 3.9)
    assert in_units(1, 0.4) == 0
    assert in_units(2, math.nan) == -1
    assert in_units(0, math.inf) == 2**53


def test_too_large_names_the_amount() -> None:
    """An amount whose sums could not be exact is named."""
    assert too_large((1.0, 1e9, 0.0), 0.0) == ""
    assert too_large((1e15, 0.0, 0.0), 0.0) == "cpu"
    assert too_large((0.0, 1e16, 0.0), 0.0) == "memory"
    assert too_large((0.0, 0.0, 0.0), 1e300) == "maxmemory"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"cpu": "500m"}, {"cpu": 0.5}, True),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}, True),
        ({"cpu": 1, "explain": True, "top": 50, "dry_run": True}, {"cpu": 1}, True),
        ({"cpu": 1}, {"cpu": 2}, False),
        ({"cpu": 1, "count": 2}, {"cpu": 1, "count": 3}, False),
        ({"ports": [1]}, {"ports": [2]}, False),
        ({"ttl_s": 5}, {"ttl_s": 6}, False),
    ],
)
def test_digests_tell_requests_apart(one: dict[str, object], other: dict[str, object], same: bool) -> None:
    """Two requests have one digest exactly when they ask for the same; how the answer is shown does not count."""
    assert (request_digest(read_request(one)) == request_digest(read_request(other))) is same


@given(st.binary(max_size=300))
def test_any_bytes_are_a_query_an_answer_or_nothing(raw: bytes) -> None:
    """No input makes the reader of queries fail."""
    assert isinstance(read_query(raw), Query | Reply | None)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_any_json_is_a_query_an_answer_or_nothing(value: object) -> None:
    """No JSON does either, and what is refused with an id is refused by name."""
    found = read_query(msgspec.json.encode({"id": "q", "method": "rank", "deadline": value}))
    assert isinstance(found, Query | Reply)
    if isinstance(found, Reply):
        assert found.error is not None
        assert found.error.message.startswith("deadline")


def test_a_query_too_long_is_refused_by_its_id() -> None:
    """A query of more than 8 MiB is not decoded; its id is found at its start."""
    found = read_query(b'{"id":"long","method":"place","params":"' + b"x" * 9_000_000 + b'"}')
    assert isinstance(found, Reply)
    assert found.id == "long"
