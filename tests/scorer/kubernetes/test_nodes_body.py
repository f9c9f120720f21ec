"""What a node says of its machine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.messages.operator import OperatorFacts, Taint
from scorer.kubernetes.nodes_body import Node, read_node, read_nodes, rules_of, unreadable_amounts
from tests.rows import each_row

LABELS = {"kubernetes": "east"}
TAINTED = [
    {"key": "gpu", "value": "a", "effect": "NoSchedule"},
    {"key": "old", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    {"key": "new", "effect": "SomethingElse"},
]


def node(body: dict[str, Any]) -> Node:
    """Return a node as it is read."""
    whole = {"kind": "Node", "apiVersion": "v1", "spec": {}, "status": {}} | body
    whole["metadata"] = {"name": "n1", "resourceVersion": "1", **body.get("metadata", {})}
    return read_node(msgspec.json.encode(whole))


@pytest.mark.parametrize(
    ("what", "body", "wanted"),
    [
        ("nothing is said", {}, OperatorFacts(labels=LABELS)),
        (
            "its own label does not win",
            {"metadata": {"labels": {"zone": "a", "kubernetes": "mine"}}},
            OperatorFacts(labels={"zone": "a", "kubernetes": "east"}),
        ),
        ("cordoned", {"spec": {"unschedulable": True}}, OperatorFacts(labels=LABELS, cordon=True)),
        (
            "taints",
            {"spec": {"taints": TAINTED}},
            OperatorFacts(
                labels=LABELS,
                taints=(Taint("gpu", "a"), Taint("old", "", "avoid"), Taint("node.kubernetes.io/not-ready:NoExecute")),
            ),
        ),
        (
            "what pods may request is less than there is",
            {"status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                        "allocatable": {"cpu": "3920m", "memory": "8Gi"}}},
            OperatorFacts(labels=LABELS, capacity={"cpu": 4.0, "memory": 2.0**33}, reserve={"cpu": 4.0 - 3.92}),
        ),
        (
            "how many pods it takes",
            {"metadata": {"labels": {"kubernetes-pods": "9"}}, "status": {"allocatable": {"pods": "110"}}},
            OperatorFacts(labels=LABELS | {"kubernetes-pods": "110"}),
        ),
        (
            "allocatable alone",
            {"status": {"allocatable": {"cpu": "4"}}},
            OperatorFacts(labels=LABELS),
        ),
    ],
)  # fmt: skip
def test_rules(what: str, body: dict[str, Any], wanted: OperatorFacts) -> None:
    """Each field of a node that placement knows."""
    assert rules_of(node(body), "east") == wanted, what


def test_what_is_no_machine() -> None:
    """A name that no machine can have."""
    with pytest.raises(ValueError, match="machine"):
        rules_of(node({"metadata": {"name": "n 1"}}), "east")


@each_row(
    ("capacity", "allocatable", "read", "reserve", "told"),
    [
        ({"cpu": "4", "memory": "lots"}, {"cpu": "-2"}, {"cpu": 4.0}, {},
         ["capacity.memory: 'lots'", "allocatable.cpu: '-2'"]),
        ({"cpu": "many", "memory": "8"}, {"cpu": "3", "memory": "6"}, {"memory": 8.0}, {"memory": 2.0},
         ["capacity.cpu: 'many'"]),
        ({"cpu": "4"}, {"cpu": "3", "memory": "1 Gi"}, {"cpu": 4.0}, {"cpu": 1.0}, ["allocatable.memory: '1 Gi'"]),
        ({"cpu": ""}, {"pods": "some"}, {}, {}, ["capacity.cpu: ''", "allocatable.pods: 'some'"]),
        ({"x.com/gpu": "?"}, {"hugepages-2Mi": "?"}, {}, {}, []),
    ],
)  # fmt: skip
def test_an_amount_that_is_none_costs_only_itself(
    capacity: dict[str, str], allocatable: dict[str, str], read: dict[str, float], reserve: dict[str, float],
    told: list[str],
) -> None:  # fmt: skip
    """The cordon, taints and labels stay, and the other amounts; what cannot be read is named."""
    spec = {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    status = {"capacity": capacity, "allocatable": allocatable}
    one = node({"metadata": {"labels": {"zone": "a"}}, "spec": spec, "status": status})
    wanted = OperatorFacts(
        labels={"zone": "a"} | LABELS, cordon=True, taints=(Taint("gpu"),), capacity=read, reserve=reserve
    )
    assert rules_of(one, "east") == wanted
    assert unreadable_amounts(one) == told


@pytest.mark.parametrize(
    "body", [{}, {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": None}]
)
def test_what_is_no_list_of_nodes(body: dict[str, Any]) -> None:
    """An answer without what the API server always gives."""
    with pytest.raises(msgspec.DecodeError):
        read_nodes(msgspec.json.encode(body))
