"""A drain: where instances go, which stay and why, and that no filter is overridden on the way."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import PRIORITY_CLASSES
from scorer.ledger.record.instance import Moving, as_request, copy_with, moved_to
from scorer.ledger.view.overlay import Overlay
from scorer.planning.drain.drain import drain
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.survive import with_cordon
from tests.effort import examples
from tests.scorer.fleets import fleet, machine

IDLE = {"cpu": {"mean": 1, "std": 0.2}, "memory": 5}
STAYS = {"labels": {"movable": "false"}}


def drained(of, *machines, profile="windward", **how):
    return drain(machines or ("gone",), of.inputs(load_profiles().choose(profile)), **how)


def small(*instances, **more):
    machines = [machine(name, 8, 100, usage=IDLE, labels={"rack": rack}) for name, rack in (("a", "1"), ("b", "2"))]
    gone = machine("gone", 32, 1000, usage={"cpu": 9, "memory": 50}, labels={"rack": "1"})
    return fleet(gone, *machines, instances=[{"machine": "gone", "memory": 1, **one} for one in instances], **more)


def where(found):
    return {one.id: one.target for one in (*found.moves, *found.blocked)}


def test_the_largest_first_and_the_rest_is_told_why():
    found = drained(small({"id": "s", "cpu": 2}, {"id": "l", "cpu": 8}, {"id": "m", "cpu": 8}), profile="kubernetes")
    assert sorted(map(str, where(found).values())) == ["None", "a", "b"]
    assert [(one.id, one.reason) for one in found.blocked] == [
        ("s", "0/3 feasible: 2 too much cpu promised, 1 cordoned")
    ]
    assert [one.id for one in found.moves] == ["l", "m"]


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [
        ("the larger one takes the machine of the smaller one", {"b": (3, "b,c"), "c": (2, "b")}, "cb"),
        ("so does the next larger one then", {"b": (3, "b,c,d"), "c": (2.5, "b,c"), "d": (2, "b")}, "dcb"),
        ("one has no machine", {"b": (3, "b,c"), "c": (2, "b"), "d": (1, "e")}, "cb-"),
    ],
)
def test_who_finds_no_machine_goes_first_in_another_try(name, asked, found):
    """Of machines of three cores, each takes one of these."""
    idle = {"cpu": {"mean": 0.1, "std": 0.01}, "memory": 1}
    machines = [machine(each, 3 if each != "gone" else 32, 100, usage=idle) for each in ("gone", *asked)]
    instances = [
        {"id": each, "machine": "gone", "cpu": cpu, "memory": 1, "selector": f"machine in ({some})"}
        for each, (cpu, some) in asked.items()
    ]
    targets = where(drained(fleet(*machines, instances=instances), "gone", profile="kubernetes"))
    assert "".join(targets[each] or "-" for each in asked) == found, name


def test_a_profile_without_the_filter_gets_it():
    found = with_cordon(Profile("bare"))
    assert [each.filter.name for each in found.filters] == ["cordon"]
    assert with_cordon(found) is found
    of = small({"id": "i", "cpu": 1})
    assert drain(["gone"], of.inputs(Profile("bare"))).moves[0].target in ("a", "b")


@pytest.mark.parametrize(
    ("instance", "how", "target"),
    [
        pytest.param({}, {}, "a", id="it goes to the best"),
        pytest.param({"state": "reserved"}, {}, None, id="a reservation stays"),
        pytest.param(STAYS, {}, None, id="it is said to stay"),
        pytest.param(STAYS, {"force": True}, "a", id="although it is said to stay"),
        pytest.param({}, {"same": ("rack",)}, "a", id="a machine of its rack"),
        pytest.param({}, {"same": ("zone",)}, "a", id="neither has the label"),
        pytest.param({"cluster": "shop"}, {}, "b", id="its cluster is on the other"),
        pytest.param({"cluster": "shop"}, {"same": ("rack",)}, None, id="its cluster is on the only one of its rack"),
        pytest.param({"ports": [7000]}, {}, "b", id="the port is taken on the other"),
    ],
)
def test_one_instance(instance, how, target):
    mate = {"id": "mate", "machine": "a", "cpu": 0.1, "cluster": "shop", "ports": [7000]}
    busy = {"id": "busy", "machine": "b", "cpu": 3}
    found = drained(small({"id": "i", "cpu": 2, **instance}, mate, busy), profile="kubernetes", **how)
    assert where(found) == {"i": target}
    assert bool(found.blocked and found.blocked[0].reason) == (target is None)


TWO_MASTERS = [{"id": f"m{n}", "cluster": "c", "role": "master", "cluster_masters": 4} for n in range(2)]


@pytest.mark.parametrize(
    ("instance", "mates", "other", "why"),
    [
        pytest.param({"cluster": "c", "role": "master", "cluster_masters": 4}, TWO_MASTERS, {},
                     "0/2 feasible: 1 cordoned, 1 too many masters of the cluster", id="masters"),
        pytest.param({"cluster": "c"}, [{"id": "m", "cluster": "c"}], {},
                     "1/2 feasible: 1 cordoned, none of them without another instance of cluster 'c'", id="cluster"),
        pytest.param({"ports": [7000]}, [{"id": "m", "ports": [7000]}], {},
                     "0/2 feasible: 1 cordoned, 1 port taken", id="a port"),
        pytest.param({"maxmemory": 90}, [{"id": "m", "maxmemory": 50}], {},
                     "0/2 feasible: 1 cordoned, 1 sum of maxmemory too large", id="maxmemory"),
        pytest.param({"memory": 99.5}, [], {}, "0/2 feasible: 1 cordoned, 1 too much memory used", id="memory"),
        pytest.param({"cpu": 7.5}, [], {}, "0/2 feasible: 1 cordoned, 1 too much cpu used", id="cpu"),
        pytest.param(STAYS, [], {},
                     "its label movable=false says that it stays (--force moves it)", id="pinned by its label"),
        pytest.param({"selector": "disk=ssd"}, [], {},
                     "0/2 feasible: 1 cordoned, 1 not selected by label", id="pinned by its selector"),
        pytest.param({"state": "reserved"}, [], {},
                     "reserved: an instance moves once it is confirmed, a reservation expires or is released",
                     id="only reserved"),
        pytest.param({}, [], {"operator": {"taints": [{"key": "spare", "effect": "refuse"}]}},
                     "0/2 feasible: 1 cordoned, 1 tainted", id="a taint"),
        pytest.param({}, [], {"age_s": 9000}, "0/2 feasible: 1 cordoned, 1 stale", id="old data"),
        pytest.param({}, [], {"operator": {"cordon": True}}, "0/2 feasible: 2 cordoned", id="no other machine open"),
    ],
)  # fmt: skip
def test_what_stays_is_told_why(instance, mates, other, why):
    there = [{"machine": "b", "cpu": 0.1, "memory": 1, **mate} for mate in mates]
    own = {"id": "i", "machine": "gone", "cpu": 1, "memory": 1, **instance}
    of = fleet(machine("gone", 8, 100, usage=IDLE), machine("b", 8, 100, usage=IDLE, **other), instances=[own, *there])
    assert [(one.id, one.reason) for one in drained(of).blocked] == [("i", why)]


def test_instances_of_one_cluster_do_not_meet_unless_they_had_met():
    """The second of three finds the first on its target."""
    of = small({"id": "i", "cpu": 1, "cluster": "c"}, {"id": "j", "cpu": 1, "cluster": "d"}, {"id": "k", "cpu": 2})
    assert where(drained(of)).keys() == {"i", "j", "k"}
    together = small(*({"id": f"i{n}", "cpu": 1, "cluster": "c"} for n in range(3)))
    assert sorted(map(str, where(drained(together)).values())) in (["a", "a", "b"], ["a", "b", "b"])
    apart = small(
        {"id": "i", "cpu": 1, "cluster": "c"}, {"id": "a", "machine": "a", "cpu": 1, "cluster": "c"},
        {"id": "b", "machine": "b", "cpu": 1, "cluster": "c"},
    )  # fmt: skip
    assert drained(apart).blocked[0].reason == (
        "2/3 feasible: 1 cordoned, none of them without another instance of cluster 'c'"
    )
    assert where(drained(apart, lost=True)).keys() == {"i"}


TOGETHER = {"labels": {"app": "x"}, "affinity": [{"instances": {"app": "x"}}]}


def follows(app, other, *, cpu, topology="machine", **labels):
    near = {"instances": {"app": other}, "topology": topology}
    return {"labels": {"app": app, **labels}, "affinity": [near], "cpu": cpu}


CACHE, WEB = {"labels": {"app": "c"}}, {"labels": {"app": "w"}, "affinity": [{"instances": {"app": "c"}}]}


@pytest.mark.parametrize(
    ("instances", "moved", "machines"),
    [
        pytest.param([TOGETHER | {"cpu": 1}] * 3, 3, 1, id="near each other"),
        pytest.param([TOGETHER | {"cpu": 3}] * 2, 2, 1, id="they fill a machine"),
        pytest.param([TOGETHER | {"cpu": 3}] * 3, 0, 0, id="no machine takes all: none"),
        pytest.param([WEB | {"cpu": 3}, CACHE | {"cpu": 1}], 2, 1, id="one follows the other"),
        pytest.param([WEB | {"cpu": 5}, CACHE | {"cpu": 5}], 0, 0, id="it cannot follow: both stay"),
        pytest.param([TOGETHER | {"cpu": 1, "selector": "rack=2"}, TOGETHER | {"cpu": 2}], 2, 1,
                     id="another machine is tried for the first"),
        pytest.param([TOGETHER | {"cpu": 3}, {"cpu": 6}], 2, 2, id="others go alone"),
        pytest.param([TOGETHER | {"cpu": 1}, TOGETHER | {"cpu": 1, "machine": "a"}], 1, 1,
                     id="one that is elsewhere is joined"),
        pytest.param([TOGETHER | {"cpu": 5}, TOGETHER | {"cpu": 5, "machine": "a"}], 0, 0,
                     id="one that is elsewhere has no room"),
        pytest.param([TOGETHER | {"cpu": 1}, TOGETHER | {"cpu": 1, "labels": {"app": "x", "movable": "false"}}], 0, 0,
                     id="one that stays keeps the other"),
        pytest.param([{"labels": {"app": "x"}, "affinity": [{"instances": {"app": "x"}, "topology": "rack"}],
                       "cpu": 5}] * 2, 0, 0, id="in one rack, which has room for one"),
        pytest.param([follows("w", "c", cpu=1), follows("c", "w", cpu=2)], 2, 1, id="each follows the other"),
        pytest.param([follows("w", "c", cpu=3), follows("c", "w", cpu=6)], 0, 0, id="no machine takes both"),
        pytest.param([follows("w", "c", cpu=1), follows("c", "d", cpu=1), follows("d", "w", cpu=1)], 3, 1, id="a ring"),
        pytest.param([follows("w", "c", cpu=1), follows("c", "w", cpu=5, topology="rack")], 2, 1, id="two distances"),
        pytest.param([follows("w", "c", cpu=1, kubernetes="k"), follows("c", "w", cpu=1, kubernetes="k")], 0, 0,
                     id="pods, of which kube-scheduler lets none be the first"),
        pytest.param([{"labels": {"app": "w"}, "affinity": [{"instances": {"app": "c"}}], "cpu": 3},
                      {"labels": {"app": "c"}, "affinity": [{"instances": {"app": "d"}}], "cpu": 2},
                      {"labels": {"app": "d"}, "cpu": 1}], 3, 1, id="a chain"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("profile", ["windward", "kubernetes"])
def test_what_must_be_together_moves_together(instances, moved, machines, profile):
    """All of a group, in an order in which each may go, or none of it."""
    of = small(*({"id": f"i{n}", **one} for n, one in enumerate(instances)))
    found = drained(of, profile=profile)
    assert (len(found.moves), len({one.target for one in found.moves})) == (moved, machines)
    assert len(where(found)) == sum(one.get("machine", "gone") == "gone" for one in instances)


def test_a_neighbour_that_leaves_later_is_no_neighbour():
    """One goes to its own rack, where the other still is, and that one to the rest of the group: both go there."""
    near = {"labels": {"app": "x"}, "affinity": [{"instances": {"app": "x"}, "topology": "rack"}], "memory": 1}
    machines = [
        machine(name, 8, 100, usage=IDLE, labels={"rack": rack}) for name, rack in zip("abc", "112", strict=True)
    ]
    there = [{"id": name, "machine": on, "cpu": cpu, **near} for name, on, cpu in
             (("i0", "a", 3), ("i1", "c", 2), ("i2", "c", 1), ("i3", "a", 3))]  # fmt: skip
    found = drained(fleet(*machines, instances=there), "a")
    alone = {one.id for one in found.moves if one.target == "b"}
    assert len(alone) != 1
    assert len(found.moves) + len(found.blocked) == 2


def test_a_daemon_is_left_on_its_machine():
    """A drain gives it no target, not by force either; a machine with nothing else is empty, and is left alone."""
    daemon = {"cpu": 1, "labels": {"movable": "false", "daemon": "true"}}
    for how in ({}, {"force": True}):
        found = drained(small({"id": "i", "cpu": 1}, {"id": "d", **daemon}), **how)
        assert [one.id for one in found.moves] == ["i"]
        assert [one.reason for one in found.blocked] == ["its label daemon=true says that it is of its machine"]


def test_what_is_moving_already():
    """Away: it is leaving. To a drained machine, or between two: that move comes first."""
    of = small({"id": "away", "cpu": 1}, {"id": "here", "cpu": 1, "machine": "a"}, {"id": "rest", "cpu": 1})
    for instance_id, target in (("away", "b"), ("here", "gone")):
        moving = Moving(to=target, since=of.now_s, until=of.now_s + 60)
        of.ledger.apply(copy_with(of.ledger.instances[instance_id], moving=moving))
    found = drained(of)
    assert [one.id for one in found.moving] == ["away"]
    assert where(found) == {"rest": "a", "here": None} or where(found) == {"rest": "b", "here": None}
    assert found.blocked[0].reason == "moving from a to gone: confirm or cancel that move first"
    assert [one.id for one in drained(of, "gone", "b").blocked][-2:] == ["away", "here"]


def test_an_empty_machine_and_no_argument_is_changed():
    """Nothing is to be moved; snapshot and ledger are as before, and the plan comes out again."""
    of = small({"id": "i", "cpu": 1})
    assert where(drained(of, "b")) == {}
    position = of.ledger.position
    assert drained(of) == drained(of)
    assert of.ledger.position == position
    assert not of.snapshot.rules.has_cordon


@settings(max_examples=examples(40, 40), deadline=None)
@given(st.data())
def test_a_drain_upholds_every_filter(data):
    """Any fleet: each move is allowed on the ledger with those before, none twice, and a blocked one has no place."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    profile = load_profiles().choose(data.draw(st.sampled_from(["windward", "kubernetes", "koordinator", "seed"])))
    machines = [
        machine(f"m{n}", float(rng.integers(4, 20)), 100, labels={"rack": str(n % 3)},
                usage={"cpu": {"mean": float(rng.uniform(0, 4)), "std": 0.3}, "memory": float(rng.uniform(0, 60))})
        for n in range(data.draw(st.integers(1, 8)))
    ]  # fmt: skip
    sizes = rng.choice([0.5, 1.0, 2.0, 3.0], 40) if rng.random() < 0.5 else rng.uniform(0.1, 3, 40)
    instances = [
        {"id": f"i{n}", "machine": f"m{rng.integers(len(machines))}", "cpu": float(sizes[n]), "memory": 1,
         **({"cluster": f"c{n % 4}", "role": "master"} if rng.random() < 0.3 else {}),
         **({"ports": [7000 + int(rng.integers(3))]} if rng.random() < 0.3 else {})}
        for n in range(data.draw(st.integers(0, 40)))
    ]  # fmt: skip
    of = fleet(*machines, instances=instances)
    gone = [f"m{n}" for n in range(data.draw(st.integers(1, len(machines))))]
    found = drain(gone, of.inputs(profile))
    cordoned, overlay = of.snapshot.with_cordon(gone), Overlay(of.ledger)
    held = {one["name"]: 0.0 for one in machines}
    for one in of.ledger.instances.values():
        held[one.machine] += one.amounts[0] or 0.0
    started = dict(held)
    for one in found.moves:
        assert one.target not in gone
        old = of.ledger.instances[one.id]
        overlay.leave(one.id)
        request = msgspec.structs.replace(as_request(old), id="")
        ranking = rank(request, RankingInputs(cordoned, of.ledger, with_cordon(profile), of.now_s).on(overlay))
        assert ranking.feasible[of.snapshot.roster.index[str(one.target)]]
        overlay.propose(moved_to(old, str(one.target), of.now_s))
        held[old.machine] -= old.amounts[0] or 0.0
        held[str(one.target)] += old.amounts[0] or 0.0
    ids = [one.id for one in (*found.moves, *found.blocked)]
    assert sorted(ids) == sorted(one.id for name in gone for one in of.ledger.on_machine(name))
    assert sum(held.values()) == pytest.approx(sum(started.values()))
    if profile.name == "kubernetes":
        for one in machines:
            assert held[one["name"]] <= max(one["capacity"]["cpu"], started[one["name"]]) + 1e-9
    assert all(one.reason for one in found.blocked)


