"""The pods of a real API server in the ledger: what scheduler, kubelet and eviction would change is in it.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ops.stack.servers.process import LocalProcess, free_port
from ops.stack.stack import listens
from schemas.names import Names
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.test_rpc import eventually
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_trimaran import BINARY

pytestmark = test_trimaran.pytestmark

REQUESTS = {"cpu": "500m", "memory": "1Gi"}


class Scene:
    """A cluster with a scheduler, the ledger, and the command that follows the pods."""

    def __init__(self, cluster: Cluster, valkey: Valkey, names: Names) -> None:
        self.cluster, self._valkey, self._names = cluster, valkey, names
        self.ledger = Ledger(Wire({"url": valkey.url}), names)

    @contextmanager
    def follower(self) -> Iterator[LocalProcess]:
        """Run the command as a service account with the rights of the manifest."""
        port = free_port()
        command = [sys.executable, "-P", "-m", "ops.cli.main", "pods", "--redis-url", self._valkey.url]
        command += ["--prefix", self._names.prefix, "--metrics-port", str(port), "--kubernetes", "east"]
        command += ["--lease-s", "1", *self.cluster.flags_of("windward-pods")]
        with LocalProcess("pods", command, ready=lambda: listens(port)) as process:
            yield process

    def settled(self) -> bool:
        """Wait until the ledger has what the API server has."""
        eventually(lambda: self._in_ledger() == self.cluster.running(), 30)
        assert Check(self.ledger).run().differences == []
        return True

    def nodes(self) -> dict[str, Any]:
        """Return what Redis has of the nodes."""
        flat = self.ledger.wire.one("HGETALL", self._names.nodes)
        return {name.decode(): msgspec.json.decode(raw) for name, raw in zip(flat[::2], flat[1::2], strict=True)}

    def _in_ledger(self) -> dict[str, tuple[str, str]]:
        found = self.ledger.all_instances().values()
        return {one.id: (one.machine, f"{round(1000 * (one.amounts[0] or 0))}m") for one in found}


@pytest.fixture
def scene(valkey: Valkey, names: Names, tmp_path: Path) -> Iterator[Scene]:
    """Four nodes, a plain scheduler, and the manifest's account."""
    with Cluster(BINARY, tmp_path) as cluster:
        for number in range(4):
            cluster.make_node(f"n{number}", cpu="32", memory="64Gi", labels={})
        cluster.apply(Path(__file__).parents[2] / "ops/kubernetes/pods.yaml")
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        made = Scene(cluster, valkey, names)
        yield made
        made.ledger.wire.close()


def test_the_ledger_has_what_the_api_server_has(scene: Scene) -> None:
    """Placed by a real scheduler, ended, resized, deleted; while the follower is killed as while it runs."""
    cluster = scene.cluster
    for number in range(20):
        cluster.make_pod(f"p{number}", REQUESTS, {})
    with scene.follower() as process:
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


def test_machines_are_what_the_nodes_are(scene: Scene) -> None:
    """Room, labels and cordon come from a real API server, by the rights of the manifest."""
    with scene.follower():
        rules = eventually(lambda: len(found := scene.nodes()) == 4 and found, 30)
        assert rules["n2"]["capacity"] == {"cpu": 32.0, "memory": 2.0**36}
        assert rules["n2"]["labels"]["kubernetes"] == "east"
        scene.cluster.cordon("n2")
        eventually(lambda: scene.nodes()["n2"].get("cordon"), 30)
        assert not scene.nodes()["n1"].get("cordon")
        assert "taints" not in scene.nodes()["n2"]
