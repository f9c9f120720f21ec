"""A pod as a request: its amounts, its priority class, and the kind under which its use is learned. Pure.

It is the same for a bound pod (`scorer.kubernetes.pods_difference`) and for one that is to be placed
(`scorer.kubernetes.extender`). So one request is scored, reserved and confirmed. Its ties to a node
(`scorer.kubernetes.pods_ties`) are for plans of moves; kube-scheduler checks them itself when it places a pod.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from schemas.rpc.request import NAME_LENGTH_MAX, InvalidRequest, Request, read_request
from scorer.kubernetes.pods_body import NIC, Pod, limits_of, requests_of
from scorer.kubernetes.pods_ties import OURS, ties_of
from scorer.ledger.record.instance import CLUSTER, MOVABLE

NAME = "pod"
"""The label that has the pod's name."""
LABELS = ("app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component")
REPLACES = "replaces"
"""The label of a hold that has the uid of the evicted pod."""
_COUNTED = ("cpu", "memory")
_CLASSES = {"koord-prod": "prod", "koord-mid": "mid", "koord-batch": "batch", "koord-free": "free"}
_OF_A_SCHEDULE = re.compile(r"-\d{8,}$")
"""The end of a job's name that a CronJob has made: the minute of its start."""


@dataclass(frozen=True)
class Reading:
    """How pods are read as instances."""

    cluster: str
    labels: tuple[str, ...] = LABELS
    """The labels of pods that are kept."""
    classes: Mapping[str, str] = field(default_factory=dict)
    """Classes by name of a Kubernetes priority class, before all else."""


def request_of(pod: Pod, instance_id: str, how: Reading) -> Request:
    """Return a pod's request. Annotations that cannot be read are ignored.

    Raises InvalidRequest or ValueError where the pod itself cannot be an instance.
    """
    asked = requests_of(pod)
    ties, marks = ties_of(pod, how.labels, how.cluster)
    params: dict[str, Any] = {
        "id": instance_id,
        "priority_class": class_of(pod, how),
        "kind": kind_of(pod)[:NAME_LENGTH_MAX],
        "labels": labels_of(pod, how) | marks,
        "limits": {name: amount for name, amount in limits_of(pod).items() if name in _COUNTED},
        **{name: asked[name] for name in _COUNTED if name in asked},
    }
    if NIC in asked:
        params["nic"] = asked[NIC]
    more = ties | _annotated(pod, how)
    with suppress(InvalidRequest):
        return read_request(params | more)
    for name, value in more.items():
        try:
            read_request(params | {name: value})
        except InvalidRequest:
            if name in ties:  # it is too long for a record
                params["labels"][MOVABLE] = "false"
        else:
            params[name] = value
    return read_request(params)


def class_of(pod: Pod, how: Reading) -> str:
    """Return the class: by the operator's table, a name of Koordinator's, the quality of service, the priority."""
    name = pod.spec.priority_class_name
    if found := how.classes.get(name) or _CLASSES.get(name):
        return found
    if pod.status.qos_class == "BestEffort":
        return "free"
    return "batch" if (pod.spec.priority or 0) < 0 else "prod"


def kind_of(pod: Pod) -> str:
    """Return the kind of a pod: namespace and owner, without the parts that differ by roll-out or run."""
    about = pod.metadata
    owner = next((one for one in about.owner_references or () if one.controller), None)
    if owner is None:
        return ""
    name = owner.name
    if owner.kind == "ReplicaSet" and (template := (about.labels or {}).get("pod-template-hash")):
        name = name.removesuffix(f"-{template}")
    elif owner.kind == "Job":
        name = _OF_A_SCHEDULE.sub("", name)
    elif owner.kind == "Node":  # a static pod
        name = about.name.removesuffix(f"-{pod.spec.node_name}")
    return f"{about.namespace}/{name}"


def hold_id(cluster: str, kind: str) -> str:
    """Return the id under which the evictor holds a node for the next pod of a kind (a nominated node).

    So the extender finds it by the new pod alone, and no kind is evicted twice at a time. Any deployer may reserve
    under it: a hold is only what the evictor also wrote to `schemas.names.Names.holds`, by its generation. Chosen over
    the move's own reservation, which ends with the evicted pod: before a StatefulSet's next one is made.

    >>> hold_id("east", "shop/web")
    'evicted-732c4063ce051ebf'
    """
    return f"evicted-{hashlib.sha256(f'{cluster}/{kind}'.encode()).hexdigest()[:16]}"


def labels_of(pod: Pod, how: Reading) -> dict[str, str]:
    """Return the labels of the instance: the pod's kept labels, and its origin."""
    given = pod.metadata.labels or {}
    kept = {name: given[name] for name in how.labels if name in given}
    return kept | {"namespace": pod.metadata.namespace, NAME: pod.metadata.name, CLUSTER: how.cluster}


def _annotated(pod: Pod, how: Reading) -> dict[str, Any]:
    given = {
        name.removeprefix(OURS): value
        for name, value in (pod.metadata.annotations or {}).items()
        if name.startswith(OURS)
    }
    said: dict[str, Any] = {"nic": given["nic"]} if "nic" in given else {}
    expected = {name.removeprefix("expected-"): value for name, value in given.items() if name.startswith("expected-")}
    if expected:
        said["expected"] = expected
    if "class" in given and pod.spec.priority_class_name not in how.classes:
        said["priority_class"] = given["class"]
    return said
