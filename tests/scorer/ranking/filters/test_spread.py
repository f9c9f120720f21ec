"""Rules with a share or a skew: the rows of PodTopologySpread, both ways, on every path.

The rows of skew follow the tables of kube-scheduler's plugin PodTopologySpread, its default policies: machines a and b
in one zone, x and y in another, and how many matching instances each has.
"""

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.placement.placer import expected_change
from scorer.ranking.filters.affinity import AntiAffinity
from scorer.ranking.profiles.catalogue import Profiles
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.profiles.profile_file import parse_profile
from tests.effort import examples
from tests.scorer.fleets import IDLE, PROFILES, fleet, machine, passes, request, why
from tests.scorer.rpc.test_results import Scorer

FOO = {"app": "foo"}
ZONE = {"a": "1", "b": "1", "x": "2", "y": "2"}


def far(topology="rack", whom=None, **limit):
    return {"instances": whom or {"cluster": "shop"}, "topology": topology, **limit}


def skew(most, topology, whom=None):
    return far(topology, whom or FOO, skew=most)


@pytest.mark.parametrize(
    ("rules", "there", "asked", "expected"),
    [
        ([skew(1, "zone")], "", {}, "a b x y"),
        ([skew(1, "zone")], "a b", {}, "x y"),  # spread as 2/0
        ([skew(1, "zone")], "a a b y y y", {}, "a b x y"),  # as 3/3
        ([skew(2, "zone")], "a b", {"labels": {}}, "a b x y"),  # does not match itself
        ([skew(1, "zone")], "a b y", {"labels": {}}, "a b x y"),
        ([skew(1, "zone")], "a b y", {}, "x y"),
        ([skew(1, "node")], "a a b y y y", {}, "x"),  # as 2/1/0/3
        ([skew(2, "node")], "a a b y y y", {}, "b x"),
        ([skew(3, "node")], "a a b y y y", {}, "a b x"),
        ([skew(1, "machine")], "a a b y y y", {}, "x"),
        ([skew(1, "zone"), skew(1, "node")], "a a b y y y", {}, "x"),
        ([skew(1, "zone"), skew(1, "node")], "a a b y y y y", {}, ""),
        ([skew(1, "nowhere")], "", {}, ""),
        ([skew(1, "node")], "a b y", {"selector": "ssd=1"}, "x y"),  # y is not selected: nor is what it has counted
        ([skew(1, "node")], "a b", {"selector": "zone=1"}, "a b x y"),  # no selected machine is empty
        ([skew(1, "zone"), skew(1, "odd")], "a y", {}, "b x"),  # only b and x have all labels
    ],
)
def test_rows_of_pod_topology_spread(rules, there, asked, expected):
    labels = {name: {"zone": zone, "node": name} for name, zone in ZONE.items()}
    for name in ("a", "b", "x"):
        labels[name]["ssd"] = "1"
    for name in ("b", "x"):
        labels[name]["odd"] = name
    instances = [{"id": f"{n}", "machine": on, "labels": FOO} for n, on in enumerate(there.split())]
    machines = [machine(name, labels=labels[name]) for name in labels]
    asked = {"labels": FOO, "anti_affinity": rules, **asked}
    assert passes(AntiAffinity(), *machines, instances=instances, **asked) == expected


def test_spread_of_different_groups():
    """Two rules on two groups, spread as 1/0 and 1/0/0/1: each counts its own."""
    rules = [skew(1, "zone"), skew(1, "node", {"tier": "bar"})]
    there = [{"id": "1", "machine": "a", "labels": FOO}, {"id": "2", "machine": "y", "labels": {"tier": "bar"}}]
    machines = [machine(name, labels={"zone": zone, "node": name}) for name, zone in ZONE.items()]
    asked = {"labels": FOO | {"tier": "bar"}, "anti_affinity": rules}
    assert passes(AntiAffinity(), *machines, instances=there, **asked) == "x"


def test_a_machine_without_the_label_is_refused_in_words():
    asked = {"cluster": "shop", "anti_affinity": [far(skew=1)]}
    assert why(AntiAffinity(), machine("a", labels={"rack": "1"}), machine("b"), **asked) == [
        "without the label of a skew"
    ]


