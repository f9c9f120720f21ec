"""The filter `usage_threshold`: measured load with the requested instance."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ranking.filters.usage_threshold import UsageThreshold
from tests.effort import examples
from tests.scorer.fleets import IDLE, fleet, machine, passes, request, verdicts, why

MEAN, TAIL, NIC = {"thresholds": {"cpu": 0.8}}, {"percentile_thresholds": {"cpu": 0.8}}, {"thresholds": {"nic": 0.5}}


@pytest.mark.parametrize(
    ("name", "rules", "usage", "asked", "passed"),
    [
        ("below", MEAN, {"cpu": 7}, {"cpu": 1}, True),
        ("the requested instance counts", MEAN, {"cpu": 7}, {"cpu": 1.1}, False),
        ("expected usage counts, not the request", MEAN, {"cpu": 7}, {"cpu": 3, "expected": {"cpu": 0.5}}, True),
        ("a resource without threshold is not looked at", {"thresholds": {"memory": 0.8}}, {"cpu": 9}, {}, True),
        ("a percentile", TAIL, {"cpu": {"mean": 1, "p95": 9}}, {}, False),
        ("another percentile", TAIL | {"statistic": "p50"}, {"cpu": {"mean": 1, "p95": 9, "p50": 1}}, {}, True),
        ("the maximum", TAIL | {"statistic": "max"}, {"cpu": {"mean": 1, "max": 9}}, {}, False),
        ("nic by threshold", NIC, {"cpu": 0, "nic": 60}, {}, False),
        ("nic unknown and not asked for", NIC, {"cpu": 0}, {}, True),
        ("nic unknown and asked for", NIC, {"cpu": 0}, {"nic": 1}, False),
        ("cpu unknown", MEAN, {}, {}, False),
    ],
)
def test_usage_threshold(name, rules, usage, asked, passed):
    one = machine("m", usage={"memory": 0} | usage, capacity={"nic": 100})
    assert passes(UsageThreshold(**rules), one, **asked) == ("m" if passed else "")


@pytest.mark.parametrize(
    ("name", "priority_class", "usage", "passed"),
    [
        ("prod goes to the general threshold", "prod", {"cpu": 7.9, "memory": 0}, True),
        ("batch stops at its own", "batch", {"cpu": 7.1, "memory": 0}, False),
        ("batch below its own", "batch", {"cpu": 6.9, "memory": 0}, True),
        ("a resource that the class does not name", "batch", {"cpu": 0, "memory": 9.5e9}, False),
        ("free may have none of its own", "free", {"cpu": 7.9, "memory": 0}, True),
    ],
)
def test_a_threshold_of_a_class(name, priority_class, usage, passed):
    """A class's threshold stands in place of the general one for its resources, and takes none of the others away."""
    rules = {"thresholds": {"cpu": 0.9, "memory": 0.9}, "by_class": {"batch": {"cpu": 0.8}}}
    one = machine("m", usage=usage, capacity={"cpu": 10, "memory": 10e9})
    assert passes(UsageThreshold(**rules), one, cpu=1, priority_class=priority_class) == ("m" if passed else "")


@pytest.mark.parametrize(("instead", "passed"), [(False, ""), (True, "own")])
def test_a_machines_own_threshold_is_of_its_resource(instead, passed):
    """An operator's threshold of one machine replaces the profile's there; with `instead` its whole group."""
    own = {"thresholds": {"memory": 0.5}}
    machines = [
        machine("own", usage={"cpu": 9, "memory": 20}, operator=own),
        machine("plain", usage={"cpu": 9, "memory": 20}),
    ]
    assert passes(UsageThreshold(thresholds={"cpu": 0.8}, instead=instead), *machines) == passed
    loose = machine("own", usage={"cpu": 9, "memory": 60}, operator={"thresholds": {"cpu": 1.0}})
    assert passes(UsageThreshold(thresholds={"cpu": 0.8, "memory": 0.7}, instead=instead), loose) == "own"
    strict = [machine("own", usage=IDLE, operator={"thresholds": {"cpu": 0.05}}), machine("plain", usage=IDLE)]
    assert passes(UsageThreshold(instead=instead), *strict, cpu=1) == "plain"


GROUPS = {
    group: st.dictionaries(st.sampled_from(("cpu", "memory", "nic")), st.sampled_from((0.3, 0.5, 0.7)))
    for group in ("thresholds", "percentile_thresholds", "prod_thresholds")
}


