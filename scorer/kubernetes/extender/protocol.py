"""The bodies that kube-scheduler sends to an extender and reads (``k8s.io/kube-scheduler/extender/v1``).

The keys are Go's field names. The scheduler sends names of nodes where its configuration has
``nodeCacheCapable: true``, else whole nodes, which are never read here: 5,000 of them are 49 MB.
"""

import msgspec

from schemas.values.read_json import reader
from scorer.kubernetes.pods_body import Pod, Said

SCORE_MAX = 100
"""Documented as 10, and not clamped: on 0 to 10 hundreds of 5,000 nodes tie at the top, on 0 to 100 up to 20."""
NOT_NAMED = "the extender's entry in KubeSchedulerConfiguration needs nodeCacheCapable: true"


class _Body(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """A body with Go's field names."""


class ExtenderArgs(_Body, frozen=True):
    """The arguments of ``filter`` and ``prioritize``: a pod, and the nodes left for it."""

    pod: Pod
    node_names: list[str] | None = None


class ExtenderFilterResult(_Body, frozen=True, omit_defaults=True):
    """The nodes that ``filter`` keeps, and the reasons against the others; without ``node_names`` no node fits."""

    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    """Nodes that the eviction of other pods may help."""
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(_Body, frozen=True):
    """The score of a node. One that is left out of the list has 0."""

    host: str
    score: int


class ExtenderBindingArgs(_Body, frozen=True):
    """The pod that ``bind`` binds, and its node."""

    pod_name: Said
    pod_namespace: Said
    pod_uid: Said = msgspec.field(name="PodUID")
    node: Said


class ExtenderBindingResult(_Body, frozen=True, omit_defaults=True):
    """Why the pod was not bound; empty: it is."""

    error: str = ""


read_args = reader(ExtenderArgs)
read_binding = reader(ExtenderBindingArgs)
encode = msgspec.json.Encoder().encode
