"""Planned moves, each tried by the real kube-scheduler: it refuses none, and no pod moves that never does.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not. Each seed is a
small random cluster. `windward pods` reads it into the ledger, and the planners see only what is there.
"""

import time

from tests.effort import effort
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import MANIFESTS
from tests.kubernetes.test_pods import Scene
from tests.kubernetes.test_trimaran import BINARY
from tests.scorer.fleets import fleet, machine
from tests.scorer.kubernetes.scheduler import moves_at_all
from tests.scorer.kubernetes.test_pods_ties import planned, required, some_cluster
from tests.support.pages import eventually

pytestmark = test_trimaran.pytestmark

REFUSED_S = 3.0
"""A pod that is not bound for so long is refused; what the scheduler sees late has reached it by then."""
NODES = "/api/v1/nodes"
ROUND = "windward.test/round"
NODE_RULE = "requiredDuringSchedulingIgnoredDuringExecution"


class Trial:
    """One random cluster on the control plane; its pods are made anew for each plan."""

    def __init__(self, scene, seed):
        self._scene, self._api, self._seed = scene, scene.cluster, seed
        self._profile = ("windward", "kubernetes")[seed % 2]
        nodes, pods = some_cluster(seed)
        self._nodes = [_valid_node(one, f"{seed}") for one in nodes]
        self._pods = [_valid_pod(one) for one in pods]
        self._there = {}
        """The pods that are there, by uid."""
        self.refused = []
        self.moves = 0

    def run(self):
        """Try the moves of each plan in their order."""
        for one in self._nodes:
            self._api.call("POST", NODES, one)
        place, plans = 0, self._plans()
        while place < len(plans):
            emptied, moves = plans[place]
            place += 1
            if moves:
                self._try(moves, {uid for uid, _ in moves} if emptied else set())
                plans = self._plans()
        self._clear()
        self._api.call("DELETE", NODES)

    def _clear(self):
        for uid in list(self._there):
            self._delete(uid)

    def _plans(self):
        """Make the pods; return what the planners propose by what Windward has read of the cluster."""
        self._clear()
        for one in self._pods:
            self._create(one)
        ledger = self._scene.ledger
        eventually(lambda: ledger.all_instances().keys() == self._there.keys())
        rules = eventually(self._rules)
        machines = [
            machine(name, 16, 1000, operator=rules[name],
                    usage={"cpu": {"mean": 1 if place else 15, "std": 0.5}, "memory": 50})
            for place, name in enumerate(sorted(rules))
        ]  # fmt: skip
        of = fleet(*machines)
        of.ledger.add(list(ledger.all_instances().values()))
        return list(planned(of, self._profile, max(rules)))

    def _rules(self):
        """Return what Windward has of the nodes, once it is of these."""
        rules, names = self._scene.nodes(), {one["metadata"]["name"] for one in self._nodes}
        of_these = all(rule["labels"].get(ROUND) == f"{self._seed}" for rule in rules.values())
        return rules if of_these and rules.keys() == names else None

    def _try(self, moves, leaving):
        """End each pod and have the scheduler place one like it on the target."""
        self.moves += len(moves)
        for uid, target in moves:
            body = self._there[uid]
            self._delete(uid)
            leaving.discard(uid)
            copy = self._create(_only_on(body, target))
            why = self._refusal(copy)
            if why and leaving:  # a machine that is emptied: the others leave it at the same time
                for one in list(leaving):
                    self._api.call("DELETE", f"{_path(self._there[one])}?gracePeriodSeconds=0")
                why = self._refusal(copy)
            if why or not moves_at_all(body):
                self.refused.append(f"seed {self._seed}: {body} to {target}: {why or 'it never moves'}")

    def _refusal(self, uid):
        """Return what the scheduler says of a pod that it does not bind; "": it has bound it."""
        until_s = time.monotonic() + REFUSED_S
        while True:
            pod = self._api.call("GET", _path(self._there[uid]))
            if pod["spec"].get("nodeName"):
                return ""
            if time.monotonic() > until_s:
                return "".join(each.get("message", "") for each in pod["status"].get("conditions", ())) or "silent"
            time.sleep(0.005)

    def _create(self, pod):
        made = self._api.call("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
        self._there[made["metadata"]["uid"]] = pod
        return str(made["metadata"]["uid"])

    def _delete(self, uid):
        self._api.ask("DELETE", f"{_path(self._there.pop(uid))}?gracePeriodSeconds=0")


def _path(pod):
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _valid_node(node, seed):
    """Return a node as the API server takes it: a taint of a key and an effect is there once."""
    taints = {(one["key"], one["effect"]): one for one in node["spec"]["taints"]}
    about = {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"] | {ROUND: seed}}
    return node | {"metadata": about, "spec": node["spec"] | {"taints": list(taints.values())}}


def _valid_pod(pod):
    """Return a pod as the API server takes it."""
    about, spec = dict(pod["metadata"]), dict(pod["spec"])
    del about["uid"], about["resourceVersion"]
    about["ownerReferences"] = [one | {"apiVersion": "apps/v1", "uid": one["name"]} for one in about["ownerReferences"]]
    for part in ("containers", "initContainers"):
        spec[part] = [_valid_container(one, on_host=spec["hostNetwork"]) for one in spec[part]]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": spec}


def _valid_container(one, *, on_host):
    """Return a container whose extended resources have limits, and on the host's network one number for each port."""
    ports = [dict(port) for port in one["ports"]]
    for port in ports if on_host else ():
        port["hostPort"] = port["containerPort"] = port.get("hostPort", port["containerPort"])
    extended = {name: amount for name, amount in one.get("resources", {}).get("requests", {}).items() if "/" in name}
    return one | {"image": "none", "ports": ports, "resources": one.get("resources", {}) | {"limits": extended}}


def _only_on(pod, node):
    name = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    affinity = pod["spec"].get("affinity", {})
    terms = affinity.get("nodeAffinity", {NODE_RULE: {"nodeSelectorTerms": [{}]}})[NODE_RULE]["nodeSelectorTerms"]
    only = required(*({**term, "matchFields": name} for term in terms))["affinity"]
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return pod | {"spec": spec | {"affinity": affinity | only}}


def test_the_scheduler_refuses_no_planned_move(valkey, names, tmp_path):
    """By drains, consolidations and both rules of rebalancing, in the order of each plan."""
    moves = 0
    with Cluster(BINARY, tmp_path) as cluster:
        cluster.apply(MANIFESTS / "pods.yaml")
        for name in ("shop", "till"):
            cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        eventually(lambda: cluster.ask("GET", "/api/v1/namespaces/kube-system")[0] == 200)
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        scene = Scene(cluster, valkey, names)
        with scene.follower():
            for seed in range(effort(60, 400)):
                trial = Trial(scene, seed)
                trial.run()
                assert not trial.refused, trial.refused
                moves += trial.moves
        scene.ledger.wire.close()
    assert moves > 50