@pytest.mark.parametrize(
    ("share", "there", "expected"),
    [
        (0.5, "", "a b x y"),
        (0.5, "a", "x y"),
        (0.5, "a x", "a b x y"),
        (0.5, "a b x", "x y"),
        (0.1, "a", "x y"),
        (0.7, "a b x y y", "a b x y"),
        (0.7, "x y y y", "a b"),
        (0.6, "x y y y", "a b"),
        (1.0, "a a a", "a b x y"),
    ],
)
def test_a_share_of_the_members(share, there, expected):
    """Rounded up, with the new one: no more in a domain than this part of all members."""
    machines = [machine(name, labels={"rack": zone}) for name, zone in ZONE.items()]
    instances = [{"id": f"{n}", "machine": on, "cluster": "shop"} for n, on in enumerate(there.split())]
    asked = {"cluster": "shop", "anti_affinity": [far(share=share)]}
    assert passes(AntiAffinity(), *machines, instances=instances, **asked) == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [({"skew": 1}, "x y"), ({"share": 0.4}, "x y"), ({"skew": 2}, "a b x y")]
)
def test_the_rule_of_one_there_binds(limit, expected):
    """A new member without rules is placed as if it had the rule of those there; a stranger goes anywhere."""
    machines = [machine(name, labels={"rack": zone}) for name, zone in ZONE.items()]
    there = [
        {"id": "1", "machine": "a", "cluster": "shop", "anti_affinity": [far(**limit)]},
        {"id": "2", "machine": "b", "cluster": "other"},
    ]
    assert passes(AntiAffinity(), *machines, instances=there, cluster="shop") == expected
    assert passes(AntiAffinity(), *machines, instances=there, cluster="other") == "a b x y"


LIMIT = st.sampled_from([{"skew": 1}, {"skew": 2}, {"share": 0.4}, {"share": 0.75}, {"others": 2}, {}])
ASKED = st.fixed_dictionaries(
    {"count": st.integers(1, 5), "limit": LIMIT, "by": st.sampled_from(["rack", "machine"]), "at_once": st.booleans()}
)
RACKS, MACHINES = 3, 6


def near(machine_, by):
    return machine_ if by == "machine" else f"r{int(machine_[1:]) % RACKS}"


def most_of(rule, by, held):
    """Return how many members a domain may have of these machines of all members, the newest last."""
    if "others" in rule:
        return float(rule["others"] + 1)
    if "share" in rule:
        return ceil(rule["share"] * len(held) - 1e-9)
    domains = {near(f"m{n}", by) for n in range(MACHINES)}
    before = [near(one, by) for one in held[:-1]]
    return float(min(before.count(each) for each in domains) + rule.get("skew", 99))


@settings(max_examples=examples(120, 1_200))
@given(asked=st.lists(ASKED, min_size=1, max_size=8), gone=st.integers(0, 9))
def test_no_placement_puts_a_domain_over(asked, gone):
    """One by one and many at once, with and without rules, after one has left, and after one has moved."""
    racks = [{"rack": f"r{n % RACKS}"} for n in range(MACHINES)]
    scorer = Scorer(fleet(*(machine(f"m{n}", 99, 999, usage=IDLE, labels=rack) for n, rack in enumerate(racks))))
    held = {}
    rules = []

    def check(domains):
        order = list(held.values())
        for rule, by, name in rules:
            here = domains & {near(on, by) for id_, on in held.items() if "others" not in rule or id_.startswith(name)}
            most = most_of(rule, by, order)
            assert all([near(on, by) for on in order].count(each) <= most for each in here), (rule, by, order)

    for number, one in enumerate(asked):
        query = {"id": f"q{number}", "cpu": 0.1, "memory": 1, "cluster": "shop", "count": one["count"]}
        ruled = [far(one["by"], **one["limit"])] if one["limit"] else []
        answer = scorer.ask("place", **query, all_or_nothing=one["at_once"], anti_affinity=ruled)
        if answer["placed"] and ruled:
            rules.append((one["limit"], one["by"], query["id"]))
        for each in answer["placed"]:
            held[each["id"]] = each["machine"]
            check({each["machine"], near(each["machine"], "rack")})
        if held and gone % 3 == 0:
            some = sorted(held)[gone % len(held)]
            scorer.ask("release", id=some)
            del held[some]
            rules = [rule for rule in rules if any(name.startswith(rule[2]) for name in held)]
    if held:
        some = sorted(held)[gone % len(held)]
        scorer.ask("confirm", id=some)
        del held[some]
        held[some] = scorer.ask("update", id=some, machine="")["machine"]
        check({held[some], near(held[some], "rack")})


