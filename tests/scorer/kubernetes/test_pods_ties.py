"""What ties a pod to its node: fields of its record, and plans of moves that kube-scheduler would not refuse."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rpc.request import Request
from scorer.kubernetes.nodes_body import read_node, rules_of
from scorer.kubernetes.pods_body import read_pod
from scorer.kubernetes.pods_difference import instance
from scorer.kubernetes.pods_request import Reading, request_of
from scorer.planning.balance.advice import leaving
from scorer.planning.balance.by_overload import rebalance
from scorer.planning.drain.consolidate import consolidate
from scorer.planning.drain.drain import drain
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, steps
from tests.scorer.kubernetes.scheduler import moves_at_all, refusals

HOW = Reading("east")
OWNED = [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]


def pod(spec=None, **metadata):
    about = {
        "name": "web-1-a",
        "namespace": "shop",
        "uid": "a",
        "resourceVersion": "1",
        "ownerReferences": OWNED,
    } | metadata
    spec = {"nodeName": "n1", "containers": [{"name": "c"}], **(spec or {})}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": spec, "status": {}}


def required(*terms):
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": rule}}


def term(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}


def asks(*containers, **more):
    return {"containers": [{"name": "c", "resources": {"requests": one}} for one in containers], **more}


def apart(labels, topology="kubernetes.io/hostname", kind="podAntiAffinity", **more):
    rule = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology, **more}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}}


def expressions(key, operator, *values):
    return {"labelSelector": term(key, operator, *values)}


def affinities(more, kind="podAntiAffinity"):
    rule = {"topologyKey": "kubernetes.io/hostname", **more}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}}


def both(one, other):
    """Return the spec of a pod with a term by node and one by zone: kube-scheduler counts pods that match both."""
    terms = [
        {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
        for key, labels in (("kubernetes.io/hostname", one), ("zone", other))
    ]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


STAYS = {"movable": "false"}
OF_NODE = STAYS | {"daemon": "true"}
BOTH = {"instances": {"app": "x", "app.kubernetes.io/name": "y", "namespace": "shop"}, "topology": "machine"}
NEAR = {"instances": {"app": "x", "namespace": "shop"}, "topology": "machine"}
SIDECAR = {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 9100}]}
PORTED = [{"name": "c", "ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
                                  {"containerPort": 53, "hostPort": 53}, {"containerPort": 80}]}]  # fmt: skip
TIES = [
    # name, the pod, what its request says, labels
    ("nothing", pod(), {}, {}),
    ("nulls", pod({"nodeSelector": None, "affinity": None, "tolerations": None, "volumes": None}), {}, {}),
    ("empty parts", pod({"affinity": {"nodeAffinity": {}, "podAffinity": {}}, "nodeSelector": {}}), {}, {}),
    # nodes
    ("a selector", pod({"nodeSelector": {"disk": "ssd", "example.com/pool": "a.b"}}),
     {"selector": "disk in (ssd),example.com/pool in (a.b)"}, {}),
    ("of no value", pod({"nodeSelector": {"node-role.kubernetes.io/worker": ""}}),
     {"selector": "node-role.kubernetes.io/worker in ()"}, {}),
    ("required", pod(required(term("zone", "In", "a", "b"))), {"selector": "zone in (a,b)"}, {}),
    ("all operators", pod(required({"matchExpressions": [
        {"key": "a", "operator": "NotIn", "values": ["x"]}, {"key": "b", "operator": "Exists"},
        {"key": "c", "operator": "DoesNotExist"}, {"key": "d", "operator": "Gt", "values": ["3"]},
        {"key": "e", "operator": "Lt", "values": ["9"]}]})), {"selector": "a notin (x),b,!c,d>3,e<9"}, {}),
    ("one of two: the first", pod(required(term("a", "Exists"), term("b", "Exists"))), {"selector": "a"}, {}),
    ("one of two: the first that can be said", pod(required(term("d", "Gt", "-3"), term("b", "Exists"))),
     {"selector": "b"}, {}),
    ("an empty term selects nothing", pod(required({}, term("b", "Exists"))), {"selector": "b"}, {}),
    ("none can be said", pod(required(term("d", "Gt", "-3"))), {}, STAYS),
    ("no term", pod(required()), {}, STAYS),
    ("a node by name", pod(required({"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n1"]}]})), {"selector": "machine in (n1)"}, {}),
    ("another field", pod(required({"matchFields": [
        {"key": "metadata.uid", "operator": "In", "values": ["n1"]}]})), {}, STAYS),
    ("both", pod({"nodeSelector": {"disk": "ssd"}} | required(term("a", "Exists"))),
     {"selector": "disk in (ssd),a"}, {}),
    ("a label that means another thing here", pod({"nodeSelector": {"machine": "x"}}), {}, STAYS),
    ("the cluster's label", pod({"nodeSelector": {"kubernetes": "x"}}), {}, STAYS),
    ("too many for a record", pod(required(term("zone", "In", *(f"{n:0250}" for n in range(80))))), {}, STAYS),
    ("too many for a request", pod({"nodeSelector": {f"k{n}": "x" for n in range(200)}}), {}, STAYS),
    ("a key that is a selector", pod({"nodeSelector": {"a,b": "x"}}), {}, STAYS),
    ("a value that is one", pod({"nodeSelector": {"a": "x),b in (y"}}), {}, STAYS),
    ("preferred is no tie", pod({"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term("a", "Exists")}]}}}),
     {}, {}),
    # taints
    ("a toleration", pod({"tolerations": [{"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]}),
     {"tolerations": [{"key": "gpu", "value": "a", "effect": "refuse"}]}, {}),
    ("Equal is the default", pod({"tolerations": [{"key": "gpu", "effect": "PreferNoSchedule"}]}),
     {"tolerations": [{"key": "gpu", "value": "", "effect": "avoid"}]}, {}),
    ("of any effect", pod({"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
     {"tolerations": [{"key": "gpu"}, {"key": "gpu:NoExecute"}]}, {}),
    ("of any key", pod({"tolerations": [{"operator": "Exists"}]}), {"tolerations": [{}]}, {}),
    ("of any key and one effect", pod({"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}), {}, {}),
    ("what every pod has", pod({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                                                 "effect": "NoExecute", "tolerationSeconds": 300}]}),
     {}, {}),
    ("of NoExecute alone", pod({"tolerations": [{"key": "old", "operator": "Exists", "effect": "NoExecute"}]}),
     {"tolerations": [{"key": "old:NoExecute", "effect": "refuse"}]}, {}),
    ("a comparison of 1.35", pod({"tolerations": [{"key": "n", "operator": "Gt", "value": "3"}]}), {}, {}),
    # ports
    ("ports of the host, each once", pod({"containers": PORTED}), {"ports": [53]}, {}),
    ("a sidecar's", pod({"initContainers": [SIDECAR]}), {"ports": [9100]}, {}),
    ("not of a start", pod({"initContainers": [SIDECAR | {"restartPolicy": ""}]}), {}, {}),
    ("on the host's network all are", pod({"containers": PORTED, "hostNetwork": True}), {"ports": [53, 80]}, {}),
    ("more than a record has", pod({"containers": [{"name": "c", "ports": [
        {"containerPort": n, "hostPort": n} for n in range(1, 66)]}]}), {"ports": [*range(1, 65)]}, STAYS),
    # what is counted
    ("extended resources", pod(asks({"nvidia.com/gpu": "1"})), {}, STAYS),
    ("huge pages", pod(asks({"hugepages-2Mi": "4Mi"})), {}, STAYS),
    ("of a start", pod({"initContainers": [{"name": "i", "resources": {"requests": {"x.com/fpga": "1"}}}]}), {}, STAYS),
    ("Windward's own, and the node's disk", pod(asks({"windward.io/nic": "1G", "ephemeral-storage": "1Gi"})),
     {"nic": 1e9}, {}),
    # other pods
    ("apart", pod(apart({"app": "x"})), {"anti_affinity": [NEAR]}, {}),
    ("apart by zone", pod(apart({"app": "x"}, "zone")), {"anti_affinity": [NEAR | {"topology": "zone"}]}, {}),
    ("together", pod(apart({"app": "x"}, kind="podAffinity")), {"affinity": [NEAR]}, {}),
    ("together with what matches both", pod(both({"app": "x"}, {"app.kubernetes.io/name": "y"})),
     {"affinity": [BOTH, BOTH | {"topology": "zone"}]}, {}),
    ("together with what cannot match both", pod(both({"app": "x"}, {"app": "y"})), {}, STAYS),
    ("by a label that is not kept", pod(apart({"tier": "x"})), {}, STAYS),
    ("of other namespaces", pod(apart({"app": "x"}, namespaces=["other"])),
     {"anti_affinity": [NEAR | {"instances": {"app": "x", "namespace": "other"}}]}, {}),
    ("of some namespaces", pod(apart({"app": "x"}, namespaceSelector={"matchLabels": {"team": "a"}})), {}, STAYS),
    ("of its own", pod(apart({"app": "x"}, namespaces=["shop"])), {"anti_affinity": [NEAR]}, {}),
    ("of one roll-out", pod(apart({"app": "x"}, matchLabelKeys=["pod-template-hash"])), {}, STAYS),
    ("a spread that must hold", pod({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}), {},
     STAYS),
    ("a spread that is wished for", pod({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}),
     {}, {}),
    ("of two of its labels' values: a rule for each", pod(affinities(expressions("app", "In", "x", "y"))),
     {"anti_affinity": [NEAR, {"instances": {"app": "y", "namespace": "shop"}, "topology": "machine"}]}, {}),
    ("of two namespaces: a rule for each", pod(apart({"app": "x"}, namespaces=["shop", "till"])),
     {"anti_affinity": [NEAR, {"instances": {"app": "x", "namespace": "till"}, "topology": "machine"}]}, {}),
    ("of all namespaces: of its cluster", pod(apart({"app": "x"}, namespaceSelector={})),
     {"anti_affinity": [{"instances": {"app": "x", "kubernetes": "east"}, "topology": "machine"}]}, {}),
    ("near either cannot be said", pod(affinities(expressions("app", "In", "x", "y"), kind="podAffinity")), {}, STAYS),
    ("of far too many", pod(affinities(expressions("app", "In", *map(str, range(99))))), {}, STAYS),
    ("all but some", pod(affinities(expressions("app", "NotIn", "x"))), {}, STAYS),
    ("all of its namespace", pod(apart({})),
     {"anti_affinity": [{"instances": {"namespace": "shop"}, "topology": "machine"}]}, {}),
    ("by a node's label that means another thing here", pod(apart({"app": "x"}, "machine")), {}, STAYS),
    # descheduler#1603, KEP-3063
    ("devices that it claims", pod({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}), {},
     STAYS),
    ("no claims", pod({"resourceClaims": None}), {}, {}),
    ("what the sandbox needs besides", pod({"overhead": {"x.com/fpga": "1"}}), {}, STAYS),
    ("overhead of cores", pod({"overhead": {"cpu": "1"}}), {}, {}),
    # autoscaler#2453, #4825, vcluster#448
    ("of a controller that makes one a node",
     pod(ownerReferences=[{"kind": "CustomDaemonSet", "name": "d", "controller": True}],
         annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}), {}, OF_NODE),
    ("a tie that no record has, beside others",
     pod({"containers": PORTED, "tolerations": [{"key": "a" * 253, "operator": "Exists"}]}
         | apart({"app": "x"})), {"ports": [53], "anti_affinity": [NEAR]}, STAYS),
    ("an address of the host", pod({"containers": [{"name": "c", "ports": [
        {"containerPort": 53, "hostPort": 53, "hostIP": "127.0.0.1"}]}]}), {"ports": [53]}, {}),
    ("seconds", pod({"tolerations": [{"key": "old", "operator": "Exists", "effect": "NoExecute",
                                      "tolerationSeconds": 0}]}),
     {"tolerations": [{"key": "old:NoExecute", "effect": "refuse"}]}, {}),
    # what never moves
    ("a DaemonSet's", pod(ownerReferences=[{"kind": "DaemonSet", "name": "d", "controller": True}]), {}, OF_NODE),
    ("static", pod(ownerReferences=[{"kind": "Node", "name": "n1", "controller": True}]), {}, OF_NODE),
    ("a mirror, of old kubelets", pod(ownerReferences=None, annotations={"kubernetes.io/config.mirror": "x"}), {},
     OF_NODE),
    ("bare", pod(ownerReferences=None), {}, STAYS),
    ("owned, and not controlled", pod(ownerReferences=[{"kind": "Backup", "name": "b"}]), {}, STAYS),
    ("kept", pod(annotations={"windward.io/movable": "false"}), {}, STAYS),
    ("not safe", pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}), {}, STAYS),
    ("the system's namespace", pod(namespace="kube-system"), {}, STAYS),
    ("the system's priority", pod({"priorityClassName": "system-cluster-critical"}), {}, STAYS),
    ("local storage", pod({"volumes": [{"name": "v", "emptyDir": {}}]}), {}, STAYS),
    ("given up", pod({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
                     annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}), {}, {}),
    ("other storage", pod({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}), {}, {}),
]  # fmt: skip
"""By the fields of core/v1 (Kubernetes 1.34), and by pods as they are: kubeadm's nodeSelector, the tolerations of
DefaultTolerationSeconds, the ports of node-exporter and of a DNS server, the anti-affinity of Redis charts."""


@pytest.mark.parametrize("name, body, asked, labels", TIES, ids=[row[0] for row in TIES])
def test_what_ties_a_pod_is_in_its_record(name, body, asked, labels):
    """Of nodes, taints, ports, counted things and other pods; and whether it moves at all."""
    found = request_of(read_pod(msgspec.json.encode(body)), "a", HOW)
    fields = ("selector", "tolerations", "ports", "affinity", "anti_affinity", "nic")
    said = msgspec.json.decode(msgspec.json.encode({field: getattr(found, field) for field in fields}))
    said = {field: value for field, value in said.items() if value}
    wanted = {key: value for key, value in asked.items() if key != "tolerations"}
    assert {key: value for key, value in said.items() if key != "tolerations"} == wanted
    everywhere = {"key": "", "value": None, "effect": None}
    assert said.get("tolerations", []) == [everywhere | one for one in asked.get("tolerations", [])]
    assert {key: found.labels[key] for key in ("movable", "daemon") if key in found.labels} == labels


def test_a_deployer_gets_no_port_of_a_pod():
    there = pod({"containers": PORTED, "initContainers": [SIDECAR], "nodeName": "n2"})
    node = {"kind": "Node", "apiVersion": "v1", "spec": {}, "status": {}}
    of = as_fleet([node | {"metadata": {"name": name, "resourceVersion": "1"}} for name in ("n1", "n2")], [there])
    inputs = of.inputs(load_profiles().choose())
    free = [port for port in (53, 80, 9100) if rank(Request(ports=(port,), machine="n2"), inputs).feasible_count]
    assert free == [80]


# ---- plans

ZONES, DISKS, KEYS = ("a", "b"), ("ssd", "hdd", ""), ("gpu", "old")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def some_cluster(seed):
    rng = np.random.default_rng(seed)

    def one_of(some):
        return some[int(rng.integers(len(some)))]

    def chance(part):
        return bool(rng.random() < part)

    nodes = [
        {
            "kind": "Node", "apiVersion": "v1",
            "metadata": {"name": f"n{n}", "resourceVersion": "1", "labels": {
                "kubernetes.io/hostname": f"n{n}", "zone": one_of(ZONES), "size": one_of(("0", "1.5", "2", "3")),
                **({"disk": one_of(DISKS)} if chance(0.7) else {})}},
            "spec": {"unschedulable": chance(0.05), "taints": [
                {"key": one_of(KEYS), "value": one_of(("", "x")), "effect": one_of(EFFECTS)}
                for _ in range(3) if chance(0.2)]},
            "status": {"capacity": {"cpu": "16", "memory": "1000"}, "allocatable": {
                "cpu": "16", "memory": "1000", "pods": str(rng.integers(4, 9)),
                **({"x.com/gpu": "2"} if chance(0.3) else {})}},
        }
        for n in range(rng.integers(3, 7))
    ]  # fmt: skip

    def requirement():
        operator = one_of(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        key, some = (
            ("size", ("0", "1", "2", "3")) if operator in ("Gt", "Lt") else one_of((("zone", ZONES), ("disk", DISKS)))
        )
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        values = list(some[: rng.integers(1, 3)]) if operator == "In" else [one_of(some)]
        return {"key": key, "operator": operator, "values": values}

    def toleration():
        found = {"operator": "Exists"} if chance(0.5) else {"operator": "Equal", "value": one_of(("", "x"))}
        return found | ({"key": one_of(KEYS)} if chance(0.8) or found["operator"] == "Equal" else {}) | (
            {"effect": one_of(EFFECTS)} if chance(0.6) else {})  # fmt: skip

    def body(number):
        app = one_of(("web", "db", "cache"))
        requests = {"cpu": str(rng.integers(0, 4)), "memory": str(rng.integers(0, 100))}
        spec = {
            "containers": [{
                "name": "c", "resources": {"requests": requests | ({"x.com/gpu": "1"} if chance(0.1) else {})},
                "ports": [{"containerPort": one_of((80, 81)), "protocol": one_of(("TCP", "UDP")),
                           **({"hostPort": one_of((80, 81))} if chance(0.5) else {})}] if chance(0.3) else []}],
            "initContainers": [SIDECAR] if chance(0.1) else [],
            "hostNetwork": chance(0.05), "tolerations": [toleration() for _ in range(3) if chance(0.3)],
            "nodeSelector": {"zone": one_of(ZONES)} if chance(0.2) else {},
            "resourceClaims": [{"name": "device", "resourceClaimName": "none"}] if chance(0.05) else None,
        }  # fmt: skip
        affinity = {}
        if chance(0.3):
            terms = [
                {"matchExpressions": [requirement() for _ in range(rng.integers(1, 3))]}
                for _ in range(rng.integers(1, 3))
            ]
            affinity |= required(*terms)["affinity"]
        if app == "db":  # each keeps away from its like
            affinity |= apart({"app": "db"}, "kubernetes.io/hostname")["affinity"]
        elif chance(0.15):
            within = one_of(({}, {"namespaces": ["shop", "till"]}, {"namespaceSelector": {}}))
            affinity |= affinities(expressions("app", "In", *one_of((("db",), ("db", "web")))) | within)["affinity"]
        if app == "cache" and chance(0.5):
            affinity |= apart({"app": "web"}, one_of(("zone", "kubernetes.io/hostname")), "podAffinity")["affinity"]
            if chance(0.3):
                named = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "x"}}}
                affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].append(named)
        owner = one_of(("ReplicaSet", "StatefulSet", "ReplicaSet", "DaemonSet", "Node", ""))
        keeps = one_of(("windward.io/movable", "cluster-autoscaler.kubernetes.io/safe-to-evict"))
        notes = {keeps: "false"} if chance(0.1) else {}
        return pod(
            spec | {"affinity": affinity, "nodeName": one_of(nodes)["metadata"]["name"]},
            uid=f"p{number}", name=f"p{number}", annotations=notes,
            labels={"app": app, **({"app.kubernetes.io/name": "x"} if chance(0.5) else {})},
            namespace="kube-system" if chance(0.05) else one_of(("shop", "shop", "till")),
            ownerReferences=[{"kind": owner, "name": "o", "controller": True}] if owner else [],
        )  # fmt: skip

    return nodes, [body(n) for n in range(rng.integers(5, 25))]


def as_fleet(nodes, pods):
    """What Windward knows of the cluster; the first node is hot."""
    machines = [
        machine(one["metadata"]["name"], 16, 1000,
                usage={"cpu": {"mean": 15 if n == 0 else 1, "std": 0.5}, "memory": 50},
                operator=msgspec.to_builtins(rules_of(read_node(msgspec.json.encode(one)), "east")))
        for n, one in enumerate(nodes)
    ]  # fmt: skip
    of = fleet(*machines)
    of.ledger.add([instance(read_pod(msgspec.json.encode(one)), one["metadata"]["uid"], HOW) for one in pods])
    return of


def planned(of, profile, drained):
    """Yield the moves of each planner, in their order, with what it empties."""
    inputs = of.inputs(load_profiles().choose(profile))
    yield drained, [(one.id, str(one.target)) for one in drain([drained], inputs).moves]
    emptied = consolidate(2, inputs)
    names = " ".join(one.machine for one in emptied.emptying.machines)
    yield names, [(one.id, str(one.target)) for one in emptied.moves]
    for settings_, plan in (
        (Rebalancing(gain_min=0, rest_s=0, hour_max=0), rebalance),
        (Rebalancing(rule="thresholds", high={"cpu": 60}, low={"cpu": 50}, rest_s=0, hour_max=0), leaving),
    ):
        found = plan(replace(inputs, profile=replace(inputs.profile, rebalance=settings_)))
        yield (
            "",
            [(one.id, one.target) for one in steps(found)],
        )


@pytest.mark.parametrize("profile", ["windward", "kubernetes"])
@settings(max_examples=examples(60, 60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_planned_move_is_one_that_kube_scheduler_refuses(profile, seed):
    """Nor one of a pod that never moves, by drains, consolidations and both rules of rebalancing.

    By a model of the scheduler; the scheduler itself is asked in ``tests/kubernetes/test_moves.py``.
    """
    nodes, pods = some_cluster(seed)
    of = as_fleet(nodes, pods)
    for emptied, moves in planned(of, profile, nodes[-1]["metadata"]["name"]):
        at = {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in pods}
        by_id = {one["metadata"]["uid"]: one for one in pods}
        gone, leaving_ = set[str](), {moved for moved, _ in moves} if emptied else set[str]()
        for moved, target in moves:
            here = [one | {"spec": one["spec"] | {"nodeName": at[uid]}} for uid, one in by_id.items() if uid != moved]
            there = [one for one in here if one["spec"]["nodeName"] == target]
            node = next(one for one in nodes if one["metadata"]["name"] == target)
            assert moves_at_all(by_id[moved]), (moved, target)
            left = [one for one in here if one["metadata"]["uid"] not in leaving_ or one["metadata"]["uid"] in gone]
            why = [refusals(by_id[moved], node, there, nodes, others) for others in (here, left)]
            assert [] in why, (moved, target, why)
            gone.add(moved)
            at[moved] = target
