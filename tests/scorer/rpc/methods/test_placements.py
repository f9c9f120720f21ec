"""Queries to place: what one asks for, and that queries taken together are read once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from schemas.names import Names
from schemas.rpc.envelope import Query
from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.record.transition import Call, NotAcknowledged
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.metrics import Metrics
from scorer.placement.choosing.reuse import Reuse
from scorer.placement.choosing.steps import Steps, drain
from scorer.placement.offers.placement import Placement
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.rpc.methods import placements as placements_module
from scorer.rpc.methods.decisions import DecisionLog
from scorer.rpc.methods.place import read_batch
from scorer.rpc.methods.placements import Placements
from tests.rows import each_row

NOW_S = 1_000.0


class Placing:
    """Puts every instance on machine m1; notes the ids it was given in one call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def place(self, requests: list[Request], *_: Any, **__: Any) -> Placement:
        """Reserve all of them."""
        self.calls.append([request.id for request in requests])
        return Placement(list(requests), [instance_of(one, "m1", NOW_S, one.id) for one in requests])

    def steps(self, requests: list[Request], *_: Any, **__: Any) -> Steps[Placement]:
        """Reserve all of them in one step."""
        return self.place(requests)
        yield


def make(monkeypatch: pytest.MonkeyPatch) -> tuple[Placements, Placing, list[str]]:
    """Return placements on empty inputs, what places for them, and the ids of the queries that are read."""
    inputs = SimpleNamespace(
        ledger=LedgerView(),
        clock=lambda: NOW_S,
        profiles=load_profiles(()),
        metrics=Metrics(),
        ranking=lambda _: None,
        call=lambda query: Call(query.id, query.deadline),
    )
    decisions = DecisionLog(Names(), "s1", 100)
    placing, read = Placing(), []
    placements = Placements(cast(Any, inputs), cast(Any, placing), Reuse(), decisions)

    def counted(params: dict[str, Any], query_id: str) -> Any:
        read.append(query_id)
        return read_batch(params, query_id)

    monkeypatch.setattr(placements_module, "read_batch", counted)
    return placements, placing, read


def query(name: str, **params: Any) -> Query:
    """Return a query to place."""
    return Query(id=name, method="place", params=msgspec.Raw(msgspec.json.encode(params)))


def answered(placements: Placements, *queries: Query) -> list[str | None]:
    """Take queries together and answer them; return the ids that the answers name."""
    placements.taken(queries)
    return [drain(placements.place(one)).id for one in queries]


