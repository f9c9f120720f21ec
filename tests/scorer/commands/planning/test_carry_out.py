"""How the steps of a plan are carried out: each rule after a refusal; and how they are undone."""

import json

import pytest

from schemas.rpc.request import Request, read_request
from scorer.client import Client, ConfirmResult, Line, Moving, PlaceResult, ReleaseResult, UpdateResult, WindwardError
from scorer.commands.planning import carry_out as carrying
from scorer.commands.planning.carry_out import Calls, OnRefusal, Outcome, carry_out, undo
from scorer.ledger.record.instance import Instance, Rules
from scorer.planning.wanted.wanted import step

NO_ROOM = WindwardError("RESOURCE_EXHAUSTED", "no room")
SILENT = WindwardError("DEADLINE_EXCEEDED", "no answer")
STEPS = [
    step("release", "r", source="m1", generation=4),
    step("change", "c", "m1", source="m1", generation=5, changes={"cpu": 2.0}),
    step("move", "v", "m2", source="m1", changes={"cpu": 3.0, "selector": "a", "role": "master"}),
    step("refuse", "x"),
    step("place", "p", "m3"),
    step("place", "q", "m3"),
]
REQUESTS = {
    "p": read_request({"id": "p", "cpu": 1, "ports": [7]}),
    "q": read_request({"id": "q", "cpu": 1, "labels": {"a": "b"}}),
}


class NoScorer(Client):
    def __init__(self):
        """It has no server."""

    def place(self, **request):
        raise AssertionError(request)

    def confirm(self, id, **more):  # noqa: A002
        raise AssertionError(id)

    def update(self, id, **changes):  # noqa: A002
        raise AssertionError(id)

    def release(self, id, **more):  # noqa: A002
        raise AssertionError(id)


class Scorer(NoScorer):
    """Notes each call; refuses those of an instance or of a method, and places some instances nowhere."""

    def __init__(self, refused=None, missing=()):
        self.calls = []
        self.refused, self.missing = refused or {}, missing

    def _note(self, method, params):
        self.calls.append((method, params))
        named = params.get("id") or params["instances"][0]["id"]
        for name in (method, named, f"{named} {params.get('role', '')}"):
            if name in self.refused:
                raise self.refused[name]
        return {"id": named, "machine": "m1", "state": "confirmed", "amounts": []}

    def place(self, **request):
        self._note("place", request)
        placed = [
            Line(id=one["id"], machine="m9", state="reserved", reserved_at=1.0, version=1, generation=7)
            for one in request.get("instances", ()) if one["id"] not in self.missing
        ]  # fmt: skip
        return PlaceResult(placed=placed, missing=len(self.missing), reason="0/3 feasible")

    def confirm(self, id, **more):  # noqa: A002
        return ConfirmResult(**self._note("confirm", {"id": id, **more}))

    def release(self, id, **more):  # noqa: A002
        return ReleaseResult(**self._note("release", {"id": id, **more}))

    def update(self, id, **changes):  # noqa: A002
        record = self._note("update", {"id": id, **changes})
        if changes.get("move") and id != "there":
            record["moving"] = Moving(to=changes["machine"], since=1.0, until=9.0, number=3)
        return UpdateResult(**record)


def states(outcomes):
    return {one.step.id: one.state for one in outcomes}


