"""Bodies that a real kube-scheduler and API server have sent: `tests.kubernetes.recorded` says how."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scorer.kubernetes.extender.protocol import ExtenderFilterResult, read_args, read_binding
from scorer.kubernetes.nodes_body import rules_of
from scorer.kubernetes.pods_api import NODES, PODS, ApiError
from scorer.kubernetes.pods_difference import changes
from scorer.kubernetes.pods_request import Reading, request_of
from scorer.ledger.record.instance import Instance
from tests.scorer.kubernetes.extender.test_verbs import Scene
from tests.scorer.kubernetes.test_pods_api import Server, api, server

__all__ = ["server"]

FOLDER = Path(__file__).parent / "recorded"
HOW = Reading("east")
GI = 2.0**30


def body(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def test_a_scheduler_is_answered() -> None:
    """It asks about the nodes that are not cordoned: all are kept, and scored with the least load first."""
    verbs = Scene().verbs
    kept, scores = verbs.filter(body("filter.json")), verbs.prioritize(body("prioritize.json"))
    assert isinstance(kept, ExtenderFilterResult)
    assert sorted(kept.node_names or ()) == ["n0", "n1"]
    assert [one.host for one in scores] == ["n0", "n1"]


def test_a_pod_that_waits_is_a_request() -> None:
    pod = read_args(body("filter.json")).pod
    request = request_of(pod, pod.metadata.uid, HOW)
    assert (request.cpu, request.memory, request.kind) == (0.7, GI, "default/db")


def test_a_binding_is_read() -> None:
    binding, args = read_binding(body("bind.json")), read_args(body("filter.json"))
    assert (binding.pod_namespace, binding.pod_name, binding.pod_uid) == ("default", "db-2", args.pod.metadata.uid)
    assert binding.node in (args.node_names or ())


def test_a_list_and_what_changed_since_are_in_the_ledger(server: Server) -> None:
    """Two are bound; then one is resized, and one ends."""
    server.answers = [(200, [body("pods.json")]), (200, body("watch.jsonl").splitlines(keepends=True))]
    (page,) = api(server).pages(PODS)
    found = changes([("ADDED", pod) for pod in page.items], {}, HOW)
    records = {one.id: one for one in found.to_ledger.added}
    assert _said(list(records.values())) == {"db-0": ("n0", 0.7, GI), "db-1": ("n1", 0.7, GI)}
    seen = list(api(server).watch(PODS, page.metadata.resource_version))
    since = changes(seen, records, HOW).to_ledger
    assert [kind for kind, _ in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert _said([new for _, new, _ in since.changed]) == {"db-0": ("n0", 0.9, GI)}
    assert _said(list(since.gone)) == {"db-1": ("n1", 0.7, GI)}


def test_a_version_that_is_too_old_ends_the_watch(server: Server) -> None:
    server.answers = [(200, [body("too-old.jsonl")])]
    assert json.loads(body("too-old.jsonl"))["object"]["code"] == 410
    with pytest.raises(ApiError, match="too old resource version"):
        list(api(server).watch(PODS, "1"))


def test_nodes_are_machines(server: Server) -> None:
    """With capacity and cordon."""
    server.answers = [(200, [body("nodes.json")])]
    (page,) = api(server).pages(NODES)
    rules = {node.metadata.name: rules_of(node, "east") for node in page.items}
    assert {name: (one.cordon, one.capacity) for name, one in rules.items()} == {
        f"n{number}": (number == 2, {"cpu": 16.0, "memory": 64 * GI}) for number in range(3)
    }


def _said(instances: list[Instance]) -> dict[str, tuple[str, float | None, float | None]]:
    return {one.labels["pod"]: (one.machine, one.amounts[0], one.amounts[1]) for one in instances}
