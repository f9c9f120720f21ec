"""Which limits the ledger is given for a request: those that the profile's filters name."""

from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec
import numpy as np
import pytest

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import in_role, of_growth, on_port, one_to_a_port, total
from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, Outcome
from scorer.placement.placer import Placement, hopeless
from scorer.plugins import Limit
from scorer.ranking.filters.masters import Masters
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import PlacedFilter
from scorer.ranking.rank import limits, rank
from tests.scorer.fleets import fleet, machine, request

PROFILE = load_profiles().choose()
MACHINES = [machine("a", cpu=8, memory=1e10), machine("b", cpu=16, memory=2e10)]
ROLE = {"cluster": "shop", "role": "master", "cluster_masters": 5}


@dataclass(frozen=True)
class FewInstances:
    name: ClassVar[str] = "few_instances"
    reason: ClassVar[str] = "too many instances"
    most: int = 50

    def __call__(self, request, machines):
        return machines.count < self.most

    def limit(self, request, machines):
        yield Limit(total("instances"), self.most, self.reason)
        yield Limit(total("instances", "batch", "free"), np.full(len(machines), self.most / 2), "too many of batch")


def found(asked, *more):
    offline = fleet(*MACHINES)
    profile = replace(PROFILE, filters=(*PROFILE.filters, *[PlacedFilter(one) for one in more]))
    ranking = rank(asked, offline.inputs(profile))
    return [{limit.measure: float(limit.most) for limit in of} for of in limits(ranking, [0, 1], asked)]


def test_each_filter_names_its_limit_for_each_machine():
    assert found(request(id="i", cpu=1)) == [{total("cpu"): 8.0}, {total("cpu"): 16.0}]
    full = request(id="i", cpu=1, memory=1e9, maxmemory=1e9, ports=(1, 2), **ROLE)
    first, second = found(full)
    assert (first[total("memory")], second[total("memory")]) == (1e10, 2e10)
    assert second[total("maxmemory")] == 2 * first[total("maxmemory")]
    assert (first[on_port(1)], first[on_port(2)], first[in_role("shop", "master")]) == (1.0, 1.0, 2.0)


def test_a_filter_of_another_package_gives_its_limit():
    first, _ = found(request(id="i", cpu=1), FewInstances(most=4))
    assert (first[total("instances")], first[total("instances", "batch", "free")]) == (4.0, 2.0)


def test_a_request_that_is_not_the_rankings_has_limits_of_its_own():
    """Of a batch of unlike instances one ranking is made; what the second asks for is limited, too."""
    offline = fleet(*MACHINES)
    ranking = rank(request(cpu=1), offline.inputs(PROFILE))
    asked = [request(cpu=1), request(memory=1e9), request(), request(cpu=1)]
    measures = [[limit.measure for limit in limits(ranking, [0], one)[0]] for one in asked]
    assert measures == [[total("cpu")], [total("memory")], [], [total("cpu")]]


@pytest.mark.parametrize("masters", range(1, 12))
@pytest.mark.parametrize("share", [0.0, 0.25, 1 / 3, 0.5, 1.0])
def test_the_masters_formula_is_below_the_share_and_at_least_one(masters, share):
    asked = request(id="i", cluster="shop", role="master", cluster_masters=masters)
    (limit,) = Masters(share=share).limit(asked, None)
    allowed = [n for n in range(1, 20) if n == 1 or n < share * masters - 1e-9]
    assert limit.most == max(allowed)


def test_what_stays_is_limited_only_in_what_grows():
    """Facts are not refused: what it held before, nor its role; a port it did not have is."""
    rest = (0.0,) * (len(RESOURCES) - 2)
    old = Instance(id="i", machine="a", state="confirmed", amounts=(1.0, 1e9, *rest), ports=(1,), cluster="c", role="r")
    new = msgspec.structs.replace(old, amounts=(0.5, 2e9, *rest), ports=(1, 2), role="master")
    asked = [
        *[Limit(total(name), 1.0, name) for name in ("cpu", "memory", "maxmemory", "instances")],
        *one_to_a_port((1, 2)),
        Limit(in_role("c", "master"), 1, "masters"),
    ]
    assert [limit.measure for limit in of_growth(asked, old, new)] == [total("memory"), on_port(2)]


@pytest.mark.parametrize(
    ("kind", "reasons", "current", "missing", "lost"),
    [
        pytest.param("conflict", ("too many",), True, "the ledger refused its machine: too many", 0, id="a limit"),
        pytest.param("conflict", ("too many",), False, "", 1, id="a limit, and others wrote"),
        pytest.param("conflict", ("too many", CHANGED), True, "", 1, id="a changed machine"),
        pytest.param("conflict", (ALL_OR_NONE,), True, "", 0, id="another instance failed"),
        pytest.param("none", (), True, "", 0, id="no candidates"),
    ],
)
def test_another_try_may_help(kind, reasons, current, missing, lost):
    """Not after a limit's refusal on a ledger that nobody else wrote; a conflict with others is counted."""
    placement = Placement([request(cpu=1)], [None])
    assert hopeless(placement, 0, Outcome(kind, reasons=reasons), current) is bool(missing)
    assert (placement.missing.get(0, ""), placement.lost[0]) == (missing, lost)
