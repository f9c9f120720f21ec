"""Plans by query: the steps of the command; nothing is changed."""

from typing import Any

import pytest

from schemas.rpc.request import InvalidRequest, read_request
from scorer.ledger.record.instance import of_builtins
from scorer.planning.wanted.wanted import compare
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.tables import Tables
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer

WANTED = [
    {"id": "same", "cpu": 1, "memory": 1}, {"id": "grows", "cpu": 2, "memory": 1},
    {"id": "moves", "cpu": 1, "memory": 1, "machine": "m2"}, {"id": "new", "cpu": 1, "memory": 1, "count": 2},
    {"id": "huge", "cpu": 999, "memory": 1},
]  # fmt: skip


@pytest.fixture
def scorer() -> Scorer:
    """Three machines, and instances on one of them, of which one is not wanted."""
    scorer = Scorer(fleet(*(machine(f"m{number}", usage={"cpu": 1, "memory": 5}) for number in range(3))))
    for name in ("same", "grows", "moves", "gone"):
        scorer.ask("place", id=name, cpu=1, memory=1, machine="m1", labels={"app": "x"} if name == "gone" else {})
        scorer.ask("confirm", id=name)
    return scorer


def test_the_steps_are_those_of_the_command(scorer: Scorer) -> None:
    """In the same order, with what an update is to be told; the ledger stays as it is."""
    current = scorer.service.current
    inputs = RankingInputs(current.snapshot, current.ledger, current.profiles.choose(), current.clock(), Tables())
    requests = [read_request(one) for one in WANTED if one["id"] != "new"]
    requests[3:3] = [read_request({"id": f"new-{n}", "cpu": 1, "memory": 1}) for n in (1, 2)]
    expected = compare(requests, inputs, prune=True, prune_labels={"app": "x"})
    before = dict(current.ledger.instances)
    found = scorer.ask("plan", instances=WANTED, prune=True, prune_labels={"app": "x"})
    assert [(one["action"], one["id"], one["source"], one["target"], one["why"]) for one in found["steps"]] == [
        (one.action, one.id, one.source, one.target, one.why) for one in expected.steps
    ]
    assert found["counts"] == {
        "release": 1, "change": 1, "update": 0, "move": 1, "place": 2, "refuse": 1, "same": 1
    }  # fmt: skip
    (grows,) = (one for one in found["steps"] if one["id"] == "grows")
    assert (grows["changes"], grows["generation"]) == ({"cpu": 2.0}, before["grows"].generation)
    assert current.ledger.instances == before
    assert scorer.ask("update", id="grows", **grows["changes"])["amounts"][0] == 2.0
    assert scorer.ask("plan", instances=WANTED)["others"] == 1


@each_row(
    ("asked", "error"),
    [
        ({}, "instances: expected a list"), ({"instances": [{"cpu": 1}]}, r"instances\[0\]: id is required"),
        ({"instances": [{"id": "a"}, {"id": "a"}]}, r"instances\[1\]: id 'a' is listed twice"),
        ({"instances": [{"id": "a", "cpu": "x"}]}, r"instances\[0\]: cpu"),
        ({"instances": [], "prune_labels": {"a": "b"}}, "prune_labels: goes with prune"),
        ({"instances": [{"id": "a"}] * 10_001}, "instances: 10001, at most 10000"),
        ({"instances": [], "apply": True}, "apply"),
    ],
)  # fmt: skip
def test_refused(scorer: Scorer, asked: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidRequest, match=error):
        scorer.ask("plan", **asked)


def test_a_step_has_the_record_by_which_it_can_be_undone(scorer: Scorer) -> None:
    """Where that is asked for; the answer says on how large a fleet it was planned."""
    scorer.ask("place", id="there", cpu=1, memory=1, labels={"app": "a"})
    scorer.ask("confirm", id="there")
    wanted = [{"id": "there", "cpu": 2, "memory": 1, "labels": {"app": "a"}}, {"id": "new", "cpu": 1, "memory": 1}]
    before = scorer.service.current.ledger.instances["there"]
    found = scorer.ask("plan", instances=wanted, records=True)
    records = {one["id"]: one["record"] for one in found["steps"]}
    assert of_builtins(records["there"]) == before
    assert records["new"] is None
    assert (found["machines"], found["instances"]) == (
        len(scorer.service.current.snapshot), len(scorer.service.current.ledger)
    )  # fmt: skip
    assert [one["record"] for one in scorer.ask("plan", instances=wanted)["steps"]] == [None, None]


def test_releases_come_last_where_that_is_asked_for(scorer: Scorer) -> None:
    scorer.ask("place", id="there", cpu=1, memory=1)
    scorer.ask("confirm", id="there")
    asked: dict[str, Any] = {"instances": [{"id": "new", "cpu": 1, "memory": 1}], "prune": True}
    first, last = (scorer.ask("plan", **asked, release_last=late)["steps"] for late in (False, True))
    assert [one["action"] for one in first if one["id"] in ("there", "new")] == ["release", "place"]
    assert [one["action"] for one in last if one["id"] in ("there", "new")] == ["place", "release"]
