"""Capacity, plans and moves by query: those of the command; nothing is changed."""

import re

import pytest

from schemas.rpc.request import InvalidRequest
from scorer.ledger.record.instance import of_builtins
from scorer.ranking.profiles.profile import ProfileError
from tests.scorer.fleets import fleet, machine
from tests.scorer.planning.balance.test_by_overload import hot_and_cold
from tests.scorer.rpc.test_results import Scorer


@pytest.fixture
def three():
    scorer = Scorer(fleet(*(machine(f"m{number}", usage={"cpu": 1, "memory": 5}) for number in range(3))))
    for name in ("same", "grows", "moves", "gone"):
        scorer.ask("place", id=name, cpu=1, memory=1, machine="m1", labels={"app": "x"} if name == "gone" else {})
        scorer.ask("confirm", id=name)
    return scorer


def test_a_step_has_the_record_by_which_it_can_be_undone(three):
    """Where that is asked for; the answer says on how large a fleet it was planned."""
    three.ask("place", id="there", cpu=1, memory=1, labels={"app": "a"})
    three.ask("confirm", id="there")
    wanted = [{"id": "there", "cpu": 2, "memory": 1, "labels": {"app": "a"}}, {"id": "new", "cpu": 1, "memory": 1}]
    before = three.service.current.ledger.instances["there"]
    found = three.ask("plan", instances=wanted, records=True)
    records = {one["id"]: one["record"] for one in found["steps"]}
    assert of_builtins(records["there"]) == before
    assert records["new"] is None
    assert (found["machines"], found["instances"]) == (
        len(three.service.current.snapshot), len(three.service.current.ledger)
    )  # fmt: skip
    assert [one["record"] for one in three.ask("plan", instances=wanted)["steps"]] == [None, None]


def test_releases_come_last_where_that_is_asked_for(three):
    three.ask("place", id="there", cpu=1, memory=1)
    three.ask("confirm", id="there")
    asked = {"instances": [{"id": "new", "cpu": 1, "memory": 1}], "prune": True}
    first, last = (three.ask("plan", **asked, release_last=late)["steps"] for late in (False, True))
    assert [one["action"] for one in first if one["id"] in ("there", "new")] == ["release", "place"]
    assert [one["action"] for one in last if one["id"] in ("there", "new")] == ["place", "release"]


@pytest.fixture
def hot():
    offline = hot_and_cold()
    scorer = Scorer(offline)
    for one in offline.ledger.instances.values():
        scorer.service.current.ledger.apply(one)
    return scorer


def told(found):
    return [(one["id"], one["source"], one["target"]) for one in found["moves"]]


def test_settings_in_place_of_the_profiles(hot):
    before = hot.service.current.profiles.choose("koordinator").rebalance
    assert len(told(hot.ask("rebalance", profile="koordinator"))) == 2
    assert len(told(hot.ask("rebalance", profile="koordinator", moves_max=1))) == 1
    assert told(hot.ask("rebalance"))
    assert told(hot.ask("rebalance", same=["machine"])) == []
    assert told(hot.ask("rebalance", settings={"gain_min": 1.0})) == []
    assert hot.service.current.profiles.choose("koordinator").rebalance == before, "the profile itself stays"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gain_min": "much"}, "settings.gain_min: expected a number, got text"),
        ({"gain_min": 2}, "gain_min: expected a share from 0 to 1"),
        ({"gain": 0.1}, "settings: no setting 'gain'; there are classes, cluster_max"),
        ({"moves_max": 10**6}, "settings: no setting 'moves_max'"),
    ],
)
def test_settings_that_are_refused(hot, settings, said):
    with pytest.raises(InvalidRequest, match=re.escape(said)):
        hot.ask("rebalance", settings=settings)


APART = [{"instances": {"app": "x"}, "topology": "rack"}]


@pytest.mark.parametrize(
    ("method", "asked", "error"),
    [
        ("capacity", {"cpu": 1, "labels": {"app": "x"}, "anti_affinity": APART}, "looks at instances of other"),
        ("capacity", {"cpu": "two"}, "cpu"),
        ("capacity", {"by": 3}, "by"),
        ("capacity", {"cpus": 3}, "cpus"),
        ("plan", {}, "instances: expected a list"),
        ("plan", {"instances": [{"cpu": 1}]}, r"instances\[0\]: id is required"),
        ("plan", {"instances": [{"id": "a"}, {"id": "a"}]}, r"instances\[1\]: id 'a' is listed twice"),
        ("plan", {"instances": [{"id": "a", "cpu": "x"}]}, r"instances\[0\]: cpu"),
        ("plan", {"instances": [], "prune_labels": {"a": "b"}}, "prune_labels: goes with prune"),
        ("plan", {"instances": [{"id": "a"}] * 10_001}, "instances: 10001, at most 10000"),
        ("plan", {"instances": [], "apply": True}, "apply"),
        ("rebalance", {"moves_max": 0}, "moves_max"),
        ("rebalance", {"every_s": 0}, "every_s"),
        ("rebalance", {"same": [""]}, "same: expected names"),
        ("rebalance", {"profile": "none"}, "profile"),
        ("rebalance", {"apply": True}, "apply"),
    ],
)
def test_refused(hot, method, asked, error):
    with pytest.raises((InvalidRequest, ProfileError), match=error):
        hot.ask(method, **asked)