def test_a_plan_is_carried_out_in_its_order():
    scorer = Scorer()
    outcomes = list(carry_out(STEPS, Calls(scorer, requests=REQUESTS), OnRefusal.STOP))
    assert [(one.position, one.machine, one.generation) for one in outcomes] == [
        (0, None, 0), (1, "m1", 0), (2, "m2", 0), (4, "m9", 7), (5, "m9", 7),
    ]  # fmt: skip
    assert {one.state for one in outcomes} == {"done"}
    assert [one.moving.number for one in outcomes if one.moving] == [3]
    assert scorer.calls[:4] == [
        ("release", {"id": "r", "generation": 4}),
        ("update", {"id": "c", "generation": 5, "cpu": 2.0}),
        ("update", {"id": "v", "machine": "m2", "move": True, "cpu": 3.0, "selector": "a"}),
        ("update", {"id": "v", "role": "master"}),
    ]
    method, params = scorer.calls[4]
    assert (method, [read_request(one) for one in params["instances"]]) == (
        "place",
        list(REQUESTS.values()),
    )
    list(carry_out(STEPS, Calls(scorer, "seed", 60.0, all_or_nothing=True, requests=REQUESTS), OnRefusal.STOP))
    assert scorer.calls[6] == ("update", {"id": "c", "generation": 5, "cpu": 2.0, "profile": "seed"})
    assert scorer.calls[7][1]["ttl_s"] == 60.0
    assert "ttl_s" not in scorer.calls[8][1]
    assert (scorer.calls[9][1]["profile"], scorer.calls[9][1]["all_or_nothing"]) == ("seed", True)


def test_new_instances_are_placed_in_calls_of_bounded_size(monkeypatch):
    monkeypatch.setattr(carrying, "PLACED_AT_ONCE", 2)
    scorer = Scorer()
    new = {f"n{number}": read_request({"id": f"n{number}"}) for number in range(5)}
    steps = [*(step("place", name) for name in new), STEPS[1]]
    assert len(list(carry_out(steps, Calls(scorer, requests=new), OnRefusal.STOP))) == 6
    assert [len(params.get("instances", ())) for _, params in scorer.calls] == [2, 2, 1, 0]


@pytest.mark.parametrize(
    ("scorer", "done", "ended", "message"),
    [
        pytest.param(Scorer({"c": NO_ROOM}), "r", {"c": "refused"}, "no room", id="a step"),
        pytest.param(Scorer(missing="p"), "rcvq", {"p": "refused"}, "1 find no machine: 0/3 feasible", id="no machine"),
        pytest.param(Scorer(missing="pq"), "rcv", {"p": "refused"}, "2 find no machine: 0/3 feasible", id="for two"),
        pytest.param(Scorer({"place": SILENT}), "rcv", {"p": "unanswered"}, "no answer", id="no answer"),
    ],
)
def test_stop(scorer, done, ended, message):
    outcomes = list(carry_out(STEPS, Calls(scorer, requests=REQUESTS), OnRefusal.STOP))
    assert states(outcomes) == dict.fromkeys("rcvpq", "not tried") | dict.fromkeys(done, "done") | ended
    failed = [one for one in outcomes if one.failed]
    assert [one.error.message for one in failed if one.error] == [message]
    assert {one.error for one in outcomes if one.state == "not tried"} <= {failed[0].error}


def test_the_second_part_of_a_move_is_refused():
    move = list(carry_out(STEPS, Calls(Scorer({"v master": NO_ROOM})), OnRefusal.STOP))[2]
    assert (move.state, move.begun, move.machine) == ("refused", True, "m2")
    assert not next(carry_out(STEPS, Calls(Scorer({"release": NO_ROOM})), OnRefusal.STOP)).begun


def move_steps():
    """Moves that depend on each other: `b` and `c` on `a`, `d` on `b`; `e` on none."""
    places = (("a", "A", "B"), ("b", "C", "A"), ("c", "B", "D"), ("d", "E", "C"), ("e", "E", "F"))
    return [step("move", name, target, source=source) for name, source, target in places]


