"""The filter `fits`: who passes, what is said of it, and the ratio: how far promises may go beyond what is there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.operator import InvalidOperatorFacts, OperatorFacts, effective, read_operator_facts
from scorer.ranking.filters.fits import Fits, RatioWhere
from scorer.ranking.rank import limits
from scorer.ranking.scores.global_variance import GlobalVariance
from tests.scorer.fleets import BUSY, IDLE, allowed, fleet, machine, passes, ranked, request, scores, see, told, why


@pytest.mark.parametrize(
    ("name", "asked", "plugin", "expected"),
    [
        ("both are left", {"cpu": 2, "memory": 20}, Fits(), "idle promised"),
        ("exactly what is left", {"cpu": 10, "memory": 100}, Fits(), "idle"),
        ("more than any machine has", {"cpu": 11}, Fits(), ""),
        ("nothing asked is never refused", {}, Fits(), "idle promised used silent"),
        ("measured load counts where nothing is promised", {"cpu": 1.5}, Fits(), "idle promised"),
        ("by requests alone load does not count", {"cpu": 1.5}, Fits(basis="requests"), "idle promised used silent"),
        ("what counts for a request without an amount", {}, Fits(default_cpu=1.5), "idle promised"),
        ("a resource whose capacity is unknown", {"nic": 1}, Fits(), ""),
    ],
)
def test_fits(name, asked, plugin, expected):
    used = {"idle": IDLE, "promised": IDLE, "used": BUSY, "silent": {}}
    machines = [machine(name, usage=usage) for name, usage in used.items()]
    instances = [{"id": "i", "machine": "promised", "cpu": 8, "memory": 80, "expected": {"cpu": 0, "memory": 0}}]
    assert passes(plugin, *machines, instances=instances, **asked) == expected


def test_fits_by_allocatable_not_by_capacity():
    """Share and reserve of the operator come off the capacity first."""
    limited = machine("m", usage=IDLE, operator={"share": {"cpu": 0.5}, "reserve": {"cpu": 1}})
    assert passes(Fits(), limited, cpu=4) == "m"
    assert passes(Fits(), limited, cpu=4.1) == ""


@pytest.mark.parametrize("basis", ["requests", "taken"])
def test_instances_without_an_amount_count_the_default(basis):
    """Of 100 m each ten fit on a core, nine that are there and the instance, and no eleventh; without it any number."""
    nine, ten = (
        [{"id": f"{name}{number}", "machine": name} for number in range(count)]
        for name, count in (("nine", 9), ("ten", 10))
    )
    machines = [machine(name, 1, usage={"cpu": 0.5, "memory": 0}) for name in ("nine", "ten")]
    assert passes(Fits(basis=basis, default_cpu=0.1), *machines, instances=nine + ten) == "nine"
    assert passes(Fits(basis=basis), *machines, instances=nine + ten) == "nine ten"


def test_fits_says_what_is_short():
    machines = [machine("small", 1, usage=IDLE), machine("idle", usage=IDLE), machine("full", usage=BUSY),
                machine("both", usage=BUSY), machine("dark")]  # fmt: skip
    promised = [{"id": name, "machine": name, "cpu": 9.5} for name in ("idle", "both")]
    assert why(Fits(), *machines, instances=promised, cpu=2) == [
        "cpu larger than the machine", "too much cpu promised", "too much cpu used", "too much cpu promised",
        "cpu usage unknown",
    ]  # fmt: skip


LIGHT = {"cpu": 1, "memory": 0}
DENSE = {"pool": "dense"}
TWO = RatioWhere("pool=dense", {"cpu": 2.0})


def fits(plugin, cpu, promised, used=1.0, **of):
    host = machine("m", usage={"cpu": used, "memory": 0}, **of)
    there = [{"id": "i", "machine": "m", "cpu": promised, "placed_ago_s": 9000}]
    return allowed(plugin, fleet(host, instances=there), request(cpu=cpu))["m"]


@pytest.mark.parametrize(
    ("what", "plugin", "of", "most"),
    [
        ("no ratio", Fits(), {}, 10.0),
        ("the profile's", Fits(ratio={"cpu": 1.5}), {}, 15.0),
        ("below 1", Fits(ratio={"cpu": 0.5}), {}, 5.0),
        ("another resource's", Fits(ratio={"memory": 2.0}), {}, 10.0),
        ("by label", Fits(ratio={"cpu": 1.5}, ratio_where=(TWO,)), {"labels": DENSE}, 20.0),
        ("by another label", Fits(ratio={"cpu": 1.5}, ratio_where=(TWO,)), {"labels": {"pool": "db"}}, 15.0),
        ("the operator's wins", Fits(ratio_where=(TWO,)), {"labels": DENSE, "operator": {"ratio": {"cpu": 3}}}, 30.0),
        ("with a share", Fits(), {"operator": {"share": {"cpu": 0.5}, "ratio": {"cpu": 2}}}, 10.0),
    ],
)
def test_promises_go_to_allocatable_times_the_ratio(what, plugin, of, most):
    assert fits(plugin, most - 4, 4, **of), what
    assert not fits(plugin, most - 4 + 0.001, 4, **of), what
    if not plugin.ratio_where:
        profile = {"filters": [{"use": "fits", **({"ratio": plugin.ratio} if plugin.ratio else {})}]}
        offline = fleet(machine("m", usage=LIGHT, **of))
        ((limit, *_),) = limits(ranked(offline, profile, request(cpu=1)), [0], request(cpu=1))
        assert limit.most == pytest.approx(most)
        compared = told(offline, profile, request(cpu=1))["m"]["filters"][0]["compared"]
        assert compared["limit"]["cpu"] == pytest.approx(most)


def test_the_limit_by_label_is_the_filters():
    offline = fleet(machine("m", usage=LIGHT, labels={"pool": "dense"}), machine("n", usage=LIGHT))
    (limit,) = Fits(ratio_where=(TWO,)).limit(request(cpu=1), see(offline, request(cpu=1)))
    assert list(limit.most) == [20.0, 10.0]


def test_the_load_is_not_moved_by_the_ratio():
    """Utilization is of allocatable: a score of load says the same, and a ratio below 1 does not shrink the machine."""
    plain, ratio = (fleet(machine("m", usage={"cpu": 5, "memory": 0}, operator=o)) for o in ({}, {"ratio": {"cpu": 2}}))
    assert scores(GlobalVariance(), plain, request(cpu=1)) == scores(GlobalVariance(), ratio, request(cpu=1))
    assert fits(Fits(ratio={"cpu": 0.5}), 1, 1, used=8.0)
    assert not fits(Fits(ratio={"cpu": 0.5}), 3, 1, used=8.0)


@given(ratio=st.floats(0.1, 5), promised=st.floats(0, 20), asked=st.floats(0.01, 20))
def test_a_larger_ratio_never_refuses_more(ratio, promised, asked):
    if fits(Fits(ratio={"cpu": ratio}), asked, promised):
        assert fits(Fits(ratio={"cpu": min(ratio * 1.5, 100.0)}), asked, promised)


@pytest.mark.parametrize(
    "given_",
    [*({"ratio": one} for one in ({"cpu": 0}, {"gpu": 2.0}, {"cpu": 101})), {"ratio_where": (RatioWhere("a(", {}),)}],
)
def test_a_ratio_out_of_range_is_refused(given_):
    with pytest.raises(ValueError, match=next(iter(given_))):
        Fits(**given_)
    if "ratio" in given_:
        with pytest.raises(InvalidOperatorFacts, match="ratio"):
            read_operator_facts(given_)


def test_a_machines_ratio_is_laid_over_that_of_all():
    said = {"*": OperatorFacts(ratio={"cpu": 2.0, "memory": 1.2}), "m": OperatorFacts(ratio={"cpu": 1.0})}
    assert effective(said, "m").ratio == {"cpu": 1.0, "memory": 1.2}
