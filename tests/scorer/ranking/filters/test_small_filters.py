"""Filters of one idea each: who passes, and which settings are refused."""

import pytest

from scorer.ranking.filters import affinity as near
from scorer.ranking.filters.fresh import Fresh
from scorer.ranking.filters.machine_name import MachineName
from scorer.ranking.filters.masters import Masters
from scorer.ranking.filters.maxmemory import Maxmemory
from scorer.ranking.filters.memory_pressure import MemoryPressure
from scorer.ranking.filters.ports import Ports
from scorer.ranking.filters.taints import Taints
from scorer.ranking.filters.warming import Warming
from tests.scorer.fleets import IDLE, machine, passes, why

REDIS = {"instances": {"app": "redis"}}
RACK, NEW, LOST = ({"instances": {"app": app}, "topology": "rack"} for app in ("redis", "new", "lost"))


@pytest.mark.parametrize(
    ("plugin", "asked", "expected"),
    [
        (near.Affinity(), {"affinity": [REDIS]}, "a"),
        (near.Affinity(), {"affinity": [RACK]}, "a b"),
        (near.Affinity(), {"affinity": [{"instances": {"app": "none"}}]}, ""),
        (near.Affinity(), {"affinity": [NEW], "labels": {"app": "new"}}, "a b c"),
        # a member on a machine without the label is near nobody: InterPodAffinity counts none there
        (near.Affinity(), {"affinity": [LOST], "labels": {"app": "lost"}}, "a b c"),
        (near.Affinity(), {"affinity": [{"instances": {"cluster": "c1"}}]}, "c"),
        (near.AntiAffinity(), {"anti_affinity": [REDIS]}, "b c d"),
        (near.AntiAffinity(), {"anti_affinity": [RACK]}, "c d"),
        (near.AntiAffinity(), {"anti_affinity": [{**RACK, "others": 1}]}, "a b c d"),
        (near.AntiAffinity(), {"anti_affinity": [REDIS, {"instances": {"cluster": "c1"}}]}, "b d"),
        (near.AntiAffinity(), {"anti_affinity": [{"instances": {"app": "redis", "cluster": "c1"}}]}, "a b c d"),
    ],
)
def test_affinity(plugin, asked, expected):
    """Near, or far from, instances by machine and by topology label; the first of a group may start."""
    machines = [machine(name, labels={"rack": rack}) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"))]
    instances = [
        {"id": "1", "machine": "a", "labels": {"app": "redis"}},
        {"id": "2", "machine": "c", "cluster": "c1"},
        {"id": "3", "machine": "d", "labels": {"app": "lost"}},
    ]
    assert passes(plugin, *machines, machine("d"), instances=instances, **asked) == expected


@pytest.mark.parametrize(
    ("age_s", "interval_s", "skew_s", "fresh"),
    [(60, 10, 0, True), (60.5, 10, 0, False), (170, 60, 0, True), (181, 60, 0, False), (63, 10, 4, False)],
)
def test_fresh(age_s, interval_s, skew_s, fresh):
    """Data is fresh for a minute, or three of the machine's own intervals; skew does not make it younger."""
    one = machine("m", usage=IDLE, age_s=age_s, interval_s=interval_s, skew_s=skew_s)
    assert passes(Fresh(), one, machine("other", usage=IDLE)) == ("m other" if fresh else "other")


def test_fresh_tells_silent_from_stale():
    one, other = machine("never"), machine("old", usage=IDLE, age_s=900)
    assert why(Fresh(), one, other, machine("new", usage=IDLE)) == ["without data", "stale"]


def test_a_named_machine_is_the_only_one():
    machines = [machine("a", operator={"cordon": True}), machine("b")]
    assert passes(MachineName(), *machines, machine="a") == "a"
    assert passes(MachineName(), *machines, machine="nowhere") == ""


@pytest.mark.parametrize(
    ("there", "total", "passed"),
    [(0, 1, True), (0, 2, True), (1, 3, False), (1, 4, False), (1, 5, True), (2, 6, False), (2, 7, True)],
)
def test_masters_of_one_cluster(there, total, passed):
    """A machine stays below half of a cluster's masters; the first is always allowed."""
    taken = [{"id": f"i{n}", "machine": "m", "cluster": "c", "role": "master"} for n in range(there)]
    taken += [{"id": "replica", "machine": "m", "cluster": "c", "role": "replica"}]
    taken += [{"id": "other", "machine": "m", "cluster": "d", "role": "master"}]
    asked = {"cluster": "c", "role": "master", "cluster_masters": total}
    assert passes(Masters(), machine("m"), instances=taken, **asked) == ("m" if passed else "")
    assert passes(Masters(), machine("m"), instances=taken, **(asked | {"role": "replica"})) == "m"


def test_sum_of_maxmemory():
    taken = [{"id": "i", "machine": "a", "maxmemory": 50}]
    assert passes(Maxmemory(share=0.8), machine("a"), machine("b"), instances=taken, maxmemory=30) == "a b"
    assert passes(Maxmemory(share=0.8), machine("a"), machine("b"), instances=taken, maxmemory=31) == "b"


def test_memory_pressure_goes_by_the_shortest_window():
    windows = {"300": {"memory": 98}, "3600": {"memory": 40}}
    assert passes(MemoryPressure(available_min=0.05), machine("m", windows=windows), machine("ok", usage=IDLE)) == "ok"
    only = MemoryPressure(available_min=0.05, best_effort_only=True)
    assert passes(only, machine("m", windows=windows), memory=1) == "m"
    assert passes(only, machine("m", windows=windows)) == ""


def test_ports_are_used_once():
    taken = [{"id": "i", "machine": "a", "ports": [6379]}]
    assert passes(Ports(), machine("a"), machine("b"), instances=taken, ports=[6380, 6379]) == "b"
    assert passes(Ports(), machine("a"), machine("b"), instances=taken) == "a b"


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], "plain avoided"),
        ([{"key": "gpu"}], "plain avoided gpu"),
        ([{"key": "gpu", "value": "no"}], "plain avoided"),
        ([{"key": "gpu", "value": "yes", "effect": "refuse"}], "plain avoided gpu"),
        ([{"key": "gpu", "effect": "avoid"}], "plain avoided"),
        ([{}], "plain avoided gpu"),
    ],
)
def test_taints(tolerations, expected):
    """A taint that refuses keeps away what does not tolerate it; one that avoids only costs score."""
    machines = [
        machine("plain"),
        machine("avoided", operator={"taints": [{"key": "old", "effect": "avoid"}]}),
        machine("gpu", operator={"taints": [{"key": "gpu", "value": "yes"}]}),
    ]
    assert passes(Taints(), *machines, tolerations=tolerations) == expected


def test_warming_is_off_until_a_coverage_is_asked_for():
    thin = machine("m", usage={"cpu": {"mean": 1, "coverage": 0.4}})
    assert passes(Warming(), thin) == "m"
    assert passes(Warming(coverage_min=0.5), thin) == ""
