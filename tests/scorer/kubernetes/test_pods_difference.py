"""What pods and the ledger's records of a cluster make of each other."""

import msgspec
import pytest

from scorer.kubernetes.pods_body import read_pod
from scorer.kubernetes.pods_difference import changes, ids_of_cluster, instance
from scorer.kubernetes.pods_request import Reading, kind_of

HOW = Reading("east")
HASH = "3b6e1c0f9a8d7e6f5a4b3c2d1e0f9a8b"


def pod(uid="a", node="n1", phase="Running", cpu="1", **metadata):
    return _pod({"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
                {"phase": phase, "startTime": "1970-01-01T00:01:40Z"}, uid, **metadata)  # fmt: skip


def _pod(spec, status, uid="a", **metadata):
    about = {"name": f"pod-{uid}", "namespace": "shop", "uid": uid, "resourceVersion": "1"}
    about |= {"managedFields": [{}]} | metadata
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": {"containers": []} | spec, "status": status}
    return read_pod(msgspec.json.encode(body))


def static(uid, node):
    owner = {"kind": "Node", "name": node, "controller": True}
    notes = {"kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH}
    return pod(uid, node, name=f"etcd-{node}", annotations=notes, ownerReferences=[owner])


def forged(uid, claimed, *, mirror=True, node="n1"):
    owner = {"kind": "Node", "name": "n1", "controller": True}
    notes = {"kubernetes.io/config.hash": claimed} | ({"kubernetes.io/config.mirror": claimed} if mirror else {})
    return pod(uid, node, cpu="0.01", annotations=notes, ownerReferences=[owner] if mirror else [])


def record(one, instance_id="", **other):
    return msgspec.structs.replace(instance(one, instance_id or one.metadata.uid, HOW), **other)


def said(found):
    all_of = {
        "confirm": [f"{one.id} {one.machine}" for one in found.to_ledger.added],
        "correct": [f"{old.id} {what}" for old, _, what in found.to_ledger.changed],
        "release": [one.id for one in found.to_ledger.gone],
        "refused": list(found.refused),
    }
    return {name: ids for name, ids in all_of.items() if ids}


ELSE = {"labels": {"kubernetes": "west"}}
TABLE = [
    # name, pods, records, what is to be done
    ("nothing", [], [], {}),
    ("bound", [pod()], [], {"confirm": ["a n1"]}),
    ("not bound", [pod(node="")], [], {}),
    ("bound, not yet started", [pod(phase="Pending")], [], {"confirm": ["a n1"]}),
    ("the same", [pod()], [record(pod())], {}),
    ("being deleted", [pod(deletionTimestamp="2026-01-01T00:00:00Z")], [record(pod())], {}),
    ("succeeded", [pod(phase="Succeeded")], [record(pod())], {"release": ["a"]}),
    ("failed", [pod(phase="Failed")], [record(pod())], {"release": ["a"]}),
    ("gone", [], [record(pod())], {"release": ["a"]}),
    ("a known end", [], [record(pod(), state="released")], {}),
    ("back after its end", [pod()], [record(pod(), state="expired")], {"confirm": ["a n1"]}),
    ("reserved, then bound there", [pod()], [record(pod(), state="reserved")],
     {"correct": ["a reserved is confirmed"]}),
    ("reserved, binding under way", [pod(node="")], [record(pod(), state="reserved")], {}),
    ("reserved, bound elsewhere", [pod(node="n2")], [record(pod(), state="reserved")],
     {"correct": ["a machine 'n1' is 'n2', reserved is confirmed"]}),
    ("of another cluster", [], [record(pod(), **ELSE)], {}),
    ("of no cluster", [], [record(pod(), labels={})], {}),
    ("another cluster has its id", [pod()], [record(pod(), **ELSE)], {"confirm": ["pod:a n1"]}),
    ("a deployer has its id", [pod()], [record(pod(), labels={})], {"confirm": ["pod:a n1"]}),
    ("a deployer had its id", [pod()], [record(pod(), "pod:a")], {"confirm": ["a n1"], "release": ["pod:a"]}),
    ("its own other id", [pod()], [record(pod(), labels={}), record(pod(), "pod:a")], {}),
    ("it says the uid of another", [forged("x", "a"), pod()], [record(pod())], {"confirm": ["x n1"]}),
    ("it says the uid of one to come", [forged("x", "a")], [], {"confirm": ["x n1"]}),
    ("it says the id of a deployer", [forged("x", "db-0")], [], {"confirm": ["x n1"]}),
    ("it says the hash of a static pod", [forged("x", HASH), static("u", "n1")], [record(static("u", "n1"), HASH)],
     {"confirm": ["x n1"]}),
    ("it says a hash, and is no mirror", [forged("x", HASH, mirror=False)], [], {"confirm": ["x n1"]}),
    ("it says a hash, and is on another node", [forged("x", HASH, node="n2")], [], {"confirm": ["x n2"]}),
    ("another cluster had its id", [pod()], [record(pod(), state="released", **ELSE)], {"confirm": ["a n1"]}),
    ("cannot be counted", [pod(cpu="9E")], [], {"refused": ["a"]}),
    ("cannot be counted any more", [pod(cpu="9E")], [record(pod())], {"refused": ["a"]}),
    ("a node without a name for us", [pod(node="n 1"), pod("b")], [], {"confirm": ["b n1"], "refused": ["a"]}),
    ("static", [static("u", "n1")], [], {"confirm": [f"{HASH} n1"]}),
    ("static, the same", [static("v", "n1")], [record(static("u", "n1"), HASH)], {}),
    ("static, one hash on two nodes", [static("u", "n1"), static("v", "n2")], [],
     {"confirm": [f"{HASH} n1", "v n2"]}),
    ("static, in another order", [static("v", "n2"), static("u", "n1")],
     [record(static("u", "n1"), HASH), record(static("v", "n2"))], {}),
    ("static, another cluster has the hash", [static("u", "n1")], [record(static("u", "n1"), HASH, **ELSE)],
     {"confirm": ["u n1"]}),
]  # fmt: skip


@pytest.mark.parametrize("in_page", [1, 500])
@pytest.mark.parametrize(("name", "pods", "records", "wanted"), TABLE)
def test_a_full_list(name, pods, records, wanted, in_page):
    ledger = {one.id: one for one in records}
    ended, found = ids_of_cluster(records, HOW), dict[str, list[str]]()
    for first in range(0, len(pods), in_page):
        page = changes([("ADDED", each) for each in pods[first : first + in_page]], ledger, HOW)
        ended -= page.running
        for what, ids in said(page).items():
            found.setdefault(what, []).extend(ids)
        for old in page.to_ledger.gone:
            del ledger[old.id]
        ledger |= {one.id: one for one in page.to_ledger.added}
    if gone := sorted(ended & ledger.keys()):
        found.setdefault("release", []).extend(gone)
    assert found == wanted, name


EVENTS = [
    # name, event, pod, records, what is to be done
    ("bound", "MODIFIED", pod(), [record(pod("b"))], {"confirm": ["a n1"]}),
    ("seen again", "ADDED", pod(), [record(pod())], {}),
    ("not bound yet", "ADDED", pod(node=""), [record(pod(), state="reserved")], {}),
    ("ended", "MODIFIED", pod(phase="Failed"), [record(pod()), record(pod("b"))], {"release": ["a"]}),
    ("deleted", "DELETED", pod(), [record(pod()), record(pod("b"))], {"release": ["a"]}),
    ("deleted before it was bound", "DELETED", pod(node=""), [record(pod(), state="reserved")], {"release": ["a"]}),
    ("deleted, of another cluster", "DELETED", pod(), [record(pod(), **ELSE)], {}),
    ("static, deleted, another node's has the hash", "DELETED", static("v", "n2"),
     [record(static("u", "n1"), HASH), record(static("v", "n2"))], {"release": ["v"]}),
    ("static, another node's has the hash", "ADDED", static("v", "n2"), [record(static("u", "n1"), HASH)],
     {"confirm": ["v n2"]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "one", "records", "wanted"), EVENTS)
def test_an_event(name, kind, one, records, wanted):
    assert said(changes([(kind, one)], {each.id: each for each in records}, HOW)) == wanted, name


def test_the_last_of_several_events_counts():
    """Bound and ended at once leaves nothing; ended, then another pod, leaves the other."""
    assert said(changes([("ADDED", pod()), ("MODIFIED", pod(cpu="2")), ("DELETED", pod())], {}, HOW)) == {}
    seen = [("DELETED", static("u", "n1")), ("ADDED", static("v", "n1"))]
    assert said(changes(seen, {HASH: record(static("u", "n1"), HASH)}, HOW)) == {}


def test_a_resize_is_corrected():
    (correction,) = changes([("MODIFIED", pod(cpu="2"))], {"a": record(pod())}, HOW).to_ledger.changed
    assert (correction[0].amounts[0], correction[1].amounts[0]) == (1.0, 2.0)


def test_an_instance_is_confirmed_since_the_pod_started():
    found = instance(pod(labels={"app": "web", "secret": "x"}), "a", HOW)
    assert (found.id, found.machine, found.state, found.started_at) == ("a", "n1", "confirmed", 100.0)
    where = {"namespace": "shop", "pod": "pod-a", "kubernetes": "east"}
    assert found.labels == {"app": "web", "movable": "false"} | where


@pytest.mark.parametrize(
    ("spec", "annotations", "wanted"),
    [
        ({}, {}, "prod"),
        ({"qos": "BestEffort"}, {}, "free"),
        ({"priority": -5}, {}, "batch"),
        ({"priority": 2_000_001_000, "priorityClassName": "system-node-critical"}, {}, "prod"),
        ({"priority": 7_000, "priorityClassName": "koord-mid"}, {}, "mid"),
        ({"priority": 5}, {"windward.io/class": "batch"}, "batch"),
        ({"priority": 5}, {"windward.io/class": "urgent"}, "prod"),
        ({"priorityClassName": "night"}, {"windward.io/class": "prod"}, "batch"),
    ],
)
def test_the_class(spec, annotations, wanted):
    how = Reading("east", classes={"night": "batch"})
    status = {"qosClass": spec.pop("qos", "Burstable"), "phase": "Running"}
    one = _pod({"nodeName": "n1"} | spec, status, annotations=annotations)
    assert instance(one, "a", how).priority_class == wanted


def test_annotations_and_extended_resources():
    asked = {"requests": {"cpu": "1", "windward.io/nic": "5M", "nvidia.com/gpu": "1"}}
    spec = {"nodeName": "n1", "containers": [{"resources": asked}]}
    notes = {"windward.io/expected-cpu": "300m"}
    found = instance(_pod(spec, {}, annotations=notes), "a", HOW)
    assert (found.amounts[0], 5e6 in found.amounts, found.expected[0]) == (1.0, True, 0.3)
    assert instance(_pod(spec, {}, annotations=notes | {"windward.io/nic": "1G"}), "a", HOW).amounts != found.amounts
    assert instance(_pod(spec, {}, annotations={"windward.io/nic": "lots"}), "a", HOW).amounts == found.amounts


@pytest.mark.parametrize(
    ("owner", "wanted"),
    [
        ([], ""),
        ([{"kind": "ReplicaSet", "name": "web-5d4f", "controller": True}], "shop/web"),
        ([{"kind": "ReplicaSet", "name": "web-own", "controller": True}], "shop/web-own"),
        ([{"kind": "StatefulSet", "name": "db", "controller": True}], "shop/db"),
        ([{"kind": "Job", "name": "backup-29012345", "controller": True}], "shop/backup"),
        ([{"kind": "Node", "name": "n1", "controller": True}], "shop/etcd"),
        ([{"kind": "StatefulSet", "name": "db"}], ""),
    ],
)
def test_the_kind_is_the_owner(owner, wanted):
    """Without the hash of a roll-out, the minute of a run, the node of a static pod."""
    about = {"name": "etcd-n1", "labels": {"pod-template-hash": "5d4f"}, "ownerReferences": owner}
    assert kind_of(pod(**about)) == wanted
