"""Which pods are evicted, and when the next one may be."""

import msgspec
import pytest

from scorer.kubernetes.evictor.evictor import DECLINED, Rates, why_not
from scorer.kubernetes.pods_body import read_pod

META = {
    "name": "db-0", "namespace": "shop", "uid": "u", "resourceVersion": "1",
    "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}],
}  # fmt: skip
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LOCAL = {"volumes": [{"name": "token", "projected": {}}, {"name": "data", "emptyDir": {}}]}
ON_HOST = {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]}

# metadata, spec, why not
ROWS = {
    "a controller makes it again": ({}, {"volumes": [{"name": "t", "projected": {}}]}, ""),
    "another of its name": ({"uid": "v"}, {}, "gone"),
    "on another node": ({}, {"nodeName": "n2"}, "elsewhere"),
    "not bound": ({}, {"nodeName": ""}, "elsewhere"),
    "being deleted": ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, "ending"),
    "nobody makes it again": ({"ownerReferences": []}, {}, "bare"),
    "owned, and not made by a controller": ({"ownerReferences": [{"kind": "ConfigMap", "name": "x"}]}, {}, "bare"),
    "of a DaemonSet": ({"ownerReferences": [{"kind": "DaemonSet", "name": "x", "controller": True}]}, {}, "node"),
    "static": ({"ownerReferences": [{"kind": "Node", "name": "x", "controller": True}]}, {}, "node"),
    "in a namespace that is left alone": ({"namespace": "kube-system"}, {}, "namespace"),
    "of the system": ({}, {"priorityClassName": "system-cluster-critical"}, "system"),
    "not movable": ({"annotations": {"windward.io/movable": "false"}}, {}, "kept"),
    "not safe to evict": ({"annotations": {SAFE: "false"}}, {}, "kept"),
    "with an empty directory": ({}, LOCAL, "local"),
    "with a directory of its node": ({}, ON_HOST, "local"),
    "with local storage that may be lost": ({"annotations": {SAFE: "true"}}, LOCAL, ""),
}


@pytest.mark.parametrize("name", ROWS)
def test_why_a_pod_is_not_evicted(name):
    metadata, spec, expected = ROWS[name]
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": META | metadata, "status": {}}
    body["spec"] = {"nodeName": "n1", "containers": []} | spec
    found = why_not(read_pod(msgspec.json.encode(body)), "u", "n1", ("kube-system",))
    assert found == expected
    assert found in ("", *DECLINED)
    assert why_not(None, "u", "n1", ()) == "gone"


def test_rates():
    """One of a kind, two at once, three in an hour; a refused kind rests."""
    rates = Rates(hour_max=3, at_once=2)
    assert rates.why_wait("a", 0.0) == ""
    rates.begin("a", 0.0)
    assert (rates.why_wait("a", 1.0), rates.why_wait("b", 1.0)) == ("kind", "")
    rates.begin("b", 1.0)
    assert rates.why_wait("c", 2.0) == "at_once"
    rates.end("a")
    rates.refuse("c", 12.0)
    assert (rates.why_wait("c", 11.9), rates.why_wait("a", 11.9), rates.why_wait("c", 12.0)) == ("backoff", "", "")
    rates.begin("a", 12.0)
    rates.end("a")
    rates.end("b")
    assert (rates.why_wait("a", 3599.9), rates.why_wait("a", 3600.0)) == ("hour", "")
