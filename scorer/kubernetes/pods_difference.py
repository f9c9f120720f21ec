"""How the pods of a cluster differ from the ledger's records of this cluster. Pure.

A pod that is bound and has not ended is a confirmed instance on its node, whatever the limits; also while it is being
deleted. Its id is the uid. A static pod's is the hash of its configuration, as in its control group; where another
instance has that hash, the uid. Only records with the label ``kubernetes=CLUSTER`` are compared: no other is ever
released or written over. A reservation that no pod of a list has is left to expire, since its binding may be under way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from schemas.messages.sample import Rejected, check_machine_id
from schemas.rpc.request import NAME_LENGTH_MAX, InvalidRequest, read_request
from scorer.kubernetes.pods_body import CONFIG_HASH, Pod, limits_of, requests_of
from scorer.ledger.record.instance import LIVE, Instance
from scorer.ledger.record.units import too_large
from scorer.ledger.store.reconcile import Difference, difference
from scorer.ledger.view.view import instance_of

CLUSTER = "kubernetes"
"""The label that says which cluster an instance is of."""
LABELS = ("app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component")
OURS = "windward.io/"
"""Begins the annotations that say what Kubernetes has no field for: class, nic, expected-cpu ..."""
ENDED = ("Succeeded", "Failed")
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


@dataclass(frozen=True)
class Changes:
    """What makes the ledger equal to the pods."""

    to_ledger: Difference
    """``added``: to confirm; ``changed``: to correct; ``gone``: to release."""
    refused: dict[str, str]
    """Why a pod cannot be in the ledger, by uid."""
    running: Set[str]
    """The ids of the instances that run."""


class Listing:
    """A list of pods that comes in pages. What was of the cluster before it, and is in none of them, has ended.

    ``before``: the records of the ledger, read before the list was asked for. Its ids alone are kept.
    """

    def __init__(self, before: Iterable[Instance], how: Reading) -> None:
        self._how = how
        self.gone = {one.id for one in before if one.state == "confirmed" and _is_ours(one, how)}
        """The ids to release when the last page has been seen."""

    def page(self, pods: Iterable[Pod], records: Mapping[str, Instance]) -> Changes:
        """Return what a page says; ``records``: those with the ids of its pods."""
        found = changes([("ADDED", pod) for pod in pods], records, self._how)
        self.gone -= found.running
        return found


def changes(seen: Iterable[tuple[str, Pod]], records: Mapping[str, Instance], how: Reading) -> Changes:
    """Return what events of a watch say, each ``ADDED``, ``MODIFIED`` or ``DELETED``; the last one of a pod counts.

    ``records``: those with the ids of these pods. The reservation of a pod that has ended is released, too.
    """
    live = {name: one for name, one in records.items() if one.state in LIVE}
    running: list[Pod] = []
    ours: dict[str, Instance] = {}
    for kind, pod in {pod.metadata.uid: (kind, pod) for kind, pod in seen}.values():
        ended = kind == "DELETED" or pod.status.phase in ENDED
        if ended or is_running(pod):
            running += [] if ended else [pod]
            of_pod = {name: live[name] for name in ids_of(pod) if name in live}
            ours |= {name: one for name, one in of_pod.items() if _is_ours(one, how) and _may_be(pod, name, one)}
    return _changes(running, live, ours, how)


def _changes(
    running: Iterable[Pod], live: Mapping[str, Instance], ours: Mapping[str, Instance], how: Reading
) -> Changes:
    found: dict[str, Instance] = {}
    kept: set[str] = set()
    refused: dict[str, str] = {}
    for pod in running:
        free = [name for name in ids_of(pod) if name not in found and name not in kept]
        names = [name for name in free if name not in live or (name in ours and _may_be(pod, name, live[name]))]
        if not names:
            refused[pod.metadata.uid] = "its id is that of an instance which is not of this cluster"
            continue
        try:
            found[names[0]] = instance(pod, names[0], how)
        except (Rejected, ValueError) as error:
            refused[pod.metadata.uid] = str(error)
            kept |= ours.keys() & names  # it runs: what the ledger has of it stays
    compared = {name: one for name, one in ours.items() if name not in kept}
    return Changes(difference(compared, list(found.values()), reservations=True), refused, found.keys() | kept)


def is_running(pod: Pod) -> bool:
    """Return whether a pod takes room on a node."""
    return bool(pod.spec.node_name) and pod.status.phase not in ENDED


def ids_of(pod: Pod) -> tuple[str, ...]:
    """Return the ids that a pod may have in the ledger, the first that is free."""
    static = (pod.metadata.annotations or {}).get(CONFIG_HASH)
    return (static, pod.metadata.uid) if static else (pod.metadata.uid,)


def _is_ours(record: Instance, how: Reading) -> bool:
    return record.labels.get(CLUSTER) == how.cluster


def _may_be(pod: Pod, name: str, record: Instance) -> bool:
    """Return whether a record of this cluster can be the pod's: static pods of several nodes may have one hash."""
    return name == pod.metadata.uid or record.machine == pod.spec.node_name


def instance(pod: Pod, instance_id: str, how: Reading) -> Instance:
    """Return a running pod as the ledger has it. Annotations that cannot be read count as not there.

    Raises InvalidRequest, Rejected or ValueError where the pod itself cannot be an instance.
    """
    check_machine_id(pod.spec.node_name)
    asked = requests_of(pod)
    params: dict[str, Any] = {
        "id": instance_id,
        "priority_class": class_of(pod, how),
        "kind": kind_of(pod)[:NAME_LENGTH_MAX],
        "labels": labels_of(pod, how),
        "limits": {name: amount for name, amount in limits_of(pod).items() if name in _COUNTED},
        **{name: asked[name] for name in _COUNTED if name in asked},
    }
    if f"{OURS}nic" in asked:
        params["nic"] = asked[f"{OURS}nic"]
    try:
        request = read_request(params | _annotated(pod, how))
    except InvalidRequest:
        request = read_request(params)
    made = instance_of(request, pod.spec.node_name, 0.0)
    if large := too_large(made.amounts, made.maxmemory):
        raise InvalidRequest(large)
    started = datetime.fromisoformat(pod.status.start_time).timestamp() if pod.status.start_time else 0.0
    return msgspec.structs.replace(made, state="confirmed", expires_at=0.0, started_at=started)


def class_of(pod: Pod, how: Reading) -> str:
    """Return the class: by the operator's table, a name of Koordinator's, the quality of service, the priority."""
    name = pod.spec.priority_class_name
    if found := how.classes.get(name) or _CLASSES.get(name):
        return found
    if pod.status.qos_class == "BestEffort":
        return "free"
    return "batch" if (pod.spec.priority or 0) < 0 else "prod"


def kind_of(pod: Pod) -> str:
    """Return what is learned under: namespace and owner, without what each roll-out or run has of its own."""
    about = pod.metadata
    owner = next((one for one in about.owner_references if one.controller), None)
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


def labels_of(pod: Pod, how: Reading) -> dict[str, str]:
    """Return the labels of the instance: those kept, and where the pod is from."""
    given = pod.metadata.labels or {}
    kept = {name: given[name] for name in how.labels if name in given}
    return kept | {"namespace": pod.metadata.namespace, "pod": pod.metadata.name, CLUSTER: how.cluster}


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
