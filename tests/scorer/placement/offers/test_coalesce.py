"""Queries taken together: which of them are placed as one batch."""

from __future__ import annotations

import msgspec
import pytest

from schemas.rpc.envelope import Query
from schemas.rpc.request import read_request
from scorer.placement.offers.coalesce import Asked, runs


def read(query: Query) -> Asked | None:
    """Return a placement of what the parameters say; nothing for any other method."""
    if query.method != "place":
        return None
    return Asked(query, read_request(msgspec.json.decode(query.params) | {"id": query.id}), "")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param(["a1", "a2", "a3"], [["a1", "a2", "a3"]], id="alike"),
        pytest.param(["a1", "b1", "a2"], [], id="never two in a row"),
        pytest.param(["a1", "a2", "b1", "b2"], [["a1", "a2"], ["b1", "b2"]], id="two runs"),
        pytest.param(["a1", "-", "a2", "a3"], [["a2", "a3"]], id="another method between them keeps its place"),
        pytest.param(["a1", "a1", "a2"], [["a1", "a2"]], id="one id twice is answered one after the other"),
        pytest.param(["a1"], [], id="one"),
    ],
)
def test_alike_queries_in_a_row(asked: list[str], found: list[list[str]]) -> None:
    """Equal requests under different ids go together, the order of unlike ones stays."""
    queries = [
        Query(
            v=1,
            id=name,
            method="release" if name == "-" else "place",
            params=msgspec.Raw(b'{"cpu": %d}' % ord(name[0])),
        )
        for name in asked
    ]
    together = runs(queries, read)
    assert [[one.query.id for one in run] for run in together] == found
