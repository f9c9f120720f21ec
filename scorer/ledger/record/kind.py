"""The kind of an instance, under which its use is learned: the deployer's, else by cluster and role or a label.

Where no ``kind`` is given, instances of one cluster and role are of one kind. Clusters whose names differ only in a
number at the end, such as shards, count as one. Other instances are of one kind if they have the same value of the
first label of `LABELS` that they have.

The order is from finer to coarser names, since finer ones explain more on public traces. Share of the variance
between instances' mean CPU that the mean of the others of the same name explains (each left out, shrunken as by three):

    the job of a Google task (2011)                        0.76
    the name of a PlanetLab sliver, five days              0.37 to 0.43, without its number 0.37 to 0.43
    its owner                                              0.30 to 0.38
    the size of a Bitbrains VM (a group of its own here)   0.42

Rejected: the id without its number. It explains as much as the name, but requests that are equal except for their ids
share one ranking, and would no longer.
"""

from typing import Any

LABELS = ("app", "app.kubernetes.io/name", "image", "owner")
_DIGITS = "0123456789"


def kind_of(one: Any) -> str:
    """Return the kind of an instance, or of the instance that a request describes; "" without one.

    >>> from schemas.rpc.request import Request
    >>> kind_of(Request(kind="redis")), kind_of(Request(cluster="cart-17", role="master")), kind_of(Request(id="a-1"))
    ('redis', 'cluster=cart-*,role=master', '')
    >>> kind_of(Request(labels={"owner": "payments", "app": "shop"}))
    'app=shop'
    """
    if one.kind:
        return str(one.kind)
    if one.cluster:
        stem = one.cluster.rstrip(_DIGITS)
        name = one.cluster if stem in ("", one.cluster) else f"{stem}*"
        return f"cluster={name},role={one.role}" if one.role else f"cluster={name}"
    for label in LABELS if one.labels else ():
        if (value := one.labels.get(label)) is not None:
            return f"{label}={value}"
    return ""
