"""Labels that say how an instance, or a machine, is treated; and what no deployer may give one."""

from __future__ import annotations

from collections.abc import Mapping

MOVABLE = "movable"
"""An instance whose label of this name is ``false`` is never moved."""
DAEMON = "daemon"
"""An instance whose label of this name is ``true`` is of its machine: it ends with it. An empty one may have some."""
CLUSTER = "kubernetes"
"""The label that says which cluster of Kubernetes an instance, or a machine, is of. No query may give it."""
PODS = "kubernetes-pods"
"""The label of a machine that says how many pods it takes."""
_OWN = "pod:"
"""Begins the ids that no query may give."""


def own_id(uid: str) -> str:
    """Return the id of a pod whose uid is the id of a deployer's instance.

    >>> own_id("3f1c")
    'pod:3f1c'
    """
    return _OWN + uid


def why_not_a_deployers(instance_id: str, labels: Mapping[str, str]) -> str:
    """Return why a query may not give an instance this id, or these labels; "" where it may."""
    if instance_id.startswith(_OWN):
        return f"id: {instance_id!r} begins with {_OWN!r}, as only the ids of pods do: give another one"
    if CLUSTER in labels:
        return f"labels: {CLUSTER!r} is the mark of pods, which `windward pods` sets: give another name"
    return ""
