"""Digests that tell requests apart."""

from __future__ import annotations

from schemas.rpc.request import read_request
from scorer.ledger.record.as_request import request_digest
from tests.rows import each_row


@each_row(
    ("one", "other", "same"),
    [
        ({"cpu": "500m"}, {"cpu": 0.5}, True),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}, True),
        ({"cpu": 1, "explain": True, "top": 50, "dry_run": True}, {"cpu": 1}, True),
        ({"cpu": 1}, {"cpu": 2}, False),
        ({"cpu": 1, "count": 2}, {"cpu": 1, "count": 3}, False),
        ({"ports": [1]}, {"ports": [2]}, False),
        ({"ttl_s": 5}, {"ttl_s": 6}, True),
        ({"cpu": 0}, {}, False),
    ],
)
def test_digests_tell_requests_apart(one: dict[str, object], other: dict[str, object], same: bool) -> None:
    """Two requests have one digest exactly when they ask for the same; lifetime and showing do not count."""
    assert (request_digest(read_request(one)) == request_digest(read_request(other))) is same
