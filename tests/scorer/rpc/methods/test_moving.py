"""A move in two steps, as a caller asks for it."""

import pytest

from schemas.resources import RESOURCES
from schemas.rpc.parameters import Update
from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import Outcome, Transition
from scorer.rpc.methods.records import CallError, read_params
from scorer.rpc.methods.update import ATTEMPTS_MAX, SIZES, changed
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Model, Scorer


def scorer_with(**request):
    found = Scorer(
        fleet(
            machine("m0", 8, usage={"cpu": 0.5, "memory": 1}, labels={"disk": "ssd"}),
            machine("m1", 8, usage={"cpu": 1, "memory": 1}, labels={"disk": "ssd"}),
            machine("m2", 2, usage={"cpu": 1.9, "memory": 1}, labels={"disk": "ssd"}),
            machine("m3", 8, usage={"cpu": 0.1, "memory": 1}, labels={"disk": "hdd"}),
        )
    )
    found.ask("place", **{"id": "a", "cpu": 1, "memory": 1, "machine": "m0", **request})
    found.ask("confirm", id="a")
    return found


def words(scorer, method, **params):
    with pytest.raises((CallError, ValueError)) as refused:
        scorer.ask(method, **params)
    return str(refused.value)


def test_the_same_move_again_is_a_repeat_and_another_is_refused():
    scorer = scorer_with()
    first = scorer.ask("update", id="a", machine="m1", move=True)
    for machine_name in ("m1", ""):
        again = scorer.ask("update", id="a", machine=machine_name, move=True)
        assert (again["repeated"], again["moving"]) == (True, first["moving"])
    for params in ({"machine": "m3", "move": True}, {"machine": "m3"}, {"machine": ""}):
        assert "is moving from m0 to m1 until" in words(scorer, "update", id="a", **params)
    assert "confirm it with machine m1, or update it with cancel_move" in words(scorer, "update", id="a", machine="m1")
    assert "'a' is on m0, moving to m1" in words(scorer, "confirm", id="a", machine="m3")
    assert "'a' is on m0, moving to m1" in words(scorer, "release", id="a", machine="m1")
    assert "by another move" in words(scorer, "confirm", id="a", machine="m1", move=1)


def test_the_confirmation_of_a_move_whose_instance_ended_says_so():
    scorer = scorer_with()
    scorer.ask("update", id="a", machine="m1", move=True)
    scorer.ask("release", id="a")
    assert "'a' was released at" in words(scorer, "confirm", id="a", machine="m1")


@pytest.mark.parametrize(
    ("step", "params"),
    [
        pytest.param("update", {"cpu": 2}, id="a change"),
        pytest.param("update", {"machine": "m0", "move": True}, id="a move to where it is"),
        pytest.param("begin_move", {"machine": "m1", "move": True}, id="a move"),
        pytest.param("cancel_move", {"cancel_move": True}, id="a cancelled move"),
    ],
)
def test_what_another_scorer_changed_meanwhile_is_tried_again(step, params, monkeypatch):
    scorer = scorer_with()
    carry_out = getattr(Model, step)
    for refusals in (ATTEMPTS_MAX, 3):
        follower = scorer.service.current.follower
        left = [Transition(follower.epoch, follower.change, [], [Outcome("stale")])] * refusals

        def carried_out(*given, left=left, **more):
            return left.pop() if left else carry_out(*given, **more)

        monkeypatch.setattr(Model, step, carried_out)
        if refusals < ATTEMPTS_MAX:
            assert scorer.ask("update", id="a", **params)["machine"] == "m0"
        else:
            assert words(scorer, "update", id="a", **params) == "'a' was changed by others 10 times"


