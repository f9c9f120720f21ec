"""What a node says of its machine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.messages.operator import OperatorFacts, Taint
from scorer.kubernetes.nodes_body import read_node, rules_of

LABELS = {"kubernetes": "east"}
TAINTED = [
    {"key": "gpu", "value": "a", "effect": "NoSchedule"},
    {"key": "old", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    {"key": "new", "effect": "SomethingElse"},
]


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
    body = {**body, "metadata": {"name": "n1", **body.get("metadata", {})}}
    assert rules_of(read_node(msgspec.json.encode(body)), "east") == wanted, what


@pytest.mark.parametrize(
    "body", [{"metadata": {}}, {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "many"}}}]
)
def test_what_is_no_machine(body: dict[str, Any]) -> None:
    """A name that no machine can have, an amount that is none."""
    with pytest.raises(ValueError, match=r"machine|many"):
        rules_of(read_node(msgspec.json.encode(body)), "east")
