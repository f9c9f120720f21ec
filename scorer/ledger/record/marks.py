"""Labels that Windward interprets; and the labels and ids that no deployer may set."""

from collections.abc import Mapping

MOVABLE = "movable"
"""An instance whose label of this name is ``false`` is never moved."""
DAEMON = "daemon"
"""An instance whose label of this name is ``true`` belongs to its machine and ends with it.

A machine with no other instances counts as empty.
"""
CLUSTER = "kubernetes"
"""The label with the Kubernetes cluster of an instance or machine. No query may set it."""
PODS = "kubernetes-pods"
"""The label with the number of pods that a machine takes."""
_OWN = "pod:"
"""Begins the ids that no query may give."""


def own_id(uid: str) -> str:
    """Return the id for a pod whose uid a deployer uses as the id of an instance.

    >>> own_id("3f1c")
    'pod:3f1c'
    """
    return _OWN + uid


def why_not_a_deployers(instance_id: str, labels: Mapping[str, str]) -> str:
    """Return why a query may not set this id, or these labels; "" where it may."""
    if instance_id.startswith(_OWN):
        return f"id: {instance_id!r} begins with {_OWN!r}, as only the ids of pods do: give another one"
    if CLUSTER in labels:
        return f"labels: {CLUSTER!r} is the mark of pods, which `windward pods` sets: give another name"
    return ""
