"""Drains by query: the plan of the command; with apply, reserved."""

import msgspec
import pytest

from schemas.messages.operator import drained
from schemas.messages.process import Pipeline
from schemas.messages.proposal import COMMANDS, MoveProposal, read_proposal, write_proposal
from schemas.rpc.envelope import Query
from schemas.rpc.request import Draining, InvalidRequest
from scorer.planner import drain as of_drain
from scorer.planning.drain.drain import drain
from scorer.rpc.methods.records import CallError
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


@pytest.fixture
def scorer():
    names, usage = ("a1", "a2", "b1", "b2"), {"cpu": 1, "memory": 5}
    scorer = Scorer(fleet(*(machine(name, usage=usage, labels={"rack": name[0]}) for name in names)))
    for number in range(6):
        scorer.ask("place", id=f"i{number}", cpu=0.5 + number % 2 / 4, memory=1, machine="a1")
        scorer.ask("confirm", id=f"i{number}")
    scorer.ask("place", id="new", cpu=0.5, memory=1, machine="a1")
    scorer.ask("place", id="stays", cpu=0.5, memory=1, machine="a1", labels={"movable": "false"})
    scorer.ask("confirm", id="stays")
    return scorer


def query(query_id, **params):
    raw = msgspec.Raw(msgspec.json.encode({"machines": ["a1"], **params}))
    return Query(id=query_id, method="drain", deadline=9e9, params=raw)


@pytest.mark.parametrize(("more", "targets", "stays"), [
    ({"same": ["rack"]}, {"a2"}, {"new", "stays"}), ({"force": True}, {"a2", "b1", "b2"}, {"new"}),
])  # fmt: skip
def test_settings_of_the_plan(scorer, more, targets, stays):
    found = scorer.ask("drain", machines=["a1"], **more)
    assert {one["target"] for one in found["moves"]} <= targets
    assert {one["id"] for one in found["blocked"]} == stays


def test_apply_cordons_and_reserves(scorer):
    """Each instance holds both machines, until the time that was given; another drain tells it as moving."""
    found = scorer.ask("drain", machines=["a1"], apply=True, ttl_s=60)
    assert found["cordoned"]
    (rules,) = scorer.rules.entries.values()
    assert drained(rules, None) == Draining(ttl_s=60.0)
    ledger = scorer.service.current.ledger.instances
    for one in found["moves"]:
        moving = ledger[one["id"]].moving
        assert (moving.to, moving.number, moving.until) == (one["target"], one["move"], one["until"])
    assert len(found["moves"]) == 6
    again = scorer.ask("drain", machines=["a1"], apply=True)
    assert ([one["id"] for one in again["moves"]], len(again["moving"])) == ([], 6)
    confirmed = scorer.ask("confirm", id="i0", machine=ledger["i0"].moving.to)
    assert confirmed["machine"] != "a1"


def test_again_is_of_machines_that_are_drained_alone(scorer):
    """An operator may have uncordoned one since; none is cordoned by it, and what moves already is left."""
    assert scorer.ask("drain", machines=["a1"], apply=True, again=True)["drained"] == []
    assert scorer.rules.entries == {"a1": b""} or not scorer.rules.entries
    scorer.ask("drain", machines=["a1"], apply=True, force=True)
    again = scorer.ask("drain", machines=["a1"], apply=True, again=True, force=True)
    assert (again["drained"], again["moves"], len(again["moving"])) == (["a1"], [], 7)
    scorer.ask("uncordon", machines=["a1"])
    assert scorer.ask("drain", machines=["a1"], apply=True, again=True)["drained"] == []


def proposal(instance, **more):
    """A message that waits: of a planner, unless ``more`` says otherwise."""
    given = {"fence": 3, "expires_at": 9e9, **more}
    return write_proposal(
        MoveProposal(id=instance, at=1.0, instance=instance, generation=1, source="a1", target="b2", gain=1.0, **given)
    )


