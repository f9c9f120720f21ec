"""A pod in the API server's form: the few fields that are read, and its total requests.

Own narrow structs are decoded in 0.01 ms a pod, the types of a client library in 0.1 to 2 ms.

Fields that every API server sends have no default here, so the answer of another service or a proxy is an error: taken
for an empty list, it would end every pod of the ledger.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from schemas.values.quantity import parse_quantity
from schemas.values.read_json import reader

Said = Annotated[str, msgspec.Meta(min_length=1)]
"""A text that is never left out."""
Amounts = dict[str, str | float]
"""Quantities by resource name, as they are written."""
CONFIG_HASH = "kubernetes.io/config.hash"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
NIC = "windward.io/nic"
"""The extended resource by which a pod requests network bandwidth."""
_COUNTED = ("cpu", "memory", NIC)
Listed = TypeVar("Listed")


class Body(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of a body; fields that are not declared are ignored. An empty list in Go may be null."""


class Owner(Body, frozen=True):
    kind: Said
    name: Said
    controller: bool | None = None


class Meta(Body, frozen=True):
    name: Said
    namespace: Said
    uid: Said
    resource_version: Said
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    deletion_timestamp: str | None = None


class Amounted(Body, frozen=True):
    """The requests of a container or a whole pod."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerPort(Body, frozen=True):
    """A port of a container; ``host_port`` 0: none on the host."""

    container_port: int = 0
    host_port: int = 0


class Container(Body, frozen=True):
    """A container; one that starts first and goes on running (``restart_policy`` Always) is a sidecar."""

    name: str = ""
    resources: Amounted | None = None
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] | None = None


class NodeRequirement(Body, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Selecting(Body, frozen=True):
    """Requirements that hold together: on labels, and on fields of a node."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[NodeRequirement, ...] | None = None
    match_fields: tuple[NodeRequirement, ...] | None = None


class NodeSelector(Body, frozen=True):
    """Terms of which one holds."""

    node_selector_terms: tuple[Selecting, ...] | None = None


