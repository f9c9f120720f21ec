"""How the steps of a plan are undone, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from schemas.rpc.request import Request, read_request
from scorer.client import WindwardError
from scorer.commands.planning.plan_apply import Done, Stopped
from scorer.commands.planning.plan_undo import undo
from scorer.commands.planning.plan_view import undone, undone_words
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.rules import Rules
from scorer.planning.wanted.steps import Step

OLD = Instance(
    id="i", machine="m1", state="confirmed", amounts=Request(cpu=1.0).given_amounts(), ports=(7,), started_at=5.0,
    rules=Rules(selector="disk=ssd"),
)  # fmt: skip
OWN = {"id": "i", "generation": 4}
REFUSED = Stopped("RESOURCE_EXHAUSTED", Step("place", "last"), "full")


class Scorer:
    """Notes each call; refuses those of a method."""

    def __init__(self, refused: str = "", code: str = "RESOURCE_EXHAUSTED") -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refused, self.code = refused, code

    def __call__(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((method, dict(params)))
        if method == self.refused:
            raise WindwardError(self.code, "cpu too full")
        return {}


def step(action: Any, **more: Any) -> Step:
    """A step on the instance i."""
    return Step(action, "i", "m1", "m2", generation=4, old=OLD, **more)


@pytest.mark.parametrize(
    ("one", "calls"),
    [
        pytest.param(
            Step("place", "i", request=read_request({"id": "i"})),
            [("release", {"id": "i", "generation": 9})],
            id="placed",
        ),
        pytest.param(
            step("move", changes={"cpu": 3.0, "ports": (8,)}),
            [("update", {**OWN, "cancel_move": True}), ("update", {**OWN, "ports": [7]})],
            id="moved",
        ),
        pytest.param(
            step("change", changes={"cpu": 3.0, "memory": 1e9, "labels": {"a": "b"}}),
            [("update", {**OWN, "cpu": 1.0, "memory": 0.0, "labels": {}})],
            id="changed",
        ),
        pytest.param(
            step("update", changes={"selector": "", "tolerations": [{"key": "a"}]}),
            [("update", {**OWN, "selector": "disk=ssd", "tolerations": []})],
            id="updated",
        ),
        pytest.param(
            step("release"),
            [
                (
                    "place",
                    {"id": "i", "machine": "m1", "cpu": 1.0, "maxmemory": 0.0, "ports": [7], "selector": "disk=ssd"},
                ),
                ("confirm", {"id": "i", "machine": "m1", "started_at": 5.0}),
            ],
            id="released",
        ),
    ],
)
def test_each_step_has_a_way_back(one: Step, calls: list[tuple[str, dict[str, Any]]]) -> None:
    """By the reservation that the step was about."""
    scorer = Scorer()
    assert undo(scorer, [one, REFUSED.step], [Done(0, "m2", 9)], REFUSED) == {}
    assert json.loads(json.dumps(scorer.calls)) == [[method, params] for method, params in calls]


def test_the_last_one_is_undone_first_and_each_once() -> None:
    """A move that was told of in two parts is one step."""
    steps = [step("change", changes={"cpu": 3.0}), step("move"), REFUSED.step]
    scorer = Scorer()
    undo(scorer, steps, [Done(0, "m1"), Done(1, "m2"), Done(1, "m2")], REFUSED)
    assert ["cancel_move" in params for _, params in scorer.calls] == [True, False]


@pytest.mark.parametrize(
    ("code", "action", "undone_too"),
    [("UNAVAILABLE", "move", True), ("RESOURCE_EXHAUSTED", "move", False), ("UNAVAILABLE", "place", False)],
)
def test_a_step_without_an_answer_is_undone_too(code: str, action: str, undone_too: bool) -> None:
    """It may have been carried out; a new instance may be another's and is not released."""
    last = step(action)
    scorer = Scorer()
    undo(scorer, [last], [], Stopped(code, last, "away"))
    assert bool(scorer.calls) == undone_too


@pytest.mark.parametrize(
    ("scorer", "left", "words"),
    [
        (Scorer(), {}, "2 steps before it are undone: nothing has changed"),
        (
            Scorer("update"),
            {0: "cpu too full"},
            "the step before it is undone, 1 cannot be: 'i' (change): cpu too full",
        ),
        (Scorer("release", "NOT_FOUND"), {}, "2 steps before it are undone: nothing has changed"),
        (
            Scorer("release"),
            {1: "cpu too full"},
            "the step before it is undone, 1 cannot be: 'j' (place): cpu too full",
        ),
    ],
    ids=["all", "a size", "it had expired", "a release"],
)
def test_what_cannot_be_undone_is_told(scorer: Scorer, left: dict[int, str], words: str) -> None:
    """The others are; a reservation that is no more needs no release."""
    steps = [step("change", changes={"cpu": 0.5}), Step("place", "j"), REFUSED.step]
    found = undo(scorer, steps, [Done(0, "m1"), Done(1, "m2", 9)], REFUSED)
    assert found == left
    told: list[dict[str, Any]] = [
        {"id": one.id, "action": one.action, **({"done": True} if n < 2 else {})} for n, one in enumerate(steps)
    ]
    assert undone(told, found) == {"undone": not left}
    assert undone_words({"steps": told}, "RESOURCE_EXHAUSTED") == words


def test_an_unknown_outcome_is_not_called_unchanged() -> None:
    """Where no scorer answered, nobody knows whether the last step was carried out."""
    assert "whether it was carried out itself is not known" in undone_words({"steps": []}, "UNAVAILABLE")
    assert undone_words({"steps": []}, "RESOURCE_EXHAUSTED") == "nothing has changed"