@pytest.mark.parametrize(
    ("rule", "error", "expected"),
    [
        (OnRefusal.STOP, NO_ROOM, ["refused", *["not tried"] * 4]),
        (OnRefusal.GO_ON, NO_ROOM, ["refused", *["done"] * 4]),
        (OnRefusal.DROP_DEPENDENTS, NO_ROOM, ["refused", *["dropped"] * 3, "done"]),
        (OnRefusal.STOP, SILENT, ["unanswered", *["not tried"] * 4]),
        (OnRefusal.GO_ON, SILENT, ["unanswered", *["done"] * 4]),
        (OnRefusal.DROP_DEPENDENTS, SILENT, ["unanswered", *["not tried"] * 4]),
    ],
)
def test_what_follows_a_refusal(rule, error, expected):
    """Nothing more; all others; or those that need not that one: a target that was to be left, or a source."""
    scorer = Scorer({"a": error})
    outcomes = list(carry_out(move_steps(), Calls(scorer, requests=REQUESTS), rule))
    assert [one.state for one in outcomes] == expected
    assert len(scorer.calls) == 1 + expected.count("done")
    causes = {one.step.id: one.cause.id for one in outcomes if one.cause}
    assert causes == ({"b": "a", "c": "a", "d": "b"} if "dropped" in expected else {})


def test_what_has_no_machine_depends_on_nothing():
    """A release has no target and a new instance no source: they are not the same machine."""
    scorer = Scorer({"r": NO_ROOM})
    there, requests = step("place", "s", "m1"), {**REQUESTS, "s": read_request({"id": "s"})}
    outcomes = list(carry_out([STEPS[0], STEPS[4], there], Calls(scorer, requests=requests), OnRefusal.DROP_DEPENDENTS))
    assert states(outcomes) == {"r": "refused", "s": "dropped", "p": "done"}
    outcomes = list(
        carry_out(STEPS[4::-4], Calls(Scorer({"p": NO_ROOM}), requests=requests), OnRefusal.DROP_DEPENDENTS)
    )
    assert states(outcomes) == {"p": "refused", "r": "done"}


def test_who_takes_no_more_outcomes_ends_it():
    scorer = Scorer({"a": SILENT})
    assert next(carry_out(move_steps(), Calls(scorer, requests=REQUESTS), OnRefusal.GO_ON)).state == "unanswered"
    assert len(scorer.calls) == 1


def test_an_instance_that_does_not_move():
    there, elsewhere = (step("move", "there", to, source=at) for at, to in (("m2", "m1"), ("m1", "m2")))
    (done,) = carry_out([there], Calls(Scorer()), OnRefusal.STOP)
    assert (done.state, done.machine, done.moving) == ("done", "m1", None)
    (refused,) = carry_out([elsewhere], Calls(Scorer()), OnRefusal.STOP)
    assert (refused.state, str(refused.error)) == ("refused", "FAILED_PRECONDITION: there is on m1 and does not move")


def test_what_may_succeed_later_is_tried_again():
    answers = []

    class Overtaken(Scorer):
        def update(self, id, **changes):  # noqa: A002
            if error := answers.pop(0):
                raise error
            return super().update(id, **changes)

    overtaken, away = WindwardError("UNAVAILABLE", "overtaken", retryable=True), WindwardError("UNAVAILABLE", "away")
    calls = Calls(Overtaken(), tries=3)
    answers[:] = [overtaken, overtaken, None]
    assert next(carry_out([STEPS[1]], calls, OnRefusal.STOP)).state == "done"
    for error, tries in ((away, 1), (overtaken, 3), (WindwardError("ABORTED", "gone", retryable=True), 1)):
        answers[:] = [error] * 3
        assert next(carry_out([STEPS[1]], calls, OnRefusal.STOP)).failed
        assert len(answers) == 3 - tries
    answers[:] = [overtaken, None]
    assert next(carry_out([STEPS[1]], Calls(Overtaken()), OnRefusal.STOP)).state == "unanswered"


OLD = Instance(
    id="i", machine="m1", state="confirmed", amounts=Request(cpu=1.0).given_amounts(), ports=(7,), started_at=5.0,
    rules=Rules(selector="disk=ssd"),
)  # fmt: skip
OWN = {"id": "i", "generation": 4}


def old(action, **more):
    return step(action, OLD, "m2", generation=4, **more)