class NodeAffinity(Body, frozen=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodTerm(Body, frozen=True):
    """A term on other pods, and the node label by whose values nearness is defined."""

    topology_key: str = ""
    label_selector: Selecting | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selecting | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class PodAffinity(Body, frozen=True):
    """Which pods a pod must be near, or far from."""

    required: tuple[PodTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinities(Body, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodToleration(Body, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadConstraint(Body, frozen=True):
    """A spread constraint of a pod; only whether it is required is read."""

    when_unsatisfiable: str = ""


class Volume(Body, frozen=True):
    """A volume of a pod; data on the node's own disk is lost when the pod leaves."""

    empty_dir: dict[str, msgspec.Raw] | None = None
    host_path: dict[str, msgspec.Raw] | None = None


class Spec(Body, frozen=True):
    containers: tuple[Container, ...]
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    init_containers: tuple[Container, ...] | None = None
    overhead: Amounts | None = None
    resources: Amounted | None = None
    node_selector: dict[str, str] | None = None
    affinity: PodAffinities | None = None
    tolerations: tuple[PodToleration, ...] | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None
    host_network: bool | None = None
    resource_claims: tuple[dict[str, msgspec.Raw], ...] | None = None
    volumes: tuple[Volume, ...] | None = None


class ContainerStatus(Body, frozen=True):
    """A container's current resources, which differ from its requests while it is resized."""

    name: str = ""
    resources: Amounted | None = None
    allocated_resources: Amounts | None = None


class Condition(Body, frozen=True):
    type: str = ""
    reason: str = ""


class Status(Body, frozen=True):
    """The current state of a pod; while the whole pod is resized, also its current resources."""

    phase: str = ""
    qos_class: str = ""
    start_time: str | None = None
    resources: Amounted | None = None
    allocated_resources: Amounts | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Body, frozen=True):
    metadata: Meta
    spec: Spec
    status: Status
    kind: Literal["Pod"] = "Pod"
    api_version: Literal["v1"] = "v1"


class OnePod(Pod, frozen=True):
    """A pod: an answer by itself, or the object of an event."""

    kind: Literal["Pod"]
    api_version: Literal["v1"]


class ListMeta(Body, frozen=True):
    """The metadata of a list: a watch begins at its version; ``continue_`` is the token of the next page."""

    resource_version: Said
    continue_: str = msgspec.field(default="", name="continue")


class Bookmark(Body, frozen=True):
    """An event that carries only a version."""

    metadata: ListMeta


class Page(Body, Generic[Listed], frozen=True):
    """A page of a list, or all of it."""

    kind: str
    api_version: Literal["v1"]
    metadata: ListMeta
    items: tuple[Listed, ...]


class PodList(Page[Pod], frozen=True):
    kind: Literal["PodList"]


read_list = reader(PodList)
read_pod = reader(OnePod)


def requests_of(pod: Pod) -> dict[str, float]:
    """Return a pod's total requests of cores, memory and network, as kube-scheduler counts; only those that are named.

    It is the larger of two sums, plus the overhead: containers and sidecars, which run together; or any other init
    container with the sidecars started before it. Requests of the whole pod replace those of its containers. A resized
    container counts with the larger of current resources and requests; with the current ones, if its node can never
    give more.
    """
    said, infeasible = pod.status, _is_infeasible(pod)
    now = {each.name: each for some in (said.init_container_statuses, said.container_statuses) for each in some or ()}

    def of(one: Container) -> dict[str, float]:
        asked, status = _requested(one.resources), now.get(one.name)
        if status is None:
            return asked
        return _effective(asked, _most(_requested(status.resources), _read(status.allocated_resources)), infeasible)

    running = _sum([of(one) for one in pod.spec.containers])
    sidecars: dict[str, float] = {}
    starting: dict[str, float] = {}
    for one in pod.spec.init_containers or ():
        if one.restart_policy == "Always":
            sidecars = _sum([sidecars, of(one)])
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _sum([sidecars, of(one)]))
    has = _most(_requested(said.resources), _read(said.allocated_resources))
    whole = _whole(pod, _requested(pod.spec.resources), has)
    return _sum([_most(_sum([running, sidecars]), starting) | whole, _read(pod.spec.overhead)])


def limits_of(pod: Pod) -> dict[str, float]:
    """Return the limits of a pod: of the whole pod, or the sum where every running container has one."""
    sidecars = [one for one in pod.spec.init_containers or () if one.restart_policy == "Always"]
    each = [_limited(one.resources) for one in (*pod.spec.containers, *sidecars)]
    everywhere = set[str]().union(*each[:1]).intersection(*each)
    whole = _whole(pod, _limited(pod.spec.resources), _limited(pod.status.resources))
    found = {name: amount for name, amount in _sum(each).items() if name in everywhere} | whole
    overhead = _read(pod.spec.overhead)
    return {name: amount + overhead.get(name, 0.0) for name, amount in found.items()}


def _is_infeasible(pod: Pod) -> bool:
    conditions = pod.status.conditions or ()
    return any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in conditions)


def _whole(pod: Pod, asked: Mapping[str, float], has: Mapping[str, float]) -> dict[str, float]:
    """Return the effective resources of the whole pod; its status includes the overhead, its spec does not."""
    overhead = _read(pod.spec.overhead)
    own = {name: max(0.0, amount - overhead.get(name, 0.0)) for name, amount in has.items()}
    return _effective(asked, own, _is_infeasible(pod)) if asked else {}


def _effective(asked: Mapping[str, float], has: Mapping[str, float], infeasible: bool) -> dict[str, float]:
    """Return the effective amount from the requested and the current one, which may be unknown."""
    return dict(has) if infeasible and has else _most(asked, has)


def _requested(given: Amounted | None) -> dict[str, float]:
    return _read(given.requests if given else None)


def _limited(given: Amounted | None) -> dict[str, float]:
    return _read(given.limits if given else None)


def _read(amounts: Amounts | None) -> dict[str, float]:
    return {name: parse_quantity(amounts[name]) for name in _COUNTED if name in amounts} if amounts else {}


def _sum(some: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for amounts in some:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0.0) + amount
    return found


def _most(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in one.keys() | other.keys()}
