"""The pods of a real API server in the ledger: what scheduler, kubelet and eviction would change is in it.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ops.stack.servers.process import LOOPBACK
from scorer.kubernetes.pods_api import PODS, ApiServer
from scorer.ledger.record.instance import Instance
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.integration.kubernetes.test_pods import Follower, pods_process
from tests.integration.ledger.test_ledger import amounts_of
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import PODS as OF_DEFAULT
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import MANIFESTS, settle, value
from tests.kubernetes.service import Service
from tests.kubernetes.test_trimaran import BINARY
from tests.support.pages import eventually

pytestmark = test_trimaran.pytestmark

REQUESTS = {"cpu": "500m", "memory": "1Gi"}


Lie = Callable[[dict[str, Any]], Any]
"""Makes an answer of the true one."""


@dataclass(kw_only=True)
class Lying(ApiServer):
    """The real one, but for its first lists of pods."""

    lies: list[Lie]

    def call(self, method, path, body=None, calls=None):
        answer = super().call(method, path, body, calls)
        lie = self.lies.pop(0) if self.lies and path.startswith(f"{PODS.path}?") else None
        told = answer.body if lie is None else msgspec.json.encode(lie(msgspec.json.decode(answer.body)))
        return answer._replace(body=told)


class Scene:
    """A cluster with a scheduler, the ledger, and the command that follows the pods."""

    def __init__(self, cluster, valkey, names):
        self.cluster, self._valkey, self._names = cluster, valkey, names
        self.ledger = Ledger(Wire({"url": valkey.url}), names)

    def follower(self, *flags):
        """Run the command as a service account with the rights of the manifest."""
        return pods_process(self._valkey.url, self._names, *self.cluster.flags_of("windward-pods"), *flags)

    def thread(self, *lies):
        """Make one that is a thread here, and is told lies in place of the first pages of its list of pods."""
        _, _, _, authority, _, token = self.cluster.flags_of("windward-pods")
        tls = ssl.create_default_context(cafile=authority)
        server = Lying(host=LOOPBACK, port=self.cluster.port, tls=tls, token_file=Path(token), lies=list(lies))
        return Follower(server, self._valkey, self._names)

    def change(self):
        """Return the ledger's number of the last change."""
        return self.ledger.wire.one("HGET", self.ledger.head, "change")

    def settled(self):
        """Wait until the ledger has what the API server has."""
        settle(self.ledger, self.cluster)
        return True

    def nodes(self):
        flat = self.ledger.wire.one("HGETALL", self._names.nodes)
        return {name.decode(): msgspec.json.decode(raw) for name, raw in zip(flat[::2], flat[1::2], strict=True)}


@pytest.fixture
def scene(valkey, names, tmp_path):
    """Four nodes, a plain scheduler, and the manifest's account."""
    with Cluster(BINARY, tmp_path) as cluster:
        for number in range(4):
            cluster.make_node(f"n{number}", cpu="32", memory="64Gi", labels={})
        cluster.apply(MANIFESTS / "pods.yaml")
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        made = Scene(cluster, valkey, names)
        yield made
        made.ledger.wire.close()


def test_the_ledger_has_what_the_api_server_has(scene):
    """Placed by a real scheduler, ended, resized, deleted; while the follower is killed as while it runs."""
    cluster = scene.cluster
    for number in range(20):
        cluster.make_pod(f"p{number}", REQUESTS, {})
    with scene.follower() as (process, _):
        cluster.node_of("p19")
        assert scene.settled()
        assert len(cluster.running()) == 20
        cluster.set_phase("p0", "Succeeded")
        cluster.set_phase("p1", "Failed")
        cluster.delete_pod("p2")
        cluster.resize_pod("p3", {"cpu": "700m", "memory": "1Gi"})
        assert scene.settled()
        process.kill()
    for number in range(4, 12):
        cluster.delete_pod(f"p{number}")
        cluster.make_pod(f"q{number}", REQUESTS, {})
        cluster.node_of(f"q{number}")
    with scene.follower():
        assert scene.settled()
        cluster.make_pod("last", REQUESTS, {}, nodeName="n1")
        assert scene.settled()
    assert len(cluster.running()) == 18