def test_what_a_planner_proposed_of_them_is_taken_off(scorer):
    """Other instances' proposals stay, and what cannot be read; moves of commands that have ended go, too."""
    stays = [proposal("other"), proposal("theirs", fence=COMMANDS), b"{"]
    scorer.rules.moves += [*stays, proposal("i3"), proposal("gone", fence=COMMANDS, expires_at=2.0)]
    found = scorer.ask("drain", machines=["a1"])
    assert len(scorer.rules.moves) == 5, "what is only planned takes nothing off"
    found = scorer.ask("drain", machines=["a1"], apply=True)
    assert [raw for raw in scorer.rules.moves if raw in stays] == stays
    begun = [one for raw in scorer.rules.moves if raw not in stays and (one := read_proposal(raw))]
    assert [(one.instance, one.target) for one in reversed(begun)] == [
        (one["id"], one["target"]) for one in found["moves"]
    ]
    assert all(one.of_command for one in begun)


@pytest.mark.parametrize("near", [["g", "g", "g"], ["g1", "g0"], ["g1", "g2", "g0"]])
def test_who_must_be_together_begins_to_move(scorer, near):
    """Though the planner has not read the cordon that it wrote: who is first needs none of those that follow it."""
    for number, app in enumerate(near):
        labels = {"app": "g" if app == "g" else f"g{number}"}
        scorer.ask("place", id=f"g{number}", cpu=0.5, memory=1, machine="b1", labels=labels)
        scorer.ask("confirm", id=f"g{number}")
        scorer.ask("update", id=f"g{number}", affinity=[{"instances": {"app": app}}])
    found = scorer.ask("drain", machines=["b1"], apply=True)
    assert (len(found["moves"]), found["blocked"]) == (len(near), [])
    assert len({one["target"] for one in found["moves"]}) == 1


def test_the_same_query_gets_the_same_answer(scorer):
    """Also after the moves were confirmed and the machine takes instances again, which it goes on doing."""
    first = scorer.answer(query("q", apply=True))
    scorer.ask("uncordon", machines=["a1"])
    one = msgspec.json.decode(first)["moves"][0]
    scorer.ask("confirm", id=one["id"], machine=one["target"])
    assert scorer.answer(query("q", apply=True)) == first
    assert scorer.rules.entries["a1"] == b""


def test_moves_are_announced_before_the_answer_is_kept(scorer, monkeypatch):
    """A planner that ends between the two is followed by one that finds no answer, and tells them as moving."""

    def lost(*_):
        raise ConnectionError

    monkeypatch.setattr(scorer.rules, "keep", lost)
    with pytest.raises(ConnectionError):
        scorer.ask("drain", machines=["a1"], apply=True)
    assert len(scorer.rules.moves) == 6
    monkeypatch.undo()
    again = scorer.ask("drain", machines=["a1"], apply=True)
    assert (again["moves"], len(again["moving"]), len(scorer.rules.moves)) == ([], 6, 6)


def test_an_instance_that_has_left_since_the_plan_stays_out(scorer, monkeypatch):
    """A scorer may release one while the planner plans: the move is refused, and the others begin."""

    def planned(*given, **how):
        found = drain(*given, **how)
        scorer.ask("release", id="i5")
        return found

    monkeypatch.setattr(of_drain, "plan_of", planned)
    found = scorer.ask("drain", machines=["a1"], apply=True)
    assert {one["id"] for one in found["blocked"]} == {"i5", "new", "stays"}
    assert len(found["moves"]) == 5


@pytest.mark.parametrize("ends", [CallError("DEADLINE_EXCEEDED", "late", retryable=True), SystemExit("killed")])
def test_moves_that_began_are_for_movers_however_the_drain_ends(scorer, ends):
    """The query is refused when its deadline passes; what has begun holds its target, and waits for a mover."""
    planner, begun = scorer.planner, list[str]()

    def update(params, query):
        if len(begun) == 2:
            raise ends
        begun.append(params["id"])
        return planner.update(params, query)

    with pytest.raises(type(ends)):
        of_drain.drain(query("q", apply=True), planner.inputs, scorer.rules, update, planner.current.cordon)
    waiting = [one.instance for raw in reversed(scorer.rules.moves) if (one := read_proposal(raw))]
    assert (waiting, len(begun)) == (begun, 2)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"machines": ["*"]}, "would drain every machine"), ({}, "give names, globs or a selector"),
        ({"machines": ["c1"]}, "no machine 'c1'"), ({"machines": ["a1"], "ttl_s": 0}, "ttl_s"),
        ({"machines": ["a1"], "profile": "none"}, "profile"),
    ],
)  # fmt: skip
def test_refused(scorer, asked, error):
    with pytest.raises((InvalidRequest, CallError), match=error):
        scorer.ask("drain", apply=True, **asked)
    assert scorer.rules.entries == {}


