"""What pods request in all, by kube-scheduler's rule."""

import msgspec
import pytest

from schemas.messages.operator import OperatorFacts, Taint
from scorer.kubernetes.nodes_body import read_node, read_nodes, rules_of, unreadable_amounts
from scorer.kubernetes.pods_body import limits_of, read_list, read_pod, requests_of

GI = 2.0**30
POD = {
    "metadata": {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "6"},
    "spec": {"containers": []},
    "status": {},
}
LIST = {
    "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "abc"}, "items": [POD],
}  # fmt: skip


def read(spec, status=None):
    body = {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": []} | spec, "status": status or {}}
    return read_pod(msgspec.json.encode(POD | body))


def container(cpu="", memory="", **other):
    asked = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return {"name": "a", "image": "x", "resources": {"requests": asked}} | other


RESIZED = {"name": "a", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1500m"}}
NEVER = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible", "status": "True"}]}
LATER = {"conditions": [{"type": "PodResizePending", "reason": "Deferred", "status": "True"}]}


def whole(cpu):
    return {"containers": [container("0.5")], "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}


def has(cpu, allocated=""):
    of = {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
    return of | ({"allocatedResources": {"cpu": allocated}} if allocated else {})


# Sources: resource.PodRequests of kubernetes and its helpers_test.go (component-helpers); KEP-753: sidecars,
# KEP-1287: resizes, KEP-2837: whole pods. What else is requested, nulls and units: made.
REQUESTS = [
    # name, spec, status, requests
    ("nothing is said", {"containers": [{"name": "a", "resources": {}}]}, {}, {}),
    ("a given nothing", {"containers": [container("0")]}, {}, {"cpu": 0.0}),
    ("containers add up", {"containers": [container("500m", "1Gi"), container("2")]}, {}, {"cpu": 2.5, "memory": GI}),
    ("a larger start", {"containers": [container("1")], "initContainers": [container("3")]}, {}, {"cpu": 3.0}),
    ("a smaller start", {"containers": [container("1")], "initContainers": [container("0.5")] * 3}, {}, {"cpu": 1.0}),
    ("a sidecar runs, too",
     {"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]}, {}, {"cpu": 3.0}),
    ("a start counts with the sidecars before it, not with those after it",
     {"containers": [container("1")],
      "initContainers": [container("1", restartPolicy="Always"), container("4"),
                         container("2", restartPolicy="Always")]}, {}, {"cpu": 5.0}),
    ("overhead", {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}, {},
     {"cpu": 1.25, "memory": GI}),
    ("the whole pod's", {"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "4"}},
                         "overhead": {"cpu": "1"}}, {}, {"cpu": 5.0, "memory": GI}),
    ("growing", {"containers": [container("2")]}, {"containerStatuses": [RESIZED]}, {"cpu": 2.0}),
    ("shrinking", {"containers": [container("0.5")]}, {"containerStatuses": [RESIZED]}, {"cpu": 1.5}),
    ("it can never grow", {"containers": [container("9")]}, {"containerStatuses": [RESIZED]} | NEVER, {"cpu": 1.5}),
    ("what else is requested counts nowhere, however it is written",
     {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "1Gi", "x.com/gpu": "?"}}}]},
     {}, {"cpu": 1.0}),
    ("lists and parts that are null", {"containers": [container("1"), {"name": "b", "resources": None}],
                                       "initContainers": None, "resources": None},
     {"conditions": None, "containerStatuses": None}, {"cpu": 1.0}),
    ("allocated, and nothing of what it has", {"containers": [container("2")]},
     {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"}}]}, {"cpu": 3.0}),
    ("the whole pod shrinks", whole("2"), has("6"), {"cpu": 6.0}),
    ("the whole pod grows", whole("8"), has("6"), {"cpu": 8.0}),
    ("the whole pod can never grow", whole("500"), has("6") | NEVER, {"cpu": 6.0}),
    ("the whole pod waits to grow", whole("8"), has("6") | LATER, {"cpu": 8.0}),
    ("more is allocated than it has yet", whole("2"), has("3", "4"), {"cpu": 4.0}),
    ("it has more than is allocated", whole("2"), has("4", "3"), {"cpu": 4.0}),
    ("allocated alone", whole("2"), {"allocatedResources": {"cpu": "4"}}, {"cpu": 4.0}),
    ("it can never grow, and only its allocation is known", whole("9"), {"allocatedResources": {"cpu": "4"}} | NEVER,
     {"cpu": 4.0}),
    ("it can never grow, and nothing is known", whole("9"), NEVER, {"cpu": 9.0}),
    ("null is nothing", whole("2"), {"resources": None, "allocatedResources": None}, {"cpu": 2.0}),
    ("what the whole pod has includes the overhead", whole("2") | {"overhead": {"cpu": "1"}}, has("6", "6"),
     {"cpu": 6.0}),
    ("less than the overhead is nothing", whole("2") | {"overhead": {"cpu": "3"}}, has("1") | NEVER, {"cpu": 3.0}),
    ("memory of the status, too",
     {"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "2", "memory": "2Gi"}}},
     {"resources": {"requests": {"cpu": "2", "memory": "3Gi"}}}, {"cpu": 2.0, "memory": 3 * GI}),
    ("nothing is asked of the whole pod: its containers count", {"containers": [container("1")]}, {}, {"cpu": 1.0}),
    ("small and large units", {"containers": [container("100000000n", "1E")]}, {}, {"cpu": 0.1, "memory": 1e18}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spec", "status", "wanted"), REQUESTS)
def test_requests(name, spec, status, wanted):
    assert requests_of(read(spec, status)) == pytest.approx(wanted), name


def test_limits_are_known_where_every_container_has_one():
    """One without a limit may use all there is; what is said of the whole pod holds."""
    both = [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, {"resources": {"limits": {"cpu": "2"}}}]
    spec = {"containers": both, "initContainers": [{"resources": {}}], "overhead": {"cpu": "1"}}
    assert limits_of(read(spec)) == {"cpu": 4.0}
    spec["resources"] = {"limits": {"memory": "8Gi"}}
    assert limits_of(read(spec)) == {"cpu": 4.0, "memory": 8 * GI}
    assert limits_of(read({"containers": []})) == {}


@pytest.mark.parametrize(
    "spec, status, wanted",
    [
        (whole("2"), has("6"), 6.0),
        (whole("8"), has("6"), 8.0),
        (whole("500"), has("6") | NEVER, 6.0),
        (whole("2") | {"overhead": {"cpu": "1"}}, has("6"), 6.0),
        (whole("2"), {}, 2.0),
    ],
)
def test_the_limit_of_a_whole_pod_is_resized_too(spec, status, wanted):
    assert limits_of(read(spec, status)) == {"cpu": wanted}


def test_a_page_says_where_it_ends():
    page = read_list(msgspec.json.encode(LIST))
    assert (page.metadata.resource_version, page.metadata.continue_) == ("7", "abc")
    assert [pod.metadata.uid for pod in page.items] == ["u"]
    last = LIST | {"metadata": {"resourceVersion": "7"}, "items": []}
    assert read_list(msgspec.json.encode(last)).metadata.continue_ == ""


def test_what_the_api_server_always_gives_is_required():
    """Of a list and of each pod of it; an answer without it is none, as is that of another service."""
    others = [{}, {"status": "ok"}, [], None, {"kind": "Status", "apiVersion": "v1", "code": 200}]
    others += [LIST | {"items": None}, LIST | {"kind": "NodeList"}, LIST | {"metadata": {"resourceVersion": ""}}]
    others += [{name: one for name, one in LIST.items() if name != lacks} for lacks in LIST]
    for lacks in POD:
        others.append(LIST | {"items": [{name: one for name, one in POD.items() if name != lacks}]})
    for lacks in POD["metadata"]:
        about = {name: one for name, one in POD["metadata"].items() if name != lacks}
        others.append(LIST | {"items": [POD | {"metadata": about}]})
    for body in others:
        with pytest.raises(msgspec.DecodeError):
            read_list(msgspec.json.encode(body))
    for body in ({}, POD, POD | {"kind": "Node", "apiVersion": "v1"}):
        with pytest.raises(msgspec.DecodeError):
            read_pod(msgspec.json.encode(body))


LABELS = {"kubernetes": "east"}
TAINTED = [
    {"key": "gpu", "value": "a", "effect": "NoSchedule"},
    {"key": "old", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    {"key": "new", "effect": "SomethingElse"},
]


def node(body):
    whole = {"kind": "Node", "apiVersion": "v1", "spec": {}, "status": {}} | body
    whole["metadata"] = {"name": "n1", "resourceVersion": "1", **body.get("metadata", {})}
    return read_node(msgspec.json.encode(whole))


@pytest.mark.parametrize(
    ("what", "body", "wanted"),
    [
        ("nothing is said", {}, OperatorFacts(labels=LABELS)),
        ("its own label does not win", {"metadata": {"labels": {"zone": "a", "kubernetes": "mine"}}},
         OperatorFacts(labels={"zone": "a", "kubernetes": "east"})),
        ("cordoned", {"spec": {"unschedulable": True}}, OperatorFacts(labels=LABELS, cordon=True)),
        (
            "taints",
            {"spec": {"taints": TAINTED}},
            OperatorFacts(
                labels=LABELS,
                taints=(Taint("gpu", "a"), Taint("old", "", "avoid"), Taint("node.kubernetes.io/not-ready:NoExecute")),
            ),
        ),
        (
            "what pods may request is less than there is",
            {"status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                        "allocatable": {"cpu": "3920m", "memory": "8Gi"}}},
            OperatorFacts(labels=LABELS, capacity={"cpu": 4.0, "memory": 2.0**33}, reserve={"cpu": 4.0 - 3.92}),
        ),
        (
            "how many pods it takes",
            {"metadata": {"labels": {"kubernetes-pods": "9"}}, "status": {"allocatable": {"pods": "110"}}},
            OperatorFacts(labels=LABELS | {"kubernetes-pods": "110"}),
        ),
        ("allocatable alone", {"status": {"allocatable": {"cpu": "4"}}}, OperatorFacts(labels=LABELS)),
    ],
)  # fmt: skip
def test_rules(what, body, wanted):
    """Each field of a node that placement knows; by core/v1 and the well-known taints of its documentation."""
    assert rules_of(node(body), "east") == wanted, what


def test_what_is_no_machine():
    with pytest.raises(ValueError, match="machine"):
        rules_of(node({"metadata": {"name": "n 1"}}), "east")


@pytest.mark.parametrize(
    ("capacity", "allocatable", "read", "reserve", "told"),
    [
        ({"cpu": "4", "memory": "lots"}, {"cpu": "-2"}, {"cpu": 4.0}, {},
         ["capacity.memory: 'lots'", "allocatable.cpu: '-2'"]),
        ({"cpu": "many", "memory": "8"}, {"cpu": "3", "memory": "6"}, {"memory": 8.0}, {"memory": 2.0},
         ["capacity.cpu: 'many'"]),
        ({"cpu": "4"}, {"cpu": "3", "memory": "1 Gi"}, {"cpu": 4.0}, {"cpu": 1.0}, ["allocatable.memory: '1 Gi'"]),
        ({"cpu": ""}, {"pods": "some"}, {}, {}, ["capacity.cpu: ''", "allocatable.pods: 'some'"]),
        ({"x.com/gpu": "?"}, {"hugepages-2Mi": "?"}, {}, {}, []),
        # documentation of resource.Quantity: at most 2^63-1, else an exponent
        ({"cpu": "4", "memory": "1e21"}, {"cpu": "1e999"}, {"cpu": 4.0}, {},
         ["capacity.memory: '1e21'", "allocatable.cpu: '1e999'"]),
    ],
)  # fmt: skip
def test_an_amount_that_is_none_costs_only_itself(
    capacity, allocatable, read, reserve,
    told
):  # fmt: skip
    """The cordon, taints and labels stay, and the other amounts; what cannot be read is named. Made, but for one."""
    spec = {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    status = {"capacity": capacity, "allocatable": allocatable}
    one = node({"metadata": {"labels": {"zone": "a"}}, "spec": spec, "status": status})
    wanted = OperatorFacts(
        labels={"zone": "a"} | LABELS, cordon=True, taints=(Taint("gpu"),), capacity=read, reserve=reserve
    )
    assert rules_of(one, "east") == wanted
    assert unreadable_amounts(one) == told


@pytest.mark.parametrize(
    "body", [{}, {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": None}]
)
def test_what_is_no_list_of_nodes(body):
    with pytest.raises(msgspec.DecodeError):
        read_nodes(msgspec.json.encode(body))