def test_what_else_may_change_while_it_moves():
    """A role is a fact; what grows must have room on both."""
    scorer = scorer_with(cluster="c", role="replica", ports=[7])
    scorer.ask("place", id="b", cpu=3, machine="m1")
    scorer.ask("update", id="a", machine="m1", move=True)
    assert scorer.ask("update", id="a", role="master", labels={"x": "y"})["moving"]["to"] == "m1"
    assert scorer.ask("update", id="a", cpu=2)["moving"]["to"] == "m1"
    promised = [one["resources"]["cpu"]["promised"] for one in scorer.ask("machines", names=["m0", "m1"])["machines"]]
    assert promised == [2.0, 5.0]
    assert "cannot be updated" in words(scorer, "update", id="a", cpu=6)  # there would be room where it is


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        ({"machine": "m1", "move": True, "role": "master"}, "role: does not go together with move"),
        ({"move": True, "cpu": 2}, "cpu: goes together with move only when machine says where"),
        ({"machine": "", "move": True, "cpu": 2}, "cpu: goes together with move only when machine says where"),
        ({"machine": "m0", "move": True, "cpu": 2}, "'a' is on m0: update it without move"),
        ({"machine": "m1", "move": True, "cpu": 9}, "no machine for 'a'"),
        ({"machine": "m1", "move": True, "selector": "disk=hdd"}, "no machine for 'a'"),
        ({"machine": "m1", "move": True, "selector": "(("}, "selector: cannot read"),
        ({"selector": "(("}, "selector: cannot read"),
        ({"cancel_move": True, "cpu": 2}, "cpu: does not go together with cancel_move"),
        ({"cancel_move": True, "role": "master"}, "role: does not go together with cancel_move"),
        ({"cancel_move": True, "move": True}, "cancel_move: does not go together with move"),
        ({"machine": "m2", "move": True}, "no machine for 'a'"),
        ({"machine": "m3", "move": True}, "no machine for 'a'"),
        ({"machine": "nowhere", "move": True}, "no machine for 'a'"),
        ({"machine": "m1", "move": True, "generation": 99}, "another reservation"),
    ],
)
def test_a_move_that_cannot_be(params, wrong):
    """What the first request said of its machines is upheld; a move changes nothing else."""
    assert wrong in words(scorer_with(selector="disk=ssd"), "update", id="a", **params)


def test_a_move_may_change_its_amounts():
    """The target holds the new ones, the source the old ones; each query says what it moves with."""
    scorer = scorer_with(selector="disk=ssd")

    def promised():
        rows = scorer.ask("machines", names=["m0", "m1"])["machines"]
        return [one["resources"]["cpu"]["promised"] for one in rows]

    how = {"id": "a", "machine": "m1", "move": True}
    rest = len(RESOURCES) - 2
    begun = scorer.ask("update", **how, cpu=3, limits={"cpu": 4}, selector="")
    assert (begun["amounts"][0], promised()) == (1.0, [1.0, 3.0])
    assert begun["moving"]["new"] == {
        "amounts": [3.0, 1.0, *[0.0] * rest], "limits": [4.0, -1.0, *[-1.0] * rest], "expected": [], "maxmemory": 0.0,
        "rules": None,
    }  # fmt: skip
    assert scorer.ask("update", **how, cpu="3")["repeated"] is True
    assert scorer.ask("update", **how)["repeated"] is True
    for params in ({**how, "cpu": 2}, {"id": "a", "cpu": 1.5}, {"id": "a", "selector": "disk=hdd"}):
        assert "with other amounts or rules: confirm it there" in words(scorer, "update", **params)
    assert scorer.ask("update", id="a", role="master", ports=[7])["moving"] == begun["moving"]
    done = scorer.ask("confirm", id="a", machine="m1")
    assert (done["amounts"][:2], done["limits"][0], done["rules"]) == ([3.0, 1.0], 4.0, None)
    assert (done["role"], done["ports"], promised()) == ("master", [7], [0.0, 3.0])
    scorer.ask("update", id="a", machine="m0", move=True, cpu=5)
    assert promised() == [5.0, 3.0]
    assert scorer.ask("update", id="a", cancel_move=True)["amounts"][0] == 3.0
    assert promised() == [0.0, 3.0]


def test_rules_are_changed_in_place_and_hold_for_the_next_move():
    scorer = scorer_with(selector="disk=ssd")
    tolerations = [{"key": "gpu"}]
    changed = scorer.ask("update", id="a", selector="disk=hdd", tolerations=tolerations)
    assert (changed["machine"], changed["rules"]["selector"]) == ("m0", "disk=hdd")
    assert scorer.ask("update", id="a", selector="disk=hdd")["repeated"] is True
    assert scorer.ask("update", id="a", move=True, dry_run=True)["moving"]["to"] == "m3"
    assert scorer.ask("update", id="a", selector="")["rules"]["tolerations"][0]["key"] == "gpu"
    assert scorer.ask("update", id="a", tolerations=[])["rules"] is None


def test_it_stays_where_it_is_best():
    """Without a machine the best one is chosen; where that is its own there is no move. To its own there is none."""
    scorer = scorer_with(selector="disk=ssd")
    for target in ("", "m0"):
        stays = scorer.ask("update", id="a", machine=target, move=True)
        assert (stays["repeated"], stays["moving"]) == (True, None)
    assert scorer_with().ask("update", id="a", move=True)["moving"]["to"] == "m3"


