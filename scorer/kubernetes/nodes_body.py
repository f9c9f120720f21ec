"""A node in the API server's form, and the facts of its machine: operators' rules override them. Pure."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import msgspec

from schemas.messages.operator import OperatorFacts, Taint
from schemas.messages.sample import check_machine_id
from schemas.resources import CPU, MEMORY, RESOURCES
from schemas.values.numbers import Amount
from schemas.values.quantity import parse_quantity
from schemas.values.read_json import reader
from scorer.kubernetes.pods_body import Amounts, Body, Page, Said
from scorer.ledger.record.instance import CLUSTER, PODS

_EFFECTS: Mapping[str, str] = {"NoSchedule": "refuse", "NoExecute": "refuse", "PreferNoSchedule": "avoid"}
_CORDONED = "node.kubernetes.io/unschedulable"
"""The taint that Kubernetes gives a cordoned node; it adds nothing to the cordon."""
NO_EXECUTE = ":NoExecute"
"""Ends the key of a taint of this effect, so that a toleration of NoSchedule does not tolerate it."""
_COUNTED = (RESOURCES[CPU], RESOURCES[MEMORY])


class NodeMeta(Body, frozen=True):
    name: Said
    resource_version: Said
    labels: dict[str, str] | None = None


class NodeTaint(Body, frozen=True):
    key: Said
    effect: Said
    value: str = ""


class NodeSpec(Body, frozen=True):
    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] | None = None


class NodeStatus(Body, frozen=True):
    """A node's capacity, and the part that pods may request."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None


class Node(Body, frozen=True):
    metadata: NodeMeta
    spec: NodeSpec
    status: NodeStatus
    kind: Literal["Node"] = "Node"
    api_version: Literal["v1"] = "v1"


class OneNode(Node, frozen=True):
    kind: Literal["Node"]
    api_version: Literal["v1"]


class NodeList(Page[Node], frozen=True):
    kind: Literal["NodeList"]


read_nodes = reader(NodeList)
read_node = reader(OneNode)


def rules_of(node: Node, cluster: str) -> OperatorFacts:
    """Return labels, taints, cordon, capacity and reserve (capacity - allocatable) of a node.

    The label ``kubernetes`` names the cluster, as on its instances; ``kubernetes-pods`` says how many pods it takes. A
    taint of NoExecute has a key of its own, since pods tolerate it apart from one of NoSchedule. A taint that keeps a
    cordoned node empty is left out: the cordon says it. So is an amount that is none (`unreadable_amounts`). Raises
    ValueError where the name is no machine's.
    """
    check_machine_id(node.metadata.name)
    capacity, allocatable = _read(node.status.capacity), _read(node.status.allocatable)
    pods = {PODS: f"{allocatable['pods']:.0f}"} if "pods" in allocatable else {}
    return OperatorFacts(
        labels=(node.metadata.labels or {}) | pods | {CLUSTER: cluster},
        taints=tuple(
            Taint(each.key + NO_EXECUTE * (each.effect == "NoExecute"), each.value, _EFFECTS[each.effect])  # type: ignore[arg-type]
            for each in node.spec.taints or ()
            if each.key != _CORDONED and each.effect in _EFFECTS
        ),
        cordon=node.spec.unschedulable,
        capacity={name: capacity[name] for name in _COUNTED if name in capacity},
        reserve={
            name: capacity[name] - allocatable[name]
            for name in _COUNTED
            if name in capacity and name in allocatable and capacity[name] > allocatable[name]
        },
    )


def unreadable_amounts(node: Node) -> list[str]:
    """Return the errors in a node's amounts, in words."""
    said = (("capacity", node.status.capacity), ("allocatable", node.status.allocatable))
    return [
        f"{where}.{name}: {given[name]!r}"
        for where, given in said
        for name in (*_COUNTED, "pods")
        if given and name in given and name not in _read(given)
    ]


def _read(amounts: Amounts | None) -> dict[str, float]:
    found = {}
    for name in (*_COUNTED, "pods"):
        if amounts and name in amounts:
            with suppress(ValueError):  # msgspec's is one
                found[name] = msgspec.convert(parse_quantity(amounts[name]), Amount)
    return found
