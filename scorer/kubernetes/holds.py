"""A hold: the reservation of a node for the pod that will replace an evicted one (a nominated node). Pure.

The evictor reserves the target of a move under an id that follows from the cluster and the pod's kind. So the extender
finds it by the new pod alone, and no kind is evicted twice at a time. The label ``replaces`` names the evicted pod.

Any deployer may reserve under that id. So the evictor writes the generation of its reservation beside it
(`schemas.names.Names.holds`), which its Redis user alone may: a reservation without it steers no pod.

Chosen over the move's own reservation (``update --move``), which ends with the evicted pod: a StatefulSet's pod has
ended before the new one is made.
"""

import hashlib

import msgspec

from schemas.rpc.request import Request
from scorer.ledger.record.instance import CLUSTER

REPLACES = "replaces"


def hold_id(cluster: str, kind: str) -> str:
    """Return the id of the reservation for the next pod of a kind.

    >>> hold_id("east", "shop/web")
    'evicted-732c4063ce051ebf'
    """
    return f"evicted-{hashlib.sha256(f'{cluster}/{kind}'.encode()).hexdigest()[:16]}"


def hold(request: Request, cluster: str, uid: str, machine: str, lasts_s: float) -> Request:
    """Return the request that holds a machine for the successor of an evicted pod; ``request``: the pod's own."""
    return msgspec.structs.replace(
        request,
        id=hold_id(cluster, request.kind),
        machine=machine,
        ttl_s=lasts_s,
        labels={name: value for name, value in request.labels.items() if name != CLUSTER} | {REPLACES: uid},
    )
