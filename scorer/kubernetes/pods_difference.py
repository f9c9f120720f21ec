"""How the pods of a cluster differ from the ledger's records of this cluster. Pure.

A pod that is bound and has not ended is a confirmed instance on its node, whatever the limits; also while it is being
deleted. Its id is the uid. A static pod's is the hash of its configuration, as in its control group; where another
instance has that hash, the uid. Where a deployer's instance has the uid, the pod's id is one that no deployer may use
(`own_id`). Only records with the label ``kubernetes=CLUSTER`` are compared: no other is ever released or written over.
A reservation that no pod of a list has is left to expire, since its binding may be under way.

A program that may create pods may give them any annotation. So a hash is believed only of a mirror pod that its node
controls, and only where it cannot be a uid. A record under it is the pod's only where it has the pod's name.
"""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime

import msgspec

from schemas.messages.sample import Rejected, check_machine_id
from schemas.rpc.request import InvalidRequest
from scorer.kubernetes.pods_body import CONFIG_HASH, CONFIG_MIRROR, Pod
from scorer.kubernetes.pods_request import NAME, Reading, request_of
from scorer.ledger.record.instance import CLUSTER, LIVE, Instance, own_id, too_large
from scorer.ledger.store.reconcile import Difference, difference
from scorer.ledger.view.view import instance_of

DOUBTFUL_LEAST = 10
"""So many may always be gone."""
_HASH = re.compile(r"[0-9a-f]{32}\Z")
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Changes:
    """The changes that make the ledger equal to the pods."""

    to_ledger: Difference
    """``added``: to confirm; ``changed``: to correct; ``gone``: to release."""
    refused: dict[str, str]
    """Why a pod cannot be in the ledger, by uid."""
    running: Set[str]
    """The ids of the instances that run."""


def ids_of_cluster(records: Iterable[Instance], how: Reading) -> set[str]:
    """Return the ids of the cluster's pods in the ledger. If they are in no page of a later list, they have ended."""
    return {one.id for one in records if one.state == "confirmed" and _is_ours(one, how)}


def is_doubtful(gone: int, before: int) -> bool:
    """Return whether a list would end so many instances that it is requested once more before it is applied.

    >>> is_doubtful(10, 10), is_doubtful(11, 21), is_doubtful(11, 22)
    (False, True, False)
    """
    return gone > DOUBTFUL_LEAST and 2 * gone > before


def changes(seen: Iterable[tuple[str, Pod]], records: Mapping[str, Instance], how: Reading) -> Changes:
    """Return the changes from events of a watch, each ``ADDED``, ``MODIFIED`` or ``DELETED``; a pod's last one counts.

    ``records``: the ledger's records with the ids of these pods. The reservation of an ended pod is released, too.
    """
    live = {name: one for name, one in records.items() if one.state in LIVE}
    ours, found = dict[str, Instance](), dict[str, Instance]()
    kept, refused = set[str](), dict[str, str]()
    for kind, pod in {pod.metadata.uid: (kind, pod) for kind, pod in seen}.values():
        ended, about = kind == "DELETED" or pod.status.phase in ENDED, pod.metadata
        if not ended and not pod.spec.node_name:
            continue  # it occupies no node
        there = {name: live[name] for name in ids_of(pod) if name in live}
        mine = {name: one for name, one in there.items() if _is_ours(one, how) and _may_be(pod, name, one)}
        ours |= mine
        if ended:
            continue
        free = [name for name in ids_of(pod) if name in mine or name not in live]
        names = [name for name in free if name not in found and name not in kept]
        if not names:
            refused[about.uid] = "its id is that of an instance which is not of this cluster"
            continue
        try:
            found[names[0]] = instance(pod, names[0], how)
        except (Rejected, ValueError) as error:
            refused[about.uid] = str(error)
            kept |= mine.keys() & names  # it runs: what the ledger has of it stays
    compared = {name: one for name, one in ours.items() if name not in kept}
    return Changes(difference(compared, list(found.values()), reservations=True), refused, found.keys() | kept)


def ids_of(pod: Pod) -> tuple[str, ...]:
    """Return the ids that a pod may have in the ledger, in the order of preference."""
    about, notes = pod.metadata, pod.metadata.annotations or {}
    static = notes.get(CONFIG_HASH, "") if CONFIG_MIRROR in notes else ""
    by_node = any(
        one.controller and one.kind == "Node" and one.name == pod.spec.node_name for one in about.owner_references or ()
    )
    return (*([static] if by_node and _HASH.match(static) else []), about.uid, own_id(about.uid))


def _is_ours(record: Instance, how: Reading) -> bool:
    return record.labels.get(CLUSTER) == how.cluster


def _may_be(pod: Pod, name: str, record: Instance) -> bool:
    """Return whether a record of this cluster can belong to the pod: static pods of several nodes may share a hash."""
    about, where = pod.metadata, (record.labels.get("namespace"), record.labels.get(NAME), record.machine)
    return name in (about.uid, own_id(about.uid)) or where == (about.namespace, about.name, pod.spec.node_name)


def instance(pod: Pod, instance_id: str, how: Reading) -> Instance:
    """Return a running pod as an instance of the ledger.

    Raises InvalidRequest, Rejected or ValueError where the pod cannot be an instance.
    """
    check_machine_id(pod.spec.node_name)
    made = instance_of(request_of(pod, instance_id, how), pod.spec.node_name, 0.0)
    if large := too_large(made.amounts, made.maxmemory):
        raise InvalidRequest(large)
    started = datetime.fromisoformat(pod.status.start_time).timestamp() if pod.status.start_time else 0.0
    return msgspec.structs.replace(made, state="confirmed", expires_at=0.0, started_at=started)
