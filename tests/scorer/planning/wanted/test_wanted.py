"""Wanted instances against what is there: every kind of step, in its order, and that none breaks a rule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rpc.request import Request, read_request
from scorer.ledger.record.instance import Moving, arrival, as_request, copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.planning.wanted.wanted import as_wanted, compare
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine

IDLE = {"cpu": {"mean": 1, "std": 0.2}, "memory": 5}


def two(**more):
    first = machine("a", 8, 100, usage=IDLE, labels={"disk": "ssd"}, operator=more.pop("operator", {}), **more)
    there = {"id": "i", "machine": "a", "cpu": 2, "memory": 1, "labels": {"app": "x"}, "role": "replica"}
    return fleet(first, machine("b", 8, 100, usage=IDLE), instances=[there])


def found(of, *wanted, profile="windward", **how):
    requests = [read_request(one) for one in wanted]
    return compare(requests, of.inputs(load_profiles().choose(profile)), **how)


def brief(plan):
    return [(one.action, one.id, one.target, one.why) for one in plan.steps]


ARRIVED = "+"
FAR = "not near the instances asked for"
SAME = {"id": "i", "cpu": 2, "memory": 1, "labels": {"app": "x"}, "role": "replica"}


@pytest.mark.parametrize(
    ("change", "step"),
    [
        pytest.param({}, None, id="as it is"),
        pytest.param({"machine": "a"}, None, id="where it is to be"),
        pytest.param({"nic": 0, "maxmemory": 0}, None, id="none is zero"),
        pytest.param({"cpu": 1}, ("change", "a", "cpu 2 -> 1"), id="shrinks"),
        pytest.param({"cpu": 8}, ("change", "a", "cpu 2 -> 8"), id="grows to what its machine has"),
        pytest.param({"labels": {}}, ("change", "a", "labels app=x -> -"), id="labels go"),
        pytest.param({"role": "master", "ports": [1]},
                     ("change", "a", "ports - -> 1, role replica -> master"), id="role"),
        pytest.param({"limits": {"cpu": 4}}, ("change", "a", "limits changed"), id="limits"),
        pytest.param({"machine": "b"}, ("move", "b", "the file names the machine"), id="named elsewhere"),
        pytest.param({"machine": "b", "cpu": 3},
                     ("move", "b", "the file names the machine; cpu 2 -> 3"), id="and grows"),
        pytest.param({"selector": "disk!=ssd"},
                     ("move", "b", "not selected by label; selector - -> disk!=ssd"), id="a rule refuses it"),
        pytest.param({"selector": "disk=ssd"}, ("update", "a", "selector - -> disk=ssd"), id="a rule that holds"),
        pytest.param({"selector": "disk=ssd", "cpu": 1},
                     ("change", "a", "cpu 2 -> 1, selector - -> disk=ssd"), id="a rule, and shrinks"),
        pytest.param({"tolerations": [{"key": "gpu"}], "prefer": [{"selector": "a=b"}]},
                     ("update", "a", "prefer changed, tolerations changed"), id="tolerations"),
        pytest.param({"anti_affinity": [{"instances": {"app": "x"}}]},
                     ("update", "a", "anti_affinity changed"), id="apart from its own kind"),
        pytest.param({"affinity": [{"instances": {"app": "y"}}]},
                     ("refuse", "a", f"{FAR}; 0/2 feasible: 2 {FAR}"), id="near none"),
        pytest.param({"machine": "z"},
                     ("refuse", "a", "the file names the machine; there is no machine 'z'"), id="nowhere"),
        pytest.param({"cpu": 20},
                     ("refuse", "a", "too much cpu promised; 0/2 feasible: 2 cpu larger than the machine"),
                     id="too large"),
        pytest.param({"cluster": "c"},
                     ("refuse", "a", "cluster '' is to be 'c': release it and place it anew"), id="fixed"),
    ],
)  # fmt: skip
def test_an_instance_that_is_there(change, step):
    plan = found(two(), SAME | change)
    assert brief(plan) == ([] if step is None else [(step[0], "i", step[1], step[2])])
    assert plan.same == (step is None)


@pytest.mark.parametrize(
    ("first", "target"),
    [
        pytest.param({"operator": {"cordon": True}}, None, id="cordoned"),
        pytest.param({"age_s": 900}, None, id="stale"),
        pytest.param({"usage": {"cpu": {"mean": 7.9, "std": 0.1}, "memory": 99}}, None, id="hot"),
        pytest.param({"operator": {"capacity": {"cpu": 1}}}, None, id="smaller by now"),
        pytest.param({"operator": {"taints": [{"key": "spare", "effect": "refuse"}]}}, "b", id="tainted"),
    ],
)
def test_what_is_there_moves_by_rules_and_not_by_load(first, target):
    """A cordon, old data, load and what is promised already keep newcomers away, and move nothing."""
    of = two(**{"operator": {}, **first}) if "usage" not in first else fleet(
        machine("a", 8, 100, **first), machine("b", 8, 100, usage=IDLE), instances=[SAME | {"machine": "a"}]
    )  # fmt: skip
    plan = found(of, SAME)
    assert [one.target for one in plan.steps] == ([] if target is None else [target])


def test_what_grows_moves_when_its_machine_is_full():
    """The largest limit that it exceeds is named; what shrinks goes first and may make the room."""
    mate = {"id": "mate", "machine": "a", "cpu": 4, "memory": 1}
    of = fleet(machine("a", 8, 100, usage=IDLE), machine("b", 8, 100, usage=IDLE),
               instances=[SAME | {"machine": "a"}, mate])  # fmt: skip
    grown = SAME | {"cpu": 6}
    assert brief(found(of, grown)) == [("move", "i", "b", "too much cpu promised; cpu 2 -> 6")]
    shrunk = {"id": "mate", "cpu": 1, "memory": 1}
    assert brief(found(of, grown, shrunk)) == [
        ("change", "mate", "a", "cpu 4 -> 1"), ("change", "i", "a", "cpu 2 -> 6"),
    ]  # fmt: skip


def test_new_ones_see_what_is_released():
    """Only confirmed instances with the labels are pruned; the rest is counted and left alone."""
    of = fleet(
        machine("a", 8, 100, usage=IDLE),
        instances=[
            {"id": "old", "machine": "a", "cpu": 6, "memory": 1, "labels": {"app": "x"}},
            {"id": "other", "machine": "a", "cpu": 0.5, "memory": 1},
            {"id": "coming", "machine": "a", "cpu": 0.5, "memory": 1, "state": "reserved", "labels": {"app": "x"}},
        ],
    )
    new = {"id": "new", "cpu": 4, "memory": 1}
    assert brief(found(of, new))[0][:2] == ("refuse", "new")
    plan = found(of, new, prune=True, prune_labels={"app": "x"})
    assert [(one.action, one.id, one.target) for one in plan.steps] == [("release", "old", None), ("place", "new", "a")]
    assert plan.others == 2
    assert [one.id for one in found(of, new, prune=True).steps] == ["old", "other", "new"]


@pytest.mark.parametrize(
    ("named", "why"), [("z", "there is no machine 'z'"), ("a", "0/2 feasible: 1 cordoned, 1 not the machine asked for")]
)
def test_a_new_one_on_a_machine_that_takes_none(named, why):
    of = two(operator={"cordon": True})
    assert brief(found(of, {"id": "new", "cpu": 1, "machine": named})) == [("refuse", "new", None, why)]


def test_a_reservation_is_as_wanted_or_refused():
    of = fleet(machine("a", 8, 100, usage=IDLE), instances=[SAME | {"machine": "a", "state": "reserved"}])
    assert found(of, SAME).same == 1
    assert brief(found(of, SAME | {"cpu": 3})) == [
        ("refuse", "i", "a", "reserved: only a confirmed instance is changed")
    ]


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({}, None),
        ({"machine": "b"}, None),
        ({"cpu": 1}, ("change", "cpu 2 -> 1")),
        ({"cpu": 3}, ("refuse", "moving to b: it grows once it is confirmed there")),
        ({"machine": "a"}, ("refuse", "moving to b: confirm or cancel that move first")),
    ],
)
def test_an_instance_that_is_moving(change, step):
    """It is as wanted when it moves to where it is wanted; it holds both machines meanwhile."""
    of = two()
    of.ledger.apply(copy_with(of.ledger.instances["i"], moving=Moving(to="b", since=of.now_s, until=of.now_s + 60)))
    assert [(one.action, one.why) for one in found(of, SAME | change).steps] == ([] if step is None else [step])
    full = {"id": "new", "cpu": 7, "memory": 1}
    assert [one.action for one in found(of, SAME, full).steps] == ["refuse"]


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"cpu": 3}, None),
        ({"cpu": 3, "labels": {}}, ("change", "labels app=x -> -")),
        ({"cpu": 4}, ("refuse", "moving to b: it grows once it is confirmed there")),
        ({}, ("refuse", "moving to b with other amounts or rules: confirm or cancel it first")),
    ],
)
def test_an_instance_that_moves_to_another_size(change, step):
    of = two()
    old = of.ledger.instances["i"]
    moving = Moving("b", of.now_s, of.now_s + 60, 1, arrival(copy_with(old, amounts=(3.0, *old.amounts[1:]))))
    of.ledger.apply(copy_with(old, moving=moving))
    assert [(one.action, one.why) for one in found(of, SAME | change).steps] == ([] if step is None else [step])
    room = {"id": "new", "memory": 1}
    assert [one.action for one in found(of, {**room, "cpu": 6, "machine": "a"}).steps] == ["place"]
    assert [one.action for one in found(of, {**room, "cpu": 6, "machine": "b"}).steps] == ["refuse"]


def test_what_moves_holds_both_machines():
    """The room that it leaves is there once the move is confirmed: nothing of this plan goes there."""
    moved, new = SAME | {"machine": "b", "cpu": 3}, {"id": "new", "cpu": 7, "memory": 1, "machine": "a"}
    assert [(one.action, one.id) for one in found(two(), moved, new).steps] == [("move", "i"), ("refuse", "new")]
    fits = new | {"cpu": 6}
    assert [(one.action, one.id) for one in found(two(), moved, fits).steps] == [("move", "i"), ("place", "new")]
    too_much = new | {"machine": "b", "cpu": 5.5}
    assert [(one.action, one.id) for one in found(two(), moved, too_much).steps] == [("move", "i"), ("refuse", "new")]


APART = {"labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "x"}}]}
ONE_WAY = {"labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "y"}}]}


@pytest.mark.parametrize(
    ("wanted", "moves"),
    [
        pytest.param([APART] * 2, 1, id="two that avoid each other"),
        pytest.param([APART] * 3, 2, id="three"),
        pytest.param([APART] * 5, 3, id="more than machines: the rest is refused"),
        pytest.param([ONE_WAY, {"labels": {"app": "y"}}], 1, id="one that avoids the other"),
        pytest.param([ONE_WAY, ONE_WAY, {"labels": {"app": "y"}}], 2, id="two that avoid a third"),
        pytest.param([{"cluster": "s", "anti_affinity": [{"instances": {"cluster": "s"}}]}] * 2, 1, id="by cluster"),
        pytest.param([{"role": "r", "anti_affinity": [{"instances": {"role": "r"}}]}] * 2, 1, id="by role"),
        pytest.param([APART | {"ports": [1]}, APART], 1, id="with a port"),
        pytest.param([{"labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "x"}, "topology": "rack"}]}] * 2,
                     1, id="by rack"),
        pytest.param([APART | {"machine": "m1"}, APART], 1, id="one is named elsewhere"),
        pytest.param([APART, APART | {"machine": "m3"}], 1, id="the second is named elsewhere"),
        pytest.param([APART, APART | {"selector": "rack=r2"}, APART | {"not_on": ["m0"]}], 2, id="two must leave"),
        pytest.param([APART | {"selector": "rack=r0"}, APART], 1, id="one can be nowhere else"),
        pytest.param([APART, APART | {"machine": "m0"}, APART], 2, id="one is to be there"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("profile", ["windward", "kubernetes"])
def test_who_leaves_counts_no_more_at_its_source(wanted, moves, profile):
    """As many move as must, and the plan that was carried out has nothing left to do."""
    machines = [machine(f"m{n}", 80, 1000, usage=IDLE, labels={"rack": f"r{n}"}) for n in range(4)]
    fixed = ("cluster", "labels")
    there = [
        {"id": f"i{n}", "machine": "m0", "cpu": 1, "memory": 1} | {k: one[k] for k in fixed if k in one}
        for n, one in enumerate(wanted)
    ]
    file = [{"id": f"i{n}", "cpu": 1, "memory": 1, **one} for n, one in enumerate(wanted)]
    plan = found(fleet(*machines, instances=there), *file, profile=profile)
    assert (plan.count("move"), plan.count("refuse")) == (moves, 2 * (len(wanted) > len(machines)))
    at = {one["id"]: "m0" for one in there} | {one.id: one.target for one in plan.steps if one.action == "move"}
    after = fleet(*machines, instances=[one | {"machine": at[one["id"]]} for one in file])
    assert {one.action for one in found(after, *file, profile=profile).steps} <= {"refuse"}


def near(app, **more):
    return {"affinity": [{"instances": {"app": app}}], **more}


@pytest.mark.parametrize(
    ("wanted", "targets"),
    [
        pytest.param({"x": near("y"), "y": {"machine": "m1"}}, {"y": "m1", "x": "m1"}, id="one that stays"),
        pytest.param({"x": near("y", cpu=2), "y": {"machine": "m1"}}, {"y": "m1", "x": "m1"}, id="and grows"),
        pytest.param({"x": near("y"), "y": near("z"), "z": {"machine": "m1"}},
                     {"z": "m1", "y": "m1", "x": "m1"}, id="a chain"),
        pytest.param({"x": near("y", selector="big=yes"), "y": near("z"), "z": {"machine": "m3"}},
                     {"z": "m3", "x": None, "y": "m3"}, id="no machine has both"),
    ],
)  # fmt: skip
def test_nobody_is_left_alone_by_a_later_move(wanted, targets):
    machines = [machine(f"m{n}", 80, 1000, usage=IDLE, labels={"big": "yes"} if n < 3 else {}) for n in range(4)]
    some = [{"id": app, "cpu": 1, "memory": 1, "labels": {"app": app}} for app in wanted]
    of = fleet(*machines, instances=[one | {"machine": "m0"} for one in some])
    steps = found(of, *[one | wanted[one["id"]] for one in some]).steps
    assert {one.id: one.target if one.action == "move" else None for one in steps} == targets


def test_a_master_that_leaves_counts_until_it_is_gone():
    """The ledger counts it on both machines: no other master of its cluster is planned there."""
    masters = {"cluster": "s", "role": "master", "cluster_masters": 4, "cpu": 1, "memory": 1}
    machines = [machine(f"m{n}", 80, 1000, usage=IDLE) for n in range(2)]
    there = [{"id": "i", "machine": "m0", **masters}]
    of = fleet(*machines, instances=there)
    plan = found(of, {"id": "i", **masters, "machine": "m1"}, {"id": "new", **masters, "machine": "m0"})
    assert [one.action for one in plan.steps] == ["move", "refuse"]


def test_releases_come_last_where_that_is_asked_for():
    of = fleet(machine("a", 8, 100, usage=IDLE), instances=[{"id": "old", "machine": "a", "cpu": 6, "memory": 1}])
    for cpu, order in ((1, ["place", "release"]), (4, ["refuse", "release"])):
        plan = found(of, {"id": "new", "cpu": cpu, "memory": 1}, prune=True, release_last=True)
        assert [one.action for one in plan.steps] == order


@settings(max_examples=examples(40, 40), deadline=None)
@given(st.data())
def test_a_plan_breaks_no_rule_and_leaves_nothing_to_do(data):
    """Carried out, it is the file: a second plan has nothing but what was refused; no instance is in two steps."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    profile = load_profiles().choose(data.draw(st.sampled_from(["windward", "kubernetes", "seed"])))
    machines = [
        machine(f"m{n}", float(rng.integers(4, 20)), 100, labels={"disk": "ssd"} if n % 2 else {},
                usage={"cpu": {"mean": float(rng.uniform(0, 3)), "std": 0.3}, "memory": 5})
        for n in range(data.draw(st.integers(1, 6)))
    ]  # fmt: skip
    there = [
        {"id": f"i{n}", "machine": f"m{rng.integers(len(machines))}", "cpu": float(rng.uniform(0.1, 2)), "memory": 1}
        for n in range(data.draw(st.integers(0, 20)))
    ]
    of = fleet(*machines, instances=there)
    requests = []
    for n in range(data.draw(st.integers(0, 25))):
        old = of.ledger.instances.get(f"i{n}")
        request = as_request(old) if old and rng.random() < 0.5 else Request(id=f"i{n}", cpu=float(rng.uniform(0.1, 6)))
        some = {"selector": "disk=ssd"} if rng.random() < 0.2 else {}
        some |= {"machine": f"m{rng.integers(len(machines))}"} if rng.random() < 0.2 else {}
        requests.append(read_request({"id": request.id, "cpu": request.cpu, "memory": request.memory, **some}))
    plan = compare(requests, of.inputs(profile), prune=True)
    assert len({one.id for one in plan.steps}) == len(plan.steps)
    by_id = {one.id: one for one in requests}
    overlay = Overlay(of.ledger)
    for step in plan.steps:
        _carry_out(step, overlay, by_id, of, profile)
    after = fleet(*machines)
    there = {one.id: one for name in of.snapshot.names for one in overlay.held_on(name)}
    for one in there.values():
        if one.id.endswith(ARRIVED):
            after.ledger.apply(copy_with(as_wanted(one, by_id[one.id[:-1]]), id=one.id[:-1]))
        elif one.id + ARRIVED not in there:
            after.ledger.apply(as_wanted(one, by_id[one.id]) if one.id in by_id else one)
    refused = {one.id for one in plan.steps if one.action == "refuse"}
    again = compare(
        [one for one in requests if one.id not in refused], RankingInputs(of.snapshot, after.ledger, profile, of.now_s)
    )
    assert [one for one in again.steps if one.action in ("release", "place", "change")] == []
    assert again.same + again.count("move") + again.count("refuse") == len(requests) - len(refused)
    kept = [one for one in of.ledger.instances.values() if one.id in by_id]
    assert plan.count("same") + len(plan.steps) == len(requests) + plan.count("release")
    assert len(after.ledger) == len(kept) + plan.count("place")


def _carry_out(step, overlay, by_id, of, profile):
    """Check a step against the ledger with those before, and add it."""
    if step.action == "refuse":
        return
    old = of.ledger.instances.get(step.id)
    if old is not None:
        overlay.leave(step.id)
    if step.action == "release":
        return
    request = by_id[step.id]
    if step.action in ("place", "move"):
        ranking = rank(request, RankingInputs(of.snapshot, overlay.base, profile, of.now_s).on(overlay))
        assert ranking.feasible[of.snapshot.roster.index[str(step.target)]]
        new = instance_of(request, str(step.target), of.now_s)
        overlay.propose(new if old is None else copy_with(new, id=new.id + ARRIVED))
        if old is not None:
            overlay.propose(old)
    else:
        overlay.propose(as_wanted(old, request))
