"""The ties of a pod to its node, as fields of a request: where it may run, what it uses there, why it stays. Pure.

kube-scheduler checks the pod of a planned move again, so these fields allow at most what it allows: a rule that a
request cannot express makes the pod stay.

| pod | request |
|---|---|
| nodeSelector, required node affinity | ``selector``; of several terms the first that can be said |
| tolerations | ``tolerations``; a taint of NoExecute has a key of its own; one of any key and one effect says nothing |
| required pod affinity and anti-affinity | ``affinity``, ``anti_affinity``, where kept labels say which pods |
| host ports, of sidecars and with hostNetwork too | ``ports`` |
| a controller that binds it to its node (DaemonSet, static) | the labels ``movable=false`` and ``daemon=true`` |
| none, an annotation, kube-system, ``system-`` priority, local storage | the label ``movable=false`` |
| an extended resource or claimed device, huge pages, a spread that must hold, a rule that cannot be said | the same |

Volumes are not known, and requests of ephemeral storage are not counted.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice, product
from typing import Any

from schemas.rpc.request import InvalidRequest
from scorer.kubernetes.nodes_body import NO_EXECUTE
from scorer.kubernetes.pods_body import CONFIG_MIRROR, NIC, Pod, PodAffinities, PodTerm, PodToleration, Selecting
from scorer.ledger.record.instance import CLUSTER, DAEMON, MOVABLE, PODS
from scorer.ranking.formulas.selectors import parse_selector

OURS = "windward.io/"
"""Prefix of the annotations for which Kubernetes has no field: class, nic, expected-cpu ..."""
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
"""The annotation of pods whose controller makes one a node, and is no DaemonSet."""
_OF_ITS_NODE = ("DaemonSet", "Node")
_SYSTEM = "kube-system"
_HOSTNAME = "kubernetes.io/hostname"
_OF_HEALTH = "node.kubernetes.io/"
"""Prefix of the taints for a node's condition: not-ready, unreachable, unschedulable."""
_PORTS_MAX = 64
_TERMS_MAX = 16
_NATIVE = ("cpu", "memory", "ephemeral-storage", NIC)
_OURS = ("machine", CLUSTER, PODS)
"""Keys whose value on a machine is not the node's label."""