def test_machines_are_what_the_nodes_are(scene):
    """Room, labels and cordon come from a real API server, by the rights of the manifest."""
    with scene.follower():
        rules = eventually(lambda: len(found := scene.nodes()) == 4 and found, 30)
        assert rules["n2"]["capacity"] == {"cpu": 32.0, "memory": 2.0**36}
        assert rules["n2"]["labels"]["kubernetes"] == "east"
        scene.cluster.cordon("n2")
        eventually(lambda: scene.nodes()["n2"].get("cordon"), 30)
        assert not scene.nodes()["n1"].get("cordon")
        assert "taints" not in scene.nodes()["n2"]


def test_a_cut_watch_goes_on(scene):
    """Those of pods and nodes from their version, without a list; by one that is too old (410) all are listed."""
    cluster = scene.cluster
    with (
        Service([cluster.port]) as service,
        scene.follower("--api-url", f"https://127.0.0.1:{service.port}", "--lease-s", "10") as (process, page),
    ):
        lists = lambda: value(page, "windward_pods_lists_total", result="done")  # noqa: E731
        eventually(lambda: lists() == 1)
        for number in range(4):
            if number:
                service.cut()
                cluster.delete_pod(f"p{number - 1}")
            cluster.make_pod(f"p{number}", REQUESTS, {}, nodeName="n1")
            cluster.cordon(f"n{number}")
            assert scene.settled()
            eventually(lambda number=number: scene.nodes()[f"n{number}"].get("cordon"))
        assert lists() == 1

        service.silence()
        service.cut()
        cluster.delete_pod("p3")
        cluster.make_pod("q", REQUESTS, {}, nodeName="n2")
        cluster.apiserver.restart()  # its memory of what happened begins here
        service.pass_on()
        assert scene.settled()
        assert "too old" in process.log.read_text()
        assert lists() == 2


def test_a_pod_that_names_another_takes_nothing_from_it(scene):
    """Neither another pod's uid, nor a static pod's hash, nor a deployer's instance: each keeps what it has."""
    cluster, static = scene.cluster, "a" * 32
    of_node = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1", "controller": True}
    names = ("web-7", "b" * 32)
    scene.ledger.correct(
        [Instance(id=name, machine="n1", state="confirmed", amounts=amounts_of(4.0)) for name in names]
    )

    def make(name, config, *owners, **notes):
        about = {"name": name, "annotations": {"kubernetes.io/config.hash": config, **notes}, "ownerReferences": owners}
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "10m"}}}
        spec = {"nodeName": "n1", "containers": [container]}
        cluster.call("POST", OF_DEFAULT, {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": spec})

    mirror = {"kubernetes.io/config.mirror": "x"}
    cluster.make_pod("victim", {"cpu": "8"}, {}, nodeName="n1")
    make("static-n1", static, of_node, **mirror)
    with scene.follower():
        before = eventually(lambda: len(found := scene.ledger.all_instances()) == 4 and found)
        assert before.keys() == {*names, static, cluster.uid_of("victim")}
        attacks = [
            (config, owners, notes)
            for config in (*before, "web-8")
            for owners in ((), (of_node,))
            for notes in ({}, mirror)
        ]
        for number, (config, owners, notes) in enumerate(attacks):
            make(f"x{number}", config, *owners, **notes)
        uids = {cluster.uid_of(f"x{number}") for number in range(len(attacks))}
        eventually(lambda: scene.ledger.all_instances().keys() == before.keys() | uids)
        for number in range(len(attacks)):
            cluster.delete_pod(f"x{number}")
        eventually(lambda: not scene.ledger.all_instances().keys() & uids)
        assert scene.ledger.all_instances() == before
