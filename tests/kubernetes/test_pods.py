"""The pods of a real API server in the ledger: what scheduler, kubelet and eviction would change is in it.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ops.stack.servers.process import LOOPBACK, LocalProcess
from schemas.names import Names
from scorer.kubernetes.pods_api import ApiServer
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.kubernetes.test_pods import Follower
from tests.integration.scorer.test_rpc import eventually
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import MANIFESTS, follower, settle, value
from tests.kubernetes.service import Service
from tests.kubernetes.test_trimaran import BINARY

pytestmark = test_trimaran.pytestmark

REQUESTS = {"cpu": "500m", "memory": "1Gi"}


class Scene:
    """A cluster with a scheduler, the ledger, and the command that follows the pods."""

    def __init__(self, cluster: Cluster, valkey: Valkey, names: Names) -> None:
        self.cluster, self._valkey, self._names = cluster, valkey, names
        self.ledger = Ledger(Wire({"url": valkey.url}), names)

    def follower(self, *flags: str) -> AbstractContextManager[tuple[LocalProcess, str]]:
        """Run the command as a service account with the rights of the manifest."""
        return follower(self._valkey.url, self._names, self.cluster.flags_of("windward-pods"), *flags)

    def thread(self, port: int) -> Follower:
        """Make one that is a thread here, and asks the API server at a port."""
        _, _, _, authority, _, token = self.cluster.flags_of("windward-pods")
        tls = ssl.create_default_context(cafile=authority)
        server = ApiServer(host=LOOPBACK, port=port, tls=tls, token_file=Path(token), silent_s=1.0)
        return Follower(server, self._valkey, self._names)

    def settled(self) -> bool:
        """Wait until the ledger has what the API server has."""
        settle(self.ledger, self.cluster)
        return True

    def nodes(self) -> dict[str, Any]:
        """Return what Redis has of the nodes."""
        flat = self.ledger.wire.one("HGETALL", self._names.nodes)
        return {name.decode(): msgspec.json.decode(raw) for name, raw in zip(flat[::2], flat[1::2], strict=True)}


@pytest.fixture
def scene(valkey: Valkey, names: Names, tmp_path: Path) -> Iterator[Scene]:
    """Four nodes, a plain scheduler, and the manifest's account."""
    with Cluster(BINARY, tmp_path) as cluster:
        for number in range(4):
            cluster.make_node(f"n{number}", cpu="32", memory="64Gi", labels={})
        cluster.apply(MANIFESTS / "pods.yaml")
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        made = Scene(cluster, valkey, names)
        yield made
        made.ledger.wire.close()


def test_the_ledger_has_what_the_api_server_has(scene: Scene) -> None:
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


def test_a_cut_watch_goes_on(scene: Scene) -> None:
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


def test_a_frozen_leader_that_wakes_changes_nothing(scene: Scene) -> None:
    """Another leads meanwhile, and the ledger has what came since; a killed one is taken over from, too."""
    cluster = scene.cluster
    with scene.follower("--name", "one") as (one, first), scene.follower("--name", "two") as (two, second):
        for number in range(20):
            cluster.make_pod(f"p{number}", REQUESTS, {}, nodeName=f"n{number % 4}")
        assert scene.settled()
        pages = {first: one, second: two}
        for round_ in range(3):
            (leads,) = (page for page in pages if value(page, "windward_pods_leads"))
            (waits,) = pages.keys() - {leads}
            pages[leads].pause()
            cluster.delete_pod(f"p{round_}")
            cluster.make_pod(f"q{round_}", REQUESTS, {}, nodeName="n3")
            assert scene.settled()
            assert value(waits, "windward_pods_leads") == 1
            cluster.delete_pod(f"p{round_ + 10}")
            cluster.make_pod(f"r{round_}", REQUESTS, {}, nodeName="n2")
            pages[leads].resume()
            eventually(lambda leads=leads: value(leads, "windward_pods_leads") == 0)
            assert scene.settled()
        pages[waits].kill()
        cluster.delete_pod("p9")
        assert scene.settled()
