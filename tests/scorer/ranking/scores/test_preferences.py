"""Scores by labels, taints and clusters.

In `spread` a machine without the label scores 0, as in kube-scheduler's plugin PodTopologySpread: its
``IgnoredNodes`` miss a key.
"""

import pytest

from scorer.ranking import explain
from scorer.ranking.explain import answer
from scorer.ranking.rank import rank
from scorer.ranking.scores.apart import Apart
from scorer.ranking.scores.data_locality import DataLocality
from scorer.ranking.scores.machine_preference import MachinePreference
from scorer.ranking.scores.spread import Spread
from scorer.ranking.scores.taint_preference import TaintPreference
from tests.scorer.fleets import alone, fleet, machine, ranked, request, scores, small_fleet


def test_each_instance_of_the_cluster_counts():
    there = [{"id": f"c-{number}", "machine": "b", "cpu": 1, "cluster": "c"} for number in range(3)]
    state = fleet(machine("a"), machine("b"), instances=there)
    assert scores(Apart(), state, request(cluster="c")) == {"a": 100, "b": 25}
    assert scores(Apart(), state, request(cluster="d")) == {"a": 100, "b": 100}


def test_a_request_without_a_cluster_has_no_such_score():
    ranking = ranked(small_fleet(), {"scores": [{"use": "apart"}, {"use": "least_allocated"}]}, request(cpu=1))
    assert list(answer(ranking).candidates[0].scores) == ["least_allocated"]


IDLE = {"cpu": 0.0, "memory": 0.0}
HOT = {"cpu": 0.8 * 32, "memory": 0.0}


@pytest.mark.parametrize(
    ("usage", "full", "chosen"),
    [
        pytest.param(IDLE, False, "b", id="an idle one"),
        pytest.param(HOT, False, "b", id="a hot one that still fits"),
        pytest.param(HOT, True, "a", id="but a full one"),
    ],
)
def test_the_default_keeps_a_cluster_apart(usage, full, chosen):
    """On any other machine that takes it, however loaded; together only where no other does, and the answer says so."""
    placed = [{"id": "c-1", "machine": "a", "cpu": 1, "cluster": "c"}]
    placed += [{"id": "big", "machine": "b", "cpu": 32}] if full else []
    state = fleet(machine("a", cpu=32.0, usage=IDLE), machine("b", cpu=32.0, usage=usage), instances=placed)
    found = answer(ranked(state, "windward", request(cpu=1, cluster="c")))
    assert found.machine == chosen
    assert any("cluster c" in line for line in found.warnings) == full


def test_instances_of_a_cluster_spread():
    assert scores(Spread(), small_fleet(), request(cluster="c")) == {"a": 0, "b": 100}
    assert scores(Spread(), small_fleet(), request(cluster="other")) == {"a": 100, "b": 100}


def test_where_the_topology_is_not_known_it_scores_nothing():
    """A machine without the label, with members of the group or without; others count as before."""
    rack = [machine(name, labels={"rack": of}) for name, of in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r3"))]
    members = [{"id": f"{on}{n}", "machine": on, "cluster": "web"} for on, many in (("a", 2), ("c", 1), ("x", 3))
               for n in range(many)]  # fmt: skip
    offline = fleet(*rack, machine("x"), machine("y"), instances=members)
    asked = request(cluster="web")
    assert scores(Spread(topology="rack"), offline, asked) == {"a": 0, "b": 0, "c": 50, "d": 100, "x": 0, "y": 0}
    assert scores(Spread(topology="zone"), offline, asked) == dict.fromkeys("abcdxy", 0)
    found = explain.answer(rank(asked, offline.inputs(alone(Spread(topology="rack")))), explain_all=True)
    shown = {one.machine: one.scores["spread"] for one in found.machines or ()}
    assert (shown["x"]["near"], shown["a"]["near"]) == (None, 2)


def test_a_label_that_no_machine_has_is_told():
    """Of a rule and of the score, each label once; one that some machine has is not. So is a name that none has."""
    offline = fleet(machine("a", labels={"rack": "r1"}, usage={"cpu": 1, "memory": 1}), machine("b"))

    def told(by, **asked):
        found = ranked(offline, alone(Spread(topology=by)), **asked)
        return [one for one in explain.answer(found).warnings if "which a rule looks at" in one]

    term = {"instances": {"app": "cart"}}
    rules = {"anti_affinity": [{**term, "topology": "rak"}, {**term, "topology": "machine"}]}
    assert told("rack", cluster="web") == told("zone") == []
    assert told("zone", cluster="web") == ["no machine has the label 'zone', which a rule looks at"]
    assert told("rack", **rules) == ["no machine has the label 'rak', which a rule looks at"]
    selector = "machine,rakk=r1,siz>3,zone!=a,pool notin (b),!gpu,rack"
    assert [one.split("'")[1] for one in told("rack", selector=selector)] == ["rakk", "siz"]
    found = explain.answer(ranked(offline, alone(Spread(topology="rack")), not_on=["a", "c"]))
    assert [one for one in found.warnings if "not_on" in one] == ["no machine is named 'c', which not_on lists"]


def test_data_that_is_there_scores():
    assert scores(DataLocality(), small_fleet(), request(data_labels=["image-x", "disk=hdd"])) == {"a": 50, "b": 50}


def test_preferred_labels_score_by_their_weight():
    prefer = request(prefer=[{"selector": "disk=ssd", "weight": 3}, {"selector": "rack", "weight": 1}])
    assert scores(MachinePreference(), small_fleet(), prefer) == {"a": 100, "b": pytest.approx(100 / 3)}
    assert scores(MachinePreference(rounding=True), small_fleet(), prefer)["b"] == 33


def test_a_taint_to_avoid_costs_unless_it_is_tolerated():
    assert scores(TaintPreference(), small_fleet()) == {"a": 0, "b": 100}
    assert scores(TaintPreference(), small_fleet(), request(tolerations=[{"key": "old"}])) == {"a": 100, "b": 100}
