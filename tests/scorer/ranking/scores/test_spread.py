"""The score `spread`.

Without the label a machine scores 0, as in kube-scheduler's plugin PodTopologySpread: its ``IgnoredNodes`` miss a key.
"""

from __future__ import annotations

from scorer.ranking.explanation import explain
from scorer.ranking.rank import rank
from scorer.ranking.scores.spread import Spread
from tests.scorer.fleets import alone, fleet, machine, request, scores
from tests.scorer.ranking.rankings import ranked, small_fleet


def test_instances_of_a_cluster_spread() -> None:
    """A machine with one of the cluster scores less; another cluster does not count."""
    assert scores(Spread(), small_fleet(), request(cluster="c")) == {"a": 0, "b": 100}
    assert scores(Spread(), small_fleet(), request(cluster="other")) == {"a": 100, "b": 100}


def test_where_the_topology_is_not_known_it_scores_nothing() -> None:
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


def test_a_label_that_no_machine_has_is_told() -> None:
    """Of a rule and of the score, each label once; one that some machine has is not."""
    offline = fleet(machine("a", labels={"rack": "r1"}, usage={"cpu": 1, "memory": 1}), machine("b"))

    def told(by: str, **asked: object) -> list[str]:
        found = ranked(offline, alone(Spread(topology=by)), **asked)
        return [one for one in explain.answer(found).warnings if "which a rule looks at" in one]

    term = {"instances": {"app": "cart"}}
    rules = {"anti_affinity": [{**term, "topology": "rak"}, {**term, "topology": "machine"}]}
    assert told("rack", cluster="web") == told("zone") == []
    assert told("zone", cluster="web") == ["no machine has the label 'zone', which a rule looks at"]
    assert told("rack", **rules) == ["no machine has the label 'rak', which a rule looks at"]