def test_it_is_not_in_its_own_way():
    """Its own anti-affinity does not see it, on a machine or beyond; others see it on both."""
    apart = {"labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "x"}, "topology": "disk"}]}
    scorer = scorer_with(**apart)
    assert scorer.ask("update", id="a", machine="m1", move=True)["moving"]["to"] == "m1"
    other = scorer.ask("rank", id="b", cpu=1, top=4, labels={"app": "x"},
                       anti_affinity=[{"instances": {"app": "x"}}])  # fmt: skip
    assert [one["machine"] for one in other["candidates"]] == ["m3"]


def test_a_confirmation_names_the_machine_with_the_move():
    assert "give the machine" in words(scorer_with(), "confirm", id="a", move=3)


@pytest.mark.parametrize(
    ("params", "decided"),
    [
        pytest.param({"machine": "m1", "move": True}, 1, id="a move"),
        pytest.param({"machine": "m1"}, 1, id="moved at once"),
        pytest.param({"machine": "m1", "move": True, "dry_run": True}, 0, id="a dry run"),
        pytest.param({"cpu": 2}, 0, id="a resize"),
    ],
)
def test_a_move_is_a_decision(params, decided):
    scorer = scorer_with()
    scorer.service.writes()
    scorer.ask("update", id="a", **params)
    assert len(scorer.service._decisions.take()) == decided


@pytest.mark.parametrize("cordon", [True, False])
def test_the_first_of_a_group_may_leave_a_drained_machine(cordon):
    """It goes where the drain said, the other follows it and goes nowhere else; elsewhere it stays near the other."""
    near = {"labels": {"app": "x"}, "affinity": [{"instances": {"app": "x"}}], "memory": 1}
    of = fleet(*(machine(f"m{n}", 8, usage={"cpu": 1, "memory": 1}) for n in range(3)))
    scorer = Scorer(of)
    for name in "ab":
        scorer.ask("place", id=name, cpu=1, machine="m0", **near)
        scorer.ask("confirm", id=name)
    if not cordon:
        assert "not near" in words(scorer, "update", id="a", machine="m2", move=True)
        return
    scorer.service.current.snapshot = of.snapshot.with_cordon(["m0"])
    assert scorer.ask("update", id="a", machine="m2", move=True)["moving"]["to"] == "m2"
    assert "not near" in words(scorer, "update", id="b", machine="m1", move=True)
    assert scorer.ask("update", id="b", machine="", move=True)["moving"]["to"] == "m2"


REST = len(RESOURCES) - 2
ONE = Instance(
    id="a", machine="m", state="confirmed", amounts=(1.0, 2e9, *[None] * REST), limits=(2.0, -1.0, *[-1.0] * REST)
)


@pytest.mark.parametrize(
    ("asked", "field", "value"),
    [
        pytest.param({}, "amounts", ONE.amounts, id="nothing"),
        pytest.param({"cpu": "500m"}, "amounts", (0.5, 2e9, *[None] * REST), id="one amount"),
        pytest.param({"limits": {}}, "limits", (), id="no limits"),
        pytest.param({"maxmemory": "1K"}, "maxmemory", 1000.0, id="maxmemory"),
        pytest.param({"labels": {}}, "labels", {}, id="labels"),
        pytest.param({"selector": " "}, "rules.selector", " ", id="selector"),
    ],
)
def test_what_is_given_changes(asked, field, value):
    new = changed(ONE, read_params(Update, {"id": "a", **asked}))
    for name in field.split("."):
        new = getattr(new, name)
    assert new == value


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        pytest.param({"cpu": "x"}, "cpu: ", id="amount"),
        pytest.param({"limits": {"gpu": 1}}, "limits: no resource 'gpu'", id="resource"),
        pytest.param({"selector": "= ="}, "selector: cannot read", id="selector"),
        pytest.param({"prefer": [{"selector": "(("}]}, "prefer[0].selector: cannot read", id="preference"),
        pytest.param({"affinity": [{"instances": {"a" * 253: "b" * 253}}] * 32, "selector": "a" * 300},
                     "characters in all", id="long"),
        pytest.param({"cpu": 1e300}, "at most", id="large"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_names_its_field(asked, wrong):
    with pytest.raises(InvalidRequest) as refused:
        changed(ONE, read_params(Update, {"id": "a", **asked}))
    assert wrong in str(refused.value)


def test_what_goes_with_a_move_is_a_parameter():
    assert set(SIZES) < set(Update.__struct_fields__)
    assert set(SIZES) < set(Request.__struct_fields__)
