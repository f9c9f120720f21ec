"""A second scheduler, as it is published, with the extender: pods go by load, and none waits for it once it is killed.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.stack.servers.process import LOOPBACK
from schemas.names import Names
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.extender_process import extender, order
from tests.integration.test_exporter import get
from tests.integration.test_rpc import eventually
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_trimaran import BINARY
from tests.window_tables import GIB, publish, window_table

pytestmark = test_trimaran.pytestmark

IDLE, BUSY = [f"idle{number}" for number in range(5)], [f"busy{number}" for number in range(5)]
LOAD = dict.fromkeys(IDLE, 0.05) | dict.fromkeys(BUSY, 0.75)
CORES = 16
MANIFESTS = Path(__file__).parents[2] / "ops/kubernetes"
REQUESTS = {"cpu": "100m", "memory": "64Mi"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Ten nodes that are alike to Kubernetes."""
    with Cluster(BINARY, tmp_path) as made:
        for node in LOAD:
            made.make_node(node, cpu=str(CORES), memory="64Gi", labels={})
        yield made


@pytest.fixture(autouse=True)
def agents(valkey: Valkey, names: Names) -> Iterator[None]:
    """Write the windows of the nodes, again and again, as they are fresh."""
    stop = threading.Event()

    def write() -> None:
        wire = Wire({"url": valkey.url})
        while True:
            table = window_table(
                list(LOAD), utilization=list(LOAD.values()), capacity=(CORES, 64 * GIB), at=time.time()
            )
            publish(wire, names, [table])
            if stop.wait(1.0):
                break
        wire.close()

    writer = threading.Thread(target=write)
    writer.start()
    yield
    stop.set()
    writer.join()


def entry(port: int, **more: Any) -> dict[str, Any]:
    """Return the extender in the scheduler's configuration, as the documentation has it."""
    return {
        "urlPrefix": f"http://{LOOPBACK}:{port}", "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True,
        "ignorable": True, "httpTimeout": "200ms", **more,
    }  # fmt: skip


def test_pods_go_by_load_and_none_is_blocked(cluster: Cluster, valkey: Valkey, names: Names) -> None:
    """All of 25 to nodes that are idle, no node with most of them; the extender is killed, and 25 more are placed.

    By mode filter: that the scores of an extender which is away are missing blocks no pod in any case.
    """
    cluster.schedule([{"schedulerName": "default-scheduler"}])
    with extender(valkey.url, names, "--mode", "filter") as (process, port, page):
        eventually(lambda: get(f"{page}/ready")[0] == 200)
        cluster.schedule([{"schedulerName": "windward"}], [entry(port, filterVerb="filter")], name="second")
        for number in range(25):
            cluster.make_pod(f"p{number}", REQUESTS, {}, schedulerName="windward")
        placed = Counter(cluster.node_of(f"p{number}") for number in range(25))
        assert placed.keys() <= set(IDLE), placed
        assert max(placed.values()) <= 10, placed
        for number in range(25, 50):
            cluster.make_pod(f"p{number}", REQUESTS, {}, schedulerName="windward")
            if number == 30:
                process.kill()
        assert all(cluster.node_of(f"p{number}") in LOAD for number in range(25, 50))


def test_by_mode_bind_the_ledger_has_what_is_bound(cluster: Cluster, valkey: Valkey, names: Names) -> None:
    """Each pod is reserved, then bound, by the rights of the manifest: the ledger has what the API server has."""
    cluster.apply(*(MANIFESTS / name for name in ("extender.yaml", "extender-bind/rights.yaml")))
    ledger = Ledger(Wire({"url": valkey.url}), names)
    account = cluster.flags_of("windward-extender")
    with extender(valkey.url, names, "--mode", "bind", *account) as (_, port, page):
        eventually(lambda: get(f"{page}/ready")[0] == 200)
        eventually(lambda: order(port, IDLE))
        verbs = {"filterVerb": "filter", "bindVerb": "bind", "ignorable": False, "httpTimeout": "5s"}
        cluster.schedule([{"schedulerName": "windward"}], [entry(port, **verbs)], name="second")
        for number in range(20):
            cluster.make_pod(f"p{number}", REQUESTS, {}, schedulerName="windward")
        placed = {f"p{number}": cluster.node_of(f"p{number}") for number in range(20)}
        assert set(placed.values()) <= set(IDLE)
        held = {one.id: one.machine for one in ledger.all_instances().values()}
        assert held == {uid: node for uid, (node, _) in cluster.running().items()}
    ledger.wire.close()


def test_the_second_scheduler_has_the_rights_it_needs(cluster: Cluster) -> None:
    """By the component's account, lease and profile it leads, and binds a pod."""
    folder = MANIFESTS / "second-scheduler"
    cluster.apply(folder / "rights.yaml")
    text = next(yaml.safe_load_all((folder / "scheduler.yaml").read_text()))["data"]["config.yaml"]
    asked = yaml.safe_load(text)
    cluster.schedule(asked["profiles"], account="windward-scheduler", election=asked["leaderElection"])
    cluster.make_pod("p", REQUESTS, {}, schedulerName="windward")
    assert cluster.node_of("p") in LOAD
