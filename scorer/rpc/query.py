"""Reading a query: bytes in, a typed query or the answer that refuses it out. Pure."""

from __future__ import annotations

import re

import msgspec

from schemas.rpc.envelope import VERSION, Code, Error, Query, Reply
from schemas.values.errors import field_error, shortened

QUERY_BYTES_MAX = 8 * 2**20
"""A longer query is refused before it is decoded."""
_QUERY_ID = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")
_ID_IN_WRECK = re.compile(rb'"id"\s*:\s*"([A-Za-z0-9._:@+-]{1,128})"')
_decode = msgspec.json.Decoder(Query).decode


def read_query(raw: bytes) -> Query | Reply | None:
    """Return the query in ``raw``; for a bad one the answer that says so, or None when there is no id to answer to.

    >>> read_query(b'{"id": "q1", "method": "rank"}').method
    'rank'
    >>> read_query(b'{"id": "q1", "method": 7}').error.message
    'method: expected text, got a whole number'
    >>> read_query(b"[]") is None
    True
    """
    if len(raw) > QUERY_BYTES_MAX:
        return _refused_wreck(raw[:4096], f"query: {len(raw)} bytes, at most {QUERY_BYTES_MAX}")
    try:
        query = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _refused_wreck(raw, field_error(error, "query"))
    if not _QUERY_ID.fullmatch(query.id):
        return None
    if query.v != VERSION:
        return refusal(query.id, "INVALID_ARGUMENT", f"v: {query.v}; this scorer knows {VERSION}")
    return query


def refusal(query_id: str, code: Code, message: str, *, retryable: bool = False) -> Reply:
    """Return the answer of a query that is not done."""
    return Reply(id=query_id, ok=False, error=Error(code=code, message=shortened(message), retryable=retryable))


def _refused_wreck(raw: bytes, message: str) -> Reply | None:
    found = _ID_IN_WRECK.search(raw)
    return refusal(found[1].decode(), "INVALID_ARGUMENT", message) if found else None
