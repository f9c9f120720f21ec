"""Reading queries: whatever is on the list is a query, an answer that refuses it, or nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rpc.envelope import Query, Reply
from schemas.rpc.request import InvalidRequest
from scorer.rpc.methods.parameters import read_object
from scorer.rpc.replies import read_query, refusal


@given(st.binary(max_size=300))
def test_any_bytes_are_a_query_an_answer_or_nothing(raw: bytes) -> None:
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


@pytest.mark.parametrize(
    "params", [b'{"cluster": "\xff"}', b'{"\xff": 1}', b"[" * 5_000 + b"]" * 5_000, b'{"a": "\xed\xa0\x80"}']
)
def test_parameters_that_are_no_json_text_are_an_invalid_argument(params: bytes) -> None:
    """Invalid UTF-8 within them is found when they are read, not when the query is."""
    found = read_query(b'{"v": 1, "id": "q", "method": "rank", "params": ' + params + b"}")
    if isinstance(found, Query):
        with pytest.raises(InvalidRequest):
            read_object(found)
    else:
        assert found is not None
        assert found.error is not None
        assert found.error.code == "INVALID_ARGUMENT"


def test_an_answer_echoes_little_of_what_was_asked() -> None:
    """200 characters of a megabyte."""
    error = refusal("q", "INVALID_ARGUMENT", f"id: '{'x' * 1_000_000}' is unknown").error
    assert error is not None
    assert error.message == f"id: '{'x' * 200}...' is unknown"