PUT_BACK = {"id": "i", "machine": "m1", "cpu": 1.0, "ports": [7], "selector": "disk=ssd"}


@pytest.mark.parametrize(
    ("action", "changes", "updates"),
    [
        ("move", {"cpu": 3.0, "ports": (8,)}, [{"cancel_move": True}, {"ports": [7]}]),
        ("change", {"cpu": 3.0, "memory": 1e9, "labels": {"a": "b"}}, [{"cpu": 1.0, "memory": 0.0, "labels": {}}]),
        ("update", {"selector": "", "tolerations": [{"key": "a"}]}, [{"selector": "disk=ssd", "tolerations": []}]),
        ("place", {}, [("release", {"id": "i", "generation": 9})]),
        ("release", {}, [("place", PUT_BACK), ("confirm", {"id": "i", "machine": "m1", "started_at": 5.0})]),
    ],
)
def test_each_step_has_a_way_back(action, changes, updates):
    scorer = Scorer()
    assert undo([Outcome(0, old(action, changes=changes), "done", "m2", 9)], Calls(scorer, all_or_nothing=True)) == {}
    calls = [list(one) if isinstance(one, tuple) else ["update", {**OWN, **one}] for one in updates]
    assert json.loads(json.dumps(scorer.calls)) == calls


def test_the_profile_checks_what_is_put_back():
    scorer = Scorer()
    undo([Outcome(0, old("change", changes={"cpu": 3.0})), Outcome(1, old("release"))], Calls(scorer, "seed"))
    assert [params.get("profile") for _, params in scorer.calls] == ["seed", None, "seed"]


def test_the_last_one_is_undone_first_and_each_once():
    """A move of two parts is one step, and so is one whose second part was refused."""
    steps = [old("change", changes={"cpu": 3.0}), old("move", changes={"role": "master"})]
    scorer = Scorer({"i master": NO_ROOM})
    outcomes = list(carry_out(steps, Calls(scorer), OnRefusal.STOP))
    assert outcomes[-1].begun
    scorer.calls.clear()
    undo(outcomes, Calls(scorer))
    assert [tuple(params.keys() - OWN.keys()) for _, params in scorer.calls] == [("cancel_move",), ("role",), ("cpu",)]


@pytest.mark.parametrize(
    ("code", "action", "undone_too"),
    [
        ("UNAVAILABLE", "move", True), ("INTERNAL", "move", True), ("RESOURCE_EXHAUSTED", "move", False),
        ("UNAVAILABLE", "place", False),
    ],
)  # fmt: skip
def test_a_step_without_an_answer_is_undone_too(code, action, undone_too):
    """It may have been carried out; a new instance may be another's and is not released."""
    scorer = Scorer()
    undo([Outcome(0, old(action)).after(WindwardError(code, "away"))], Calls(scorer))
    assert bool(scorer.calls) == undone_too


def test_what_was_not_tried_is_not_undone():
    outcomes = [
        Outcome(0, old("move"), "not tried", error=SILENT),
        Outcome(1, old("move"), "dropped", cause=STEPS[0]),
    ]
    assert undo(outcomes, Calls(NoScorer())) == {}


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        ({}, {}),
        ({"update": NO_ROOM}, {0: NO_ROOM}),
        ({"release": WindwardError("NOT_FOUND", "gone")}, {}),
        ({"release": NO_ROOM}, {1: NO_ROOM}),
        ({"release": SILENT}, {1: SILENT}),
    ],
    ids=["all", "a size", "it had expired", "a release", "no answer"],
)
def test_what_cannot_be_undone_is_told(refused, left):
    scorer = Scorer(refused)
    made = [Outcome(0, old("change", changes={"cpu": 0.5})), Outcome(1, step("place", "j"), "done", "m1", 9)]
    assert undo(made, Calls(scorer)) == left
    assert [method for method, _ in scorer.calls] == ["release", "update"]