@pytest.mark.parametrize(
    ("queries", "calls"),
    [
        pytest.param([query("a", cpu=1)], [["a"]], id="one"),
        pytest.param([query("a", cpu=1), query("b", cpu=1)], [["a", "b"]], id="alike"),
        pytest.param([query("a", cpu=1), query("b", cpu=2)], [["a"], ["b"]], id="unlike"),
        pytest.param([query("a", cpu=1, dry_run=True), query("b", cpu=1)], [["a"], ["b"]], id="one reserves nothing"),
    ],
)
def test_a_query_is_read_once(queries: list[Query], calls: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is placed alone or in a run, its parameters are decoded once and its own answer comes back."""
    placements, placing, read = make(monkeypatch)
    assert answered(placements, *queries) == [one.id for one in queries]
    assert placing.calls == calls
    assert read == [one.id for one in queries]


def test_the_answers_of_a_run_are_known_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the loop sends them in one write; what is placed by itself is not known before its turn."""
    placements, _, _ = make(monkeypatch)
    queries = [query("a", cpu=1), query("b", cpu=1), query("c", cpu=2)]
    placements.taken(queries)
    assert [placements.known(one) for one in queries] == [False, False, False]
    drain(placements.place(queries[0]))
    assert [placements.known(one) for one in queries] == [False, True, False]


def test_what_fails_a_run_fails_each_of_its_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not tried one by one: each would wait for the replicas as long again."""
    placements, placing, _ = make(monkeypatch)

    def unacknowledged(requests: list[Request], *_: Any, **__: Any) -> Placement:
        placing.calls.append([request.id for request in requests])
        raise NotAcknowledged("0 have")

    monkeypatch.setattr(placing, "place", unacknowledged)
    queries = [query(name, cpu=1) for name in "abc"]
    placements.taken(queries)
    for one in queries:
        with pytest.raises(NotAcknowledged):
            drain(placements.place(one))
    assert placing.calls == [["a", "b", "c"]]


def test_two_queries_of_one_id_get_each_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query id is the caller's; two callers may have chosen the same."""
    placements, _, read = make(monkeypatch)
    unlike = [query("q", id="a"), query("q", id="b", cpu=1), query("q", id="c")]
    alike = [query("q", id=name) for name in "def"]
    assert answered(placements, *unlike, *alike) == list("abcdef")
    assert read == ["q"] * 6


@pytest.mark.parametrize("order", ["aba", "aab", "abab", "abba", "cabcab"])
def test_a_query_sent_twice_is_answered_twice(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it is in two runs, or in one and beside it."""
    placements, _, _ = make(monkeypatch)
    sent = [query(name, cpu=2 if name == "c" else 1) for name in order]
    assert answered(placements, *sent) == list(order)


def test_a_query_that_cannot_be_read_is_refused_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queries taken with it are answered."""
    placements, _, _ = make(monkeypatch)
    wrong, fine = query("a", cpu=-1), query("b", cpu=1)
    placements.taken([wrong, fine])
    with pytest.raises(InvalidRequest, match="cpu"):
        drain(placements.place(wrong))
    assert drain(placements.place(fine)).machine == "m1"


@each_row(
    ("params", "message"),
    [
        pytest.param({"instances": [{"id": "a"}, {"id": "a"}]}, "instances: id 'a' is listed twice", id="id twice"),
        pytest.param({"instances": []}, "instances: expected a list of 1 to 10000 requests", id="none"),
        pytest.param({"instances": [3]}, "instances[0]: expected an object", id="a number"),
        pytest.param({"instances": [{}, {"cpu": -1}]}, "instances[1].cpu: ", id="one is wrong"),
        pytest.param({"instances": [{}], "count": 2}, "count: does not go together with instances", id="count"),
        pytest.param({"instances": [{"count": 9_999}, {}, {}]}, "instances: more than 10000", id="too many"),
        pytest.param(
            {"instances": [{"profile": "a"}, {"profile": "b"}]},
            "profile: 'b' in a query that began with 'a'",
            id="two profiles",
        ),
        pytest.param({"id": "a\nb"}, "id: 'a\\nb' holds characters that cannot be printed", id="line break"),
        pytest.param({"id": "a", "first_id": "0" * 14}, "first_id: give an id or a first_id", id="two names"),
        pytest.param({"first_id": "abc"}, "first_id: ", id="a short first id"),
    ],
)
def test_a_batch_that_is_refused_names_the_field(params: dict[str, Any], message: str) -> None:
    """The message begins with the field."""
    with pytest.raises(InvalidRequest) as refused:
        drain(read_batch(params, "q"))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("params", "ids", "single"),
    [
        pytest.param({}, ["q"], True, id="the query's id"),
        pytest.param({"id": "a"}, ["a"], True, id="its own"),
        pytest.param({"count": 2}, ["q-1", "q-2"], False, id="a count"),
        pytest.param({"instances": [{}, {"id": "x", "count": 2}]}, ["q-1", "x-1", "x-2"], False, id="a list"),
        pytest.param({"first_id": f"{0:013}z", "count": 2}, [f"{0:013}z", f"{0:012}10"], False, id="counted up"),
        pytest.param(
            {"instances": [{"first_id": "0" * 14, "count": 2}, {}]},
            [f"{n:014}" for n in (0, 1)] + ["q-2"],
            False,
            id="both",
        ),
    ],
)
def test_every_instance_has_an_id(params: dict[str, Any], ids: list[str], single: bool) -> None:
    """An instance without one gets the query's, so that the same query sent twice reserves once."""
    batch = drain(read_batch(params, "q"))
    assert ([request.id for request in batch.requests], batch.single) == (ids, single)
    assert len(batch.digests) == len(ids)


@pytest.mark.parametrize(("count", "pauses"), [(199, 0), (200, 1), (399, 1), (400, 2)])
def test_a_long_list_is_read_in_steps(count: int, pauses: int) -> None:
    """Of 200 instances each."""
    assert sum(1 for _ in read_batch({"instances": [{"cpu": 1}] * count}, "q")) == pauses
