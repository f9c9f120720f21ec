"""A model of kube-scheduler's filters, on nodes and pods as the API server gives them: written without the product.

By the documented rules of NodeUnschedulable, NodeAffinity, TaintToleration, NodePorts, NodeResourcesFit and
InterPodAffinity of Kubernetes 1.34. Amounts in these tests are whole numbers.
"""

from collections import Counter


def refusals(pod, node, there, nodes, pods):
    """Return why a pod may not come to a node: ``there`` has the node's pods, ``pods`` all others of the cluster."""
    hard = [one for one in node["spec"].get("taints", ()) if one["effect"] in ("NoSchedule", "NoExecute")]
    return [
        name
        for name, refused in (
            ("NodeUnschedulable", _unschedulable(pod, node)),
            ("NodeAffinity", not _accepts(pod["spec"], node)),
            ("TaintToleration", any(not _tolerates(pod, taint) for taint in hard)),
            ("NodePorts", any(_ports(pod) & _ports(one) for one in there)),
            ("NodeResourcesFit", _too_much(pod, node, there)),
            ("InterPodAffinity", _near_wrong(pod, node, nodes, pods)),
        )
        if refused
    ]


def moves_at_all(pod):
    """Return whether something makes a pod again elsewhere, and nothing says that it stays."""
    about = pod["metadata"]
    notes = about.get("annotations", {})
    kinds = [one["kind"] for one in about.get("ownerReferences", ()) if one.get("controller")]
    return (
        bool(kinds)
        and kinds[0] not in ("DaemonSet", "Node")
        and about["namespace"] != "kube-system"
        and not pod["spec"].get("resourceClaims")
        and notes.get("windward.io/movable") != "false"
        and notes.get("cluster-autoscaler.kubernetes.io/safe-to-evict") != "false"
    )


def _unschedulable(pod, node):
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return bool(node["spec"].get("unschedulable")) and not _tolerates(pod, taint)


def _tolerates(pod, taint):
    def by(one):
        if one.get("effect") and one["effect"] != taint["effect"]:
            return False
        if one.get("key") and one["key"] != taint["key"]:
            return False
        return one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")

    return any(map(by, pod["spec"].get("tolerations", ())))


def _accepts(spec, node):
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    rule = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return rule is None or any(_term(term, node) for term in rule["nodeSelectorTerms"])


def _term(term, node):
    labels, names = term.get("matchExpressions", ()), term.get("matchFields", ())
    holds = [_holds(one, node["metadata"].get("labels", {})) for one in labels]
    holds += [_holds(one, {"metadata.name": node["metadata"]["name"]}) for one in names]
    return bool(holds) and all(holds)


def _holds(one, labels):
    value, values = labels.get(one["key"]), one.get("values", ())
    match one["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdecimal() and int(value) > int(values[0])
        case "Lt":
            return value is not None and value.isdecimal() and int(value) < int(values[0])
    raise AssertionError(one)


def _ports(pod):
    spec = pod["spec"]
    sidecars = [one for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"]
    given = [port for one in (*spec["containers"], *sidecars) for port in one.get("ports", ())]
    network = spec.get("hostNetwork", False)
    of_host = ((one, one.get("hostPort") or (one["containerPort"] if network else 0)) for one in given)
    return {(one.get("protocol", "TCP"), port) for one, port in of_host if port}


def _requests(pod):
    found = Counter(pods=1)
    for one in pod["spec"]["containers"]:
        found.update({name: int(amount) for name, amount in one.get("resources", {}).get("requests", {}).items()})
    return found


def _too_much(pod, node, there):
    total = sum(map(_requests, there), Counter()) + _requests(pod)
    return any(total[name] > int(node["status"]["allocatable"].get(name, 0)) for name in _requests(pod))


def _terms(pod, kind):
    rule = pod["spec"].get("affinity", {}).get(kind, {})
    return rule.get("requiredDuringSchedulingIgnoredDuringExecution", ())


def _meant(term, of, other):
    labels, selected = other["metadata"].get("labels", {}), term["labelSelector"]
    within = term.get("namespaces") or [of["metadata"]["namespace"]]
    return (
        (term.get("namespaceSelector") == {} or other["metadata"]["namespace"] in within)
        and selected.get("matchLabels", {}).items() <= labels.items()
        and all(_holds(one, labels) for one in selected.get("matchExpressions", ()))
    )


def _near_wrong(pod, node, nodes, pods):
    labels = {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in nodes}

    def near(term, other):
        key = term["topologyKey"]
        here, at = labels[node["metadata"]["name"]], labels[other["spec"]["nodeName"]]
        return key in here and here[key] == at.get(key)

    if any(_meant(term, pod, one) and near(term, one) for term in _terms(pod, "podAntiAffinity") for one in pods):
        return True
    if any(_meant(term, one, pod) and near(term, one) for one in pods for term in _terms(one, "podAntiAffinity")):
        return True
    terms = _terms(pod, "podAffinity")
    meant = [one for one in pods if all(_meant(term, pod, one) for term in terms)]  # updateWithAffinityTerms
    if all(any(near(term, one) for one in meant) for term in terms):
        return False
    alone = not any(term["topologyKey"] in labels[one["spec"]["nodeName"]] for term in terms for one in meant)
    has = all(term["topologyKey"] in labels[node["metadata"]["name"]] for term in terms)
    return not (alone and has and all(_meant(term, pod, pod) for term in terms))
