"""Broken rules: which, where, since when and why; and none after any placement."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.planning.violations import violations
from scorer.ranking.inputs import machines_of
from scorer.ranking.profiles.profile import Profile
from scorer.rpc.methods.listings import instances
from tests.effort import examples
from tests.scorer.fleets import IDLE, fleet, inputs_on, machine, request
from tests.scorer.rpc.test_results import Scorer

RACK = {"a": "1", "b": "1", "c": "2", "d": "2"}


def far(**limit):
    return {"instances": {"cluster": "shop"}, "topology": "rack", **limit}


BY_MACHINE = {**far(), "topology": "machine"}


def broken(*instances, **racks):
    """Return what is broken: rule, domain, count, most, since, why."""
    machines = [machine(name, labels={"rack": rack} if rack else {}) for name, rack in {**RACK, **racks}.items()]
    inputs = inputs_on(fleet(*machines), LedgerView(map(record, instances)), Profile("any"))
    found = violations(machines_of(inputs), inputs.ledger)
    return [(one.rule, one.domain, one.count, one.most, one.since, one.why) for one in found]


def record(said):
    asked = {name: value for name, value in said.items() if name not in ("machine", "started_at")}
    return copy_with(
        instance_of(request(**asked), said["machine"], 0.0), state="confirmed", started_at=said["started_at"]
    )


def members(on, rule=None, **more):
    ruled = {} if rule is None else {"anti_affinity": [rule]}
    return [
        {"id": f"{name}{at}", "machine": name, "cluster": "shop", "started_at": at, **ruled, **more}
        for at, name in enumerate(on.split(), 100)
    ]


@pytest.mark.parametrize(
    ("rule", "on", "racks", "expected"),
    [
        (far(), "a c", {}, []),
        (far(), "a b", {}, [("cluster=shop by rack: others 0", "1", 2, 1, 101, "relabel")]),
        (far(others=1), "a b c", {}, []),
        (far(others=1), "a b c", {"c": "1"}, [("cluster=shop by rack: others 1", "1", 3, 2, 102, "relabel")]),
        (far(skew=1), "a b c", {}, []),
        (far(skew=1), "a b", {}, [("cluster=shop by rack: skew 1", "1", 2, 1, 101, "left")]),
        (far(skew=1), "a b", {"d": "3"}, [("cluster=shop by rack: skew 1", "1", 2, 1, 101, "left")]),
        (far(skew=1), "a b", {"c": "", "d": ""}, []),
        (far(share=0.5), "a b c", {}, []),
        (far(share=0.5), "a b b c", {}, [("cluster=shop by rack: share 0.5", "1", 3, 2, 102, "left")]),
        (far(), "c d a b", {"a": "", "b": ""}, [("cluster=shop by rack: others 0", "2", 2, 1, 101, "relabel")]),
        (BY_MACHINE, "a a", {}, [("cluster=shop by machine: others 0", "a", 2, 1, 101, "relabel")]),
    ],
)
def test_what_is_broken(rule, on, racks, expected):
    assert broken(*members(on, rule), **racks) == expected


def test_why():
    """A rule that came later, a role that was taken; one whom no rule is about does not matter."""
    later = {"id": "z", "machine": "c", "cluster": "shop", "started_at": 200}
    ruled = {**later, "anti_affinity": [far(skew=1)]}
    assert broken(*members("a b b"), ruled) == [("cluster=shop by rack: skew 1", "1", 3, 2, 200, "rule")]
    assert broken(*members("a b b"), later) == []
    masters = {"instances": {"cluster": "shop", "role": "master"}, "topology": "rack"}
    of_role = members("a b", masters, role="master")
    assert [one[-1] for one in broken(*of_role)] == ["failover"]
    assert broken(of_role[0], {**of_role[1], "role": "replica"}) == []
    stranger = {"id": "x", "machine": "a", "anti_affinity": [far()], "started_at": 1}
    assert [one[1:4] for one in broken(stranger, *members("b"))] == [("1", 1, 0)]


def test_a_selector_leaves_racks_out():
    """A rack that the holder's selector refuses is none of those with the fewest."""
    kept = {"selector": "rack in (1, 2)"}
    assert broken(*members("a c", far(skew=1), **kept), e="3") == []
    assert len(broken(*members("a c a", far(skew=1), **kept), e="3")) == 0
    assert len(broken(*members("a c a b", far(skew=1)), e="3")) == 1
    assert broken(*members("a b", far(skew=1), selector="rack=9")) == []


ASKED = st.fixed_dictionaries(
    {
        "count": st.integers(1, 4),
        "limit": st.sampled_from([{"others": 1}, {"share": 0.4}, {"skew": 1}]),
        "by": st.sampled_from(["rack", "machine"]),
    }
)


@settings(max_examples=examples(30, 300))
@given(asked=st.lists(ASKED, min_size=1, max_size=5))
def test_no_placement_breaks_a_rule(asked):
    scorer = Scorer(fleet(*(machine(n, 99, 999, usage=IDLE, labels={"rack": rack}) for n, rack in RACK.items())))
    for number, one in enumerate(asked):
        group = {"instances": {"cluster": f"c{number}"}, "topology": one["by"], **one["limit"]}
        scorer.ask("place", id=f"q{number}", cpu=0.1, cluster=f"c{number}", count=one["count"], anti_affinity=[group])
    found = scorer.ask("instances", violations=True)
    assert (found["violations"], found["total"]) == ([], 0)


def test_the_method_names_the_rule_and_its_members():
    scorer = Scorer(fleet(*(machine(n, 99, 999, usage=IDLE, labels={"rack": rack}) for n, rack in RACK.items())))
    rule = {"instances": {"cluster": "c", "role": "master"}, "topology": "rack"}
    for name, role, rules in (("one", "master", [rule]), ("two", "replica", [])):
        scorer.ask("place", id=name, cpu=0.1, cluster="c", role=role, machine="a", anti_affinity=rules)
        scorer.ask("confirm", id=name)
    assert scorer.ask("instances", violations=True)["violations"] == []
    scorer.ask("update", id="two", role="master")
    found = scorer.ask("instances", violations=True)
    assert {one["id"] for one in found["instances"]} == {"one", "two"}
    (told,) = found["violations"]
    assert (told["rule"], told["why"]) == ("cluster=c,role=master by rack: others 0", "failover")
    assert (told["domain"], told["count"], told["most"], sorted(told["instances"])) == ("1", 2, 1, ["one", "two"])
    for asked, names in (({"cluster": "d"}, []), ({"machine": "b"}, []), ({"role": "master"}, ["one", "two"])):
        found = scorer.ask("instances", violations=True, **asked)
        assert ([one["id"] for one in found["instances"]], bool(found["violations"])) == (names, bool(names))
    assert scorer.ask("instances", violations=True, after="one")["violations"] == [told]


def test_all_members_of_a_large_group_are_counted():
    rows = [row for name in "aab" for row in members(" ".join(name * 50), far())]
    ledger = LedgerView(record({**one, "id": f"{n:03}"}) for n, one in enumerate(rows))
    inputs = inputs_on(fleet(*(machine(n, labels={"rack": "1"}) for n in "ab")), ledger, Profile("any"))
    found = instances(
        {"violations": True}, ledger, lambda _: None, broken=lambda: violations(machines_of(inputs), ledger)
    )
    assert (found.total, len(found.violations[0].instances), found.violations[0].count) == (150, 100, 150)