@pytest.mark.parametrize("limit", [{"others": 1}, {"skew": 2}])
def test_a_batch_has_all_that_its_rule_allows(limit):
    """Two on each of two racks, none on the third, which has no room; then the answer says what is missing."""
    machines = [machine(f"m{n}", 99 if n != 2 else 1, 999, usage=IDLE, labels={"rack": f"r{n}"}) for n in range(3)]
    query = {"cpu": 2, "memory": 1, "cluster": "shop", "count": 7, "anti_affinity": [far(**limit)]}
    answer = Scorer(fleet(*machines)).ask("place", id="q", **query)
    assert sorted(one["machine"] for one in answer["placed"]) == ["m0", "m0", "m1", "m1"]
    why = "0/3 feasible: 2 near instances to be avoided, 1 cpu larger than the machine"
    assert (answer["missing"], answer["reason"]) == (3, why)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [({"skew": 1}, 7), ({"share": 0.5}, 7), ({"topology": "machine", "skew": 1}, 7), ({"topology": "machine"}, -9)],
)
def test_the_script_needs_the_whole_ledger(rule, expected):
    """Wherever members on other machines matter to a rule, by machine, too: no other placement may come between."""
    ledger = fleet(machine("a")).ledger
    asked = request(cluster="shop", anti_affinity=[{**far(), **rule}])
    assert expected_change(7, asked, ledger) == expected


@pytest.mark.parametrize(
    ("field", "rule", "message"),
    [
        ("anti_affinity", far(skew=1, share=0.5), "a rule has one limit"),
        ("anti_affinity", far(skew=1, others=2), "a rule has one limit"),
        ("affinity", far(skew=1), "limits of anti_affinity"),
        ("anti_affinity", far(share=1.5), "share"),
        ("anti_affinity", far(skew=-1), "skew"),
    ],
)
def test_contradictions_are_refused_in_words(field, rule, message):
    with pytest.raises(ValueError, match=message):
        request(cluster="shop", **{field: [rule]})


def test_more_rules_than_a_request_may_have():
    with pytest.raises(ValueError, match=r"anti_affinity: .*32"):
        request(anti_affinity=[far(skew=1)] * 10_000)


# ---- rules of a profile

FILTER = '[[filters]]\nuse = "anti_affinity"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules]]\nat_most = 3", "line 1: rules: the filter anti_affinity upholds them"),
        (f"{FILTER}[[rules]]", r"line 3: rules\[1\]: a rule has one limit"),
        (f"{FILTER}[[rules]]\nskew = 1\nshare = 0.5", "a rule has one limit"),
        (f"{FILTER}[[rules]]\nshare = 1.5", "line 4: .*share: expected at most 1, got 1.5"),
        (f"{FILTER}[[rules]]\nskew = -1", "line 4: .*skew: expected a number of zero or more"),
        (f'{FILTER}[[rules]]\nskew = 1\ntopology = ""', "line 5: .*topology: expected machine, or a label"),
        (f"{FILTER}[[rules]]\nat_least = 3", "line 4: .*no such setting of a rule; there are group, topology, at_most"),
        (FILTER + "[[rules]]\nskew = 1\n" * 33, "expected at most 32 rules, got 33"),
    ],
)
def test_invalid_rules_of_a_profile(text, message):
    with pytest.raises(ProfileError, match=message):
        parse_profile(text, "mine")


BY_RACK = """
[[rules]]
topology = "rack"
at_most = 2

[[rules]]
group = ["app", "role"]
topology = "machine"
at_most = 1
"""


def test_rules_of_a_profile_hold_for_each_request():
    """For those of a cluster, or with all fields of the group; they are in the record, so others see them, too."""
    mine = parse_profile(FILTER + BY_RACK, "mine")
    machines = [machine(f"m{n}", 99, 999, usage=IDLE, labels={"rack": f"r{n // 3}"}) for n in range(4)]
    scorer = Scorer(fleet(*machines))
    scorer.service.current.profiles = Profiles({**PROFILES.by_name, "mine": mine})
    asked = {"profile": "mine", "cluster": "shop", "count": 9}
    assert len(scorer.ask("place", id="q", **asked)["placed"]) == 4
    assert scorer.ask("place", id="q", **asked)["repeated"]  # the same request, by the digest of what was asked
    assert scorer.ask("place", id="later", cluster="shop")["reason"] == "0/4 feasible: 4 near instances that avoid it"
    assert len(scorer.ask("place", id="free", profile="mine", count=9)["placed"]) == 9
    tied = {"profile": "mine", "labels": {"app": "a"}, "count": 9}
    assert len(scorer.ask("place", id="masters", role="master", **tied)["placed"]) == 4
    assert len(scorer.ask("place", id="replicas", **tied)["placed"]) == 9