@settings(max_examples=examples(120, 1_000))
@given(
    rules=st.fixed_dictionaries(GROUPS),
    group=st.sampled_from(sorted(GROUPS)),
    resource=st.sampled_from(("cpu", "memory", "nic")),
    limit=st.sampled_from((0.5, 0.8, 0.95)),
    asked=st.sampled_from(("prod", "batch")),
    rounding=st.booleans(),
    seed=st.integers(0, 1_000),
)
def test_a_rule_that_is_added_lets_no_machine_in(rules, group, resource, limit, asked, rounding, seed):
    """Nor does a threshold that an operator gives one machine of a resource that had none."""
    chance = random.Random(seed)
    machines = [
        machine(
            f"m{number}",
            capacity={"nic": 100},
            usage={
                name: {"mean": size * (mean := chance.random()), "p95": size * min(1.0, mean + 0.2 * chance.random())}
                for name, size in (("cpu", 10), ("memory", 100), ("nic", 100))
                if chance.random() < 0.9
            },
            classes={"prod": {"cpu": 10 * chance.random(), "memory": 100 * chance.random()}},
        )
        for number in range(12)
    ]

    def let_in(of, operator):
        ours = [one | {"operator": operator} for one in machines]
        return set(passes(UsageThreshold(**of, rounding=rounding), *ours, cpu=0.5, priority_class=asked).split())

    before = let_in(rules, {})
    if not rules[group].get(resource):
        assert let_in({**rules, group: {**rules[group], resource: limit}}, {}) <= before
        assert let_in(rules, {group: {resource: limit}}) <= before


def test_prod_thresholds_are_for_prod_newcomers():
    plugin = UsageThreshold(thresholds={"cpu": 0.8}, prod_thresholds={"cpu": 0.5}, instead=True)
    one = machine("m", usage={"cpu": 7, "memory": 0}, classes={"prod": {"cpu": 2}})
    assert passes(plugin, one, cpu=2, priority_class="prod") == "m"
    assert passes(plugin, one, cpu=2, priority_class="batch") == ""
    assert passes(replace(plugin, instead=False), one, cpu=2, priority_class="prod") == ""
    assert passes(replace(plugin, instead=False), one, cpu=1, priority_class="prod") == "m"


@pytest.mark.parametrize(
    ("name", "prod", "said", "refused"),
    [
        ("as measured of its instances", {"usage": {"cpu": 2}}, {}, []),
        ("more of it", {"usage": {"cpu": 4}}, {}, ["cpu used by prod over threshold"]),
        ("measured too long ago: as expected", {"usage": {"cpu": 2}, "usage_age_s": 700}, {"system": {"cpu": 0}},
         ["cpu used by prod over threshold"]),
        ("as samples split it, first of all", {"usage": {"cpu": 4}}, {"classes": {"prod": {"cpu": 2}}}, []),
        ("measured by nobody", {}, {}, ["cpu usage by prod unknown"]),
        ("it came a moment ago: as expected", {"placed_ago_s": 60}, {}, ["cpu used by prod over threshold"]),
        ("none of prod is there", {"priority_class": "mid"}, {}, []),
    ],
)  # fmt: skip
def test_what_prod_uses_is_measured(name, prod, said, refused):
    """Of 10 cores prod may use 5, with the 2 requested; what batch uses beside it is not looked at."""
    plugin = UsageThreshold(thresholds={"cpu": 0.8}, prod_thresholds={"cpu": 0.5}, instead=True)
    batch = {"id": "b", "machine": "m", "cpu": 5, "priority_class": "batch"}
    instances = [{"id": "p", "machine": "m", "cpu": 4, **prod}, batch | ({"usage": {"cpu": 5}} if prod else {})]
    there = machine("m", usage={"cpu": 9, "memory": 0}, **said)
    assert why(plugin, there, instances=instances, cpu=2) == refused
    assert why(plugin, there, instances=instances, cpu=2, priority_class="batch") == ["cpu used over threshold"]


def test_a_machine_without_data_or_prod():
    plugin = UsageThreshold(prod_thresholds={"cpu": 0.5})
    assert passes(plugin, machine("empty", usage={"cpu": 9, "memory": 0}), machine("silent"), cpu=2) == "empty"


def test_whose_usage_was_compared_is_explained():
    """By resource, where it is not the mean: of what is over, or else of the first that is compared."""
    profile = {
        "use": "usage_threshold", "thresholds": {"cpu": 0.95}, "prod_thresholds": {"cpu": 0.1},
        "percentile_thresholds": {"memory": 0.8},
    }  # fmt: skip
    offline = fleet(
        machine("m", usage={"cpu": 9, "memory": {"mean": 10, "p95": 70}}),
        instances=[{"id": "p", "machine": "m", "cpu": 4, "usage": {"cpu": 2}}],
    )
    compared = {of: verdicts(offline, profile, request(priority_class=of))["m"]["compared"] for of in ("prod", "batch")}
    assert compared["prod"]["usage_of"] == {"cpu": "prod", "memory": "p95"}
    assert compared["prod"]["usage"] == pytest.approx({"cpu": 0.2, "memory": 0.7, "nic": None, "disk": None})
    assert compared["batch"]["usage_of"] == {"memory": "p95"}
    assert compared["batch"]["usage"]["cpu"] == pytest.approx(0.9)