def test_it_chooses_the_cheapest_machines(scorer):
    scorer.ask("place", id="alone", cpu=0.5, memory=1, machine="b1")
    scorer.ask("confirm", id="alone")
    found = scorer.ask("drain", consolidate=2)
    assert (found["drained"], [one["id"] for one in found["moves"]]) == (["b1"], ["alone"])
    assert found["emptying"] == {
        "wanted": 2, "tried": 1, "left": {"without instances": 2, "with an instance that may not move": 1},
        "machines": [{"machine": "b1", "memory": 1.0, "instances": 1}],
    }  # fmt: skip
    assert (found["machines"], found["instances"], scorer.rules.entries) == (4, 9, {})
    found = scorer.ask("drain", consolidate=2, apply=True)
    assert (found["cordoned"], [*scorer.rules.entries]) == (True, ["b1"])
    assert scorer.service.current.ledger.instances["alone"].moving is not None
    with pytest.raises(InvalidRequest, match="chooses the machines itself"):
        scorer.ask("drain", consolidate=1, machines=["a1"])


def test_what_a_dead_machine_held_gets_targets_once_though_killed_between():
    """A machine that sends data is not lost; after a kill the rest gets a target, and what has one keeps it."""
    usage = {"cpu": 1, "memory": 5}
    scorer = Scorer(fleet(machine("a1", usage=usage, age_s=50), *(machine(name, usage=usage) for name in ("a2", "b1"))))
    classes = ("free", "batch", "mid", "prod")
    for name in classes:
        fields = {"priority_class": name, "labels": {"movable": "false"}}
        scorer.ask("place", id=name, cpu=0.5, memory=1, machine="a1", **fields)
        scorer.ask("confirm", id=name)
    with pytest.raises(InvalidRequest, match="a1 sent data within the last 60 s"):
        scorer.ask("drain", machines=["a1"], lost=True, apply=True)
    assert scorer.rules.entries == {}
    still = fleet(*(machine(name, usage=usage, age_s=70) for name in ("a1", "a2", "b1")))
    scorer.service.current.latest.snapshot = scorer.service.current.snapshot = still.snapshot
    with pytest.raises(InvalidRequest, match="no machine sends data"):
        scorer.ask("drain", machines=["a1"], lost=True, apply=True)
    dead = fleet(machine("a1", usage=usage, age_s=70), *(machine(name, usage=usage) for name in ("a2", "b1")))
    scorer.service.current.latest.snapshot = scorer.service.current.snapshot = dead.snapshot
    planner, begun = scorer.planner, list[str]()
    now_s = planner.inputs("", "").now_s
    up, late = Pipeline(((now_s - 3600.0, now_s),)), Pipeline(((now_s - 3600.0, now_s), (now_s - 30.0, now_s)))
    dead.snapshot.pipeline = late
    with pytest.raises(InvalidRequest, match="the stream app has not read all samples of the last 60 s"):
        scorer.ask("drain", machines=["a1"], lost=True, apply=True)
    dead.snapshot.pipeline = up

    def killed(params, query):
        if len(begun) == 2:
            raise CallError("DEADLINE_EXCEEDED", "killed", retryable=True)
        begun.append(params["id"])
        return planner.update(params, query)

    with pytest.raises(CallError, match="killed"):
        of_drain.drain(query("q", apply=True, lost=True), planner.inputs, scorer.rules, killed, planner.current.cordon)
    assert begun == ["prod", "mid"]
    scorer.service.current.snapshot = dead.snapshot  # as the next turn of the loop does
    how = drained(scorer.rules.entries["a1"], None)
    assert how == Draining(ttl_s=3600.0, force=True, lost=True)
    dead.snapshot.pipeline = late
    again = scorer.ask("drain", machines=["a1"], apply=True, again=True, **msgspec.structs.asdict(how))
    assert again["moves"] == []
    dead.snapshot.pipeline = up
    again = scorer.ask("drain", machines=["a1"], apply=True, again=True, **msgspec.structs.asdict(how))
    assert ([one["id"] for one in again["moves"]], len(again["moving"])) == (["batch", "free"], 2)
    messages = [one for raw in reversed(scorer.rules.moves) if (one := read_proposal(raw))]
    assert [(one.instance, one.reason) for one in messages] == [
        (name, "lost") for name in ("prod", "mid", "batch", "free")
    ]