def test_each_line_says_what_it_asked_for():
    instances = [
        {"id": "goes", "machine": "a", "cpu": 2, "placed_ago_s": 900},
        {"id": "stays", "machine": "a", "cpu": 1, "memory": 5, "labels": {"movable": "false"}, "placed_ago_s": 900},
    ]
    of = fleet(*(machine(name, 8, 100, usage={"cpu": 1, "memory": 1}) for name in "ab"), instances=instances)
    inputs = of.inputs(load_profiles().choose())
    found = drain(["a"], inputs)
    assert (found.drained, found.profile, found.machines, found.instances) == (["a"], "windward", 2, 2)
    assert [(one.id, one.target, one.amounts, one.reason) for one in found.moves] == [("goes", "b", {"cpu": 2.0}, "")]
    assert [(one.id, one.target, one.amounts) for one in found.blocked] == [
        ("stays", None, {"cpu": 1.0, "memory": 5.0})
    ]
    assert "movable=false" in found.blocked[0].reason
    assert (found.cordoned, found.emptying) == (False, None)


@settings(max_examples=examples(10, 30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PRIORITY_CLASSES), st.booleans(), st.integers(1, 6)), min_size=1))
def test_of_a_lost_machine_no_lower_instance_takes_the_room_of_a_higher_one(held):
    """An instance that finds no machine finds none, either, when those alone are placed that go before it."""
    records = [
        {"id": f"i{n}", "cpu": cpu, "priority_class": of, "role": "master" if master else "", **STAYS}
        for n, (of, master, cpu) in enumerate(held)
    ]
    found = drained(small(*records), profile="kubernetes", lost=True)
    rank_of = {f"i{n}": (PRIORITY_CLASSES.index(of), not master) for n, (of, master, _) in enumerate(held)}
    assert where(found).keys() == rank_of.keys()
    for one in found.blocked:
        before = [each for each in records if rank_of[str(each["id"])] <= rank_of[one.id]]
        alone = drained(small(*before), profile="kubernetes", lost=True)
        assert where(alone)[one.id] is None
