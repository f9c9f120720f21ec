"""Rules bind both ways: an instance that must not be beside others keeps a new one of them away, on every path.

The rows follow ``satisfyExistingPodsAntiAffinity`` of kube-scheduler's plugin InterPodAffinity: rules of placed pods,
by each topology key, against the labels of the new one; a node without the key is in no topology. Windward's own are
the terms by cluster, role and kind.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.record.facets import facets_of
from scorer.ledger.record.instance import copy_with
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.placer import expected_change
from scorer.ranking.filters.affinity import AntiAffinity
from tests.effort import examples
from tests.scorer.fleets import IDLE, fleet, machine, passes, request, why
from tests.scorer.rpc.test_results import Scorer

CART = {"cpu": 1, "memory": 1, "labels": {"app": "cart"}}


def never_beside(topology="machine", **whom):
    return [{"instances": whom or {"app": "cart"}, "topology": topology}]


@pytest.mark.parametrize(
    ("rule", "asked", "expected"),
    [
        (never_beside(), {"labels": {"app": "cart"}}, "b c d"),
        (never_beside(), {"labels": {"app": "cart", "tier": "1"}}, "b c d"),
        (never_beside(), {"labels": {"app": "other"}}, "a b c d"),
        (never_beside(), {}, "a b c d"),
        (never_beside("rack"), {"labels": {"app": "cart"}}, "c d"),
        (never_beside("zone"), {"labels": {"app": "cart"}}, "a b c d"),
        (never_beside(cluster="shop"), {"cluster": "shop"}, "b c d"),
        (never_beside(role="master", cluster="shop"), {"cluster": "shop", "role": "master"}, "b c d"),
        (never_beside(role="master", cluster="shop"), {"cluster": "shop", "role": "replica"}, "a b c d"),
        (never_beside(kind="batch/x"), {"kind": "batch/x"}, "b c d"),
        (never_beside(app="cart", tier="1"), {"labels": {"app": "cart"}}, "a b c d"),
        ([*never_beside(app="x"), *never_beside("rack")], {"labels": {"app": "cart"}}, "c d"),
    ],
)
def test_who_is_kept_away(rule, asked, expected):
    machines = [machine(name, labels={"rack": rack}) for name, rack in (("a", "1"), ("b", "1"), ("c", "2"))]
    instances = [{"id": "db", "machine": "a", "anti_affinity": rule}]
    assert passes(AntiAffinity(), *machines, machine("d"), instances=instances, **asked) == expected


@pytest.mark.parametrize(
    ("others", "labels", "carts", "expected"),
    [
        (1, {"app": "cart"}, "", "a b c d"),
        (1, {"app": "cart"}, "b", "c d"),
        (2, {"app": "cart"}, "b", "a b c d"),
        (2, {"app": "cart"}, "b b", "c d"),
        (1, {"app": "db"}, "", "a b c d"),
        (1, {"app": "db"}, "a", "c d"),
        (2, {"app": "cart"}, "c c c", "a b c d"),
    ],
)
def test_a_rule_may_allow_others(others, labels, carts, expected):
    """As many as it says, besides the instance whose rule it is; other racks are not counted."""
    machines = [machine(name, labels={"rack": rack}) for name, rack in (("a", "1"), ("b", "1"), ("c", "2"))]
    rule = [{**never_beside("rack")[0], "others": others}]
    there = [{"id": "ruled", "machine": "a", "labels": labels, "anti_affinity": rule}]
    there += [{"id": f"{n}", "machine": on, "labels": {"app": "cart"}} for n, on in enumerate(carts.split())]
    asked = {"labels": {"app": "cart"}}
    assert passes(AntiAffinity(), *machines, machine("d"), instances=there, **asked) == expected


RACKS = 3


@pytest.mark.parametrize(
    ("limit", "members", "to", "placed"),
    [
        ({"share": 0.5}, "m0 m1 m1", "m3", 0),  # three of four in its rack, though it is on two machines
        ({"share": 0.5}, "m0 m1 m1 m4", "m3", 1),
        ({"skew": 1}, "m0 m1", "m2", 0),  # its rack is empty when it has left, its target's if it stays
        ({"skew": 1}, "m0 m1 m2", "m3", 1),
        ({"skew": 1}, "m0 m0 m3 m1 m1", "m2", 1),  # a second one may follow the first
    ],
)
def test_a_moving_member_is_one(limit, members, to, placed):
    """Whether it arrives or stays, a placement has put no rack over."""
    racks = [{"rack": f"r{n % RACKS}"} for n in range(2 * RACKS)]
    scorer = Scorer(fleet(*(machine(f"m{n}", 99, 999, usage=IDLE, labels=rack) for n, rack in enumerate(racks))))
    query = {"cpu": 0.1, "memory": 1, "cluster": "shop"}
    for number, on in enumerate(members.split()):
        scorer.ask("place", id=f"q{number}", machine=on, **query)
    scorer.ask("confirm", id="q0")
    assert scorer.ask("update", id="q0", move=True, machine=to)["moving"]["to"] == to
    rule = [{"instances": {"cluster": "shop"}, "topology": "rack", **limit}]
    query |= {"selector": "rack in (r0, r1)"} if "share" in limit else {}
    assert len(scorer.ask("place", id="new", count=1, **query, anti_affinity=rule)["placed"]) == placed


def test_the_reason_says_whose_rule_it_is():
    there = [
        {"id": "db", "machine": "a", "anti_affinity": never_beside()},
        {"id": "other", "machine": "b", "labels": {"app": "db"}},
    ]
    asked = {"labels": {"app": "cart"}, "anti_affinity": never_beside(app="db")}
    found = why(AntiAffinity(), machine("a"), machine("b"), machine("c"), instances=there, **asked)
    assert found == ["near instances that avoid it", "near instances to be avoided"]


def shop(topology="machine"):
    """Return a scorer of three machines, in two racks; the instance db avoids cart, on the idle one of them."""
    uses = [{"usage": {"cpu": n, "memory": 1}, "labels": {"rack": f"r{n // 2}"}} for n in range(3)]
    scorer = Scorer(fleet(*(machine(f"m{n}", 32, 100, **use) for n, use in enumerate(uses))))
    scorer.ask("place", id="db", cpu=1, machine="m0", anti_affinity=never_beside(topology))
    scorer.ask("confirm", id="db")
    return scorer


@pytest.mark.parametrize(("topology", "allowed"), [("machine", {"m1", "m2"}), ("rack", {"m2"})])
def test_every_query_upholds_it(topology, allowed):
    scorer = shop(topology)
    assert {one["machine"] for one in scorer.ask("rank", **CART)["candidates"]} == allowed
    assert scorer.ask("place", id="one", **CART)["machine"] in allowed
    many = scorer.ask("place", id="many", count=4, **CART)["placed"]
    unlike = scorer.ask("place", instances=[{"id": f"u{n}", **CART, "cpu": n / 10} for n in range(1, 5)])["placed"]
    assert {one["machine"] for one in (*many, *unlike)} <= allowed
    assert set(scorer.ask("capacity", by="machine", **CART)["by"]) >= {"m0"}
    assert scorer.ask("capacity", by="machine", **CART)["by"]["m0"] == 0
    scorer.ask("confirm", id="one")
    with pytest.raises(Exception, match="near instances that avoid it"):
        scorer.ask("update", id="one", machine="m0")
    assert scorer.ask("update", id="one", machine="")["machine"] in allowed
    assert scorer.ask("place", id="other", cpu=0.1, labels={"app": "other"}, machine="m0")["machine"] == "m0"
    steps = scorer.ask("plan", instances=[{"id": "planned", **CART}])["steps"]
    assert {one["target"] for one in steps} <= allowed


def test_the_script_is_told_where_the_rule_is_beyond_one_machine():
    """The whole ledger must be as it was seen. Another label, or a rule of one machine, needs its version alone."""
    for topology, cart in (("rack", 7), ("machine", -9)):
        ledger = LedgerView([instance_of(request(id="db", anti_affinity=never_beside(topology)), "a", 0.0)])
        assert expected_change(7, request(**CART), ledger) == cart
        assert expected_change(7, request(labels={"app": "other"}), ledger) == -9
    assert expected_change(7, request(**CART), LedgerView()) == -9


def test_who_comes_at_the_same_time_by_another_scorer_is_kept_away():
    """The ledger refuses the one without a rule: it was chosen before the rule was there. It is then chosen anew."""
    scorer = shop("rack")
    follower, ledger = scorer.service.current.follower, scorer.service._ledger
    seen = follower.change
    late = instance_of(request(id="late", **CART), "", 0.0)
    asked = Wanted(late, 60.0, [Candidate("m2", -1)])
    rule = instance_of(request(id="db2", anti_affinity=never_beside("rack")), "", 0.0)
    ledger.reserve([Wanted(rule, 60.0, [Candidate("m2", -1)])], expected_change=seen)
    missed = ledger.reserve([asked], expected_change=-2 - seen)
    assert [one.kind for one in missed.outcomes] == ["conflict"]
    again = ledger.reserve([asked], expected_change=-2 - missed.before)
    assert [one.kind for one in again.outcomes] == ["placed"]


TERMS = [never_beside(), never_beside("rack"), never_beside(app="cart", tier="1"), never_beside(cluster="c"), []]
STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.sampled_from(TERMS), st.booleans()), max_size=30
)


def brief(*several):
    return {one for each in several for of in each._found.values() for one in of}


@settings(max_examples=examples(60, 600), deadline=None)
@given(STEPS, STEPS)
def test_the_rules_are_those_of_the_instances(steps, more):
    def record(number, on, rule, live):
        one = instance_of(request(id=f"i{number}", anti_affinity=rule), on, 0.0)
        return one if live else copy_with(one, state="released", ended_at=1.0)

    def of(instances):
        return {rule for one in instances for rule in facets_of(one) if hasattr(rule, "topology")}

    view = LedgerView()
    for step in steps:
        view.apply(record(*step))
    together = LedgerView(view.instances.values())
    assert brief(*view.avoiders) == brief(*together.avoiders) == of(view.instances.values())
    for step in more:
        view.apply(record(*step))
    assert brief(*view.avoiders) == of(view.instances.values())
    overlay = Overlay(view)
    for number, on, rule, _ in more:
        if f"p{number}" not in overlay:
            overlay.propose(instance_of(request(id=f"p{number}", anti_affinity=rule), on, 0.0))
    assert brief(*overlay.avoiders) >= of(view.instances.values()) | of(overlay._proposed.values())