def ties_of(pod: Pod, kept: Collection[str], cluster: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of the request that are set, those first that bind others; and labels, if it never moves.

    ``kept``: the keys of pods' labels that instances keep.
    """
    given = pod.spec.affinity or PodAffinities()
    near, far = (
        [_pods(pod, term, kept, cluster) for term in (one.required if one is not None else None) or ()]
        for one in (given.pod_affinity, given.pod_anti_affinity)
    )
    near = _together(near)
    selector, ports, stays = _selector(pod), _ports(pod), why_it_stays(pod)
    said = {
        "ports": ports[:_PORTS_MAX],
        "anti_affinity": [one for term in far for one in term or ()],
        "selector": selector,
        "tolerations": [each for one in pod.spec.tolerations or () for each in _toleration(one)],
        "affinity": [one for term in near for one in term or ()],
    }
    unsaid = None in (selector, *near, *far) or len(ports) > _PORTS_MAX or _is_counted(pod)
    labels = {MOVABLE: "false"} if stays or unsaid else {}
    if stays == "node":
        labels[DAEMON] = "true"
    return {name: value for name, value in said.items() if value}, labels


def why_it_stays(pod: Pod) -> str:
    """Return why a pod is never evicted, one of the evictor's `DECLINED`; "" where it may be."""
    controller = next((one.kind for one in pod.metadata.owner_references or () if one.controller), "")
    notes = pod.metadata.annotations or {}
    local = any(one.empty_dir is not None or one.host_path is not None for one in pod.spec.volumes or ())
    reasons = {
        "node": controller in _OF_ITS_NODE or notes.get(DAEMON_POD) == "true" or CONFIG_MIRROR in notes,
        "bare": not controller,
        "namespace": pod.metadata.namespace == _SYSTEM,
        "system": pod.spec.priority_class_name.startswith("system-"),
        "kept": "false" in (notes.get(f"{OURS}movable"), notes.get(SAFE)),
        "local": local and notes.get(SAFE) != "true",
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_counted(pod: Pod) -> bool:
    """Return whether a pod requests something that no record counts, or must be spread."""
    spec = pod.spec
    resources = [one.resources for one in (*(spec.containers or ()), *(spec.init_containers or ()))]
    asked = {name for one in (*resources, spec.resources) if one is not None for name in one.requests or ()}
    spread = any(one.when_unsatisfiable != "ScheduleAnyway" for one in spec.topology_spread_constraints or ())
    return spread or bool(spec.resource_claims) or not asked | {*(spec.overhead or ())} <= {*_NATIVE}


def _selector(pod: Pod) -> str | None:
    """Return the selector of nodes that take a pod; None where no selector expresses it."""
    node = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    exact = [_requirement(key, "In", (value,)) for key, value in (pod.spec.node_selector or {}).items()]
    if node is not None and node.required is not None:
        exact.append(next(filter(None, map(_term, node.required.node_selector_terms or ())), None))
    return _joined(exact)


def _term(term: Selecting) -> str | None:
    """Return a term as a selector; None where no selector expresses it, "" where it selects nothing."""
    labels = [_requirement(one.key, one.operator, one.values or ()) for one in term.match_expressions or ()]
    fields = [
        _requirement("machine" if one.key == "metadata.name" else "", one.operator, one.values or (), ours=())
        for one in term.match_fields or ()
    ]
    return _joined([*labels, *fields])


def _joined(parts: Sequence[str | None]) -> str | None:
    """Return requirements as one selector; None where one of them, or all together, cannot be read."""
    text = ",".join(each for each in parts if each is not None)
    try:
        parse_selector(text)
    except InvalidRequest:
        return None
    return None if None in parts else text


def _requirement(key: str, operator: str, values: tuple[str, ...], ours: tuple[str, ...] = _OURS) -> str | None:
    forms = {
        "In": f"{key} in ({','.join(values)})", "NotIn": f"{key} notin ({','.join(values)})", "Exists": key,
        "DoesNotExist": f"!{key}", "Gt": f"{key}>{','.join(values)}", "Lt": f"{key}<{','.join(values)}",
    }  # fmt: skip
    is_one = key not in ours and not {*",()"} & {*"".join((key, *values))}
    return forms.get(operator) if is_one else None


def _pods(pod: Pod, term: PodTerm, kept: Collection[str], cluster: str) -> list[dict[str, Any]] | None:
    """Return a term about other pods, for each value and namespace; None where the kept labels do not identify them."""
    meant, within = term.label_selector, term.namespace_selector
    every = within is not None and not within.match_labels and not within.match_expressions
    if meant is None or (within is not None and not every) or term.match_label_keys or term.mismatch_label_keys:
        return None
    choices: dict[str, tuple[str, ...]] = {key: (value,) for key, value in (meant.match_labels or {}).items()}
    for one in meant.match_expressions or ():
        if one.operator != "In" or one.key in choices:
            return None
        choices[one.key] = one.values or ()
    if not choices.keys() <= {*kept} or term.topology_key in _OURS:
        return None
    choices |= {CLUSTER: (cluster,)} if every else {"namespace": term.namespaces or (pod.metadata.namespace,)}
    topology = "machine" if term.topology_key == _HOSTNAME else term.topology_key
    every_way = [*islice(product(*choices.values()), _TERMS_MAX + 1)]
    found = [{"instances": dict(zip(choices, values, strict=True)), "topology": topology} for values in every_way]
    return None if len(found) > _TERMS_MAX else found


def _together(terms: list[list[dict[str, Any]] | None]) -> list[list[dict[str, Any]] | None]:
    """Return terms of affinity for pods that match all of them, since kube-scheduler counts no others for any term."""
    known = [term[0] for term in terms if term is not None and len(term) == 1]
    labels: dict[str, str] = {}
    for one in known:
        labels = one["instances"] | labels
    if len(known) < len(terms) or any(not one["instances"].items() <= labels.items() for one in known):
        return [None]
    return [[one | {"instances": labels}] for one in known]


def _toleration(one: PodToleration) -> Iterator[dict[str, Any]]:
    """Yield the machine's taints that a toleration covers; fewer where some have no equivalent.

    Every pod tolerates `_OF_HEALTH` for a while. Records omit these taints: a node with one is no target.
    """
    if one.operator not in ("", "Equal", "Exists") or one.key.startswith(_OF_HEALTH):
        return
    value = None if one.operator == "Exists" else one.value
    if one.effect == "PreferNoSchedule":
        yield {"key": one.key, "value": value, "effect": "avoid"}
    elif not one.effect:
        yield {"key": one.key, "value": value}
        if one.key:
            yield {"key": f"{one.key}{NO_EXECUTE}", "value": value}
    elif one.key:
        ending = NO_EXECUTE if one.effect == "NoExecute" else ""
        yield {"key": f"{one.key}{ending}", "value": value, "effect": "refuse"}


def _ports(pod: Pod) -> list[int]:
    """Return the ports of the host that a pod uses while it runs."""
    spec = pod.spec
    sidecars = (one for one in spec.init_containers or () if one.restart_policy == "Always")
    given = [port for one in (*(spec.containers or ()), *sidecars) for port in one.ports or ()]
    found = {one.host_port or (one.container_port if spec.host_network else 0) for one in given}
    return sorted(found - {0})
