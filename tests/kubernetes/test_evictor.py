"""Proposed moves of real pods: evicted by a real API server, and their replacements scheduled onto the held target.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not. There is no
controller: the test makes the replacement, and a budget that no controller has looked at allows no eviction.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from ops.stack.servers.process import LocalProcess
from schemas.messages.proposal import MoveProposal, write_proposal
from schemas.names import Names
from scorer.client import Client
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.extender_process import extender
from tests.integration.test_evictor import counted, evictor
from tests.integration.test_exporter import get
from tests.integration.test_rpc import eventually, scorer_process
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_extender import MANIFESTS, REQUESTS, entry
from tests.kubernetes.test_trimaran import BINARY
from tests.window_tables import GIB, publish, window_table

pytestmark = test_trimaran.pytestmark

LOAD = {"n0": 0.9, "n1": 0.1, "n2": 0.2, "n3": 0.6}
"""The best node is not the target, so that what is placed there was steered."""
CONTAINER = {"name": "c", "image": "none", "resources": {"requests": REQUESTS}}
SPEC = {"containers": [CONTAINER], "automountServiceAccountToken": False, "schedulerName": "windward"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Four nodes that are alike to Kubernetes, and the accounts of the manifests."""
    with Cluster(BINARY, tmp_path) as made:
        for node in LOAD:
            made.make_node(node, cpu="16", memory="64Gi", labels={})
        made.apply(MANIFESTS / "pods.yaml", MANIFESTS / "evictor/rights.yaml")
        made.schedule([{"schedulerName": "default-scheduler"}])
        yield made


def propose(valkey: Valkey, names: Names, client: Client, uid: str) -> None:
    """Propose to move a pod from n0 to n3, as the rebalancer does."""
    eventually(lambda: client.instances(id=uid, state="confirmed").instances)
    (row,) = client.instances(id=uid).instances
    now_s = time.time()
    move = MoveProposal(
        id=uid, fence=1, at=now_s, expires_at=now_s + 600, instance=uid, generation=row.generation, source="n0",
        target="n3", gain=0.1,
    )  # fmt: skip
    with redis.Redis.from_url(valkey.url) as server:
        server.lpush(names.moves_waiting, write_proposal(move))


def test_a_pod_moves_and_a_budget_keeps_another(cluster: Cluster, valkey: Valkey, names: Names) -> None:
    """By the rights of the manifests; the replacement goes where the proposal says, and the hold is gone after it."""
    wire = Wire({"url": valkey.url})
    table = window_table(list(LOAD), utilization=list(LOAD.values()), capacity=(16, 64 * GIB), at=time.time() + 600)
    publish(wire, names, [table])
    wire.close()
    command = [sys.executable, "-P", "-m", "ops.cli.main", "pods", "--redis-url", valkey.url, "--prefix", names.prefix]
    command += ["--kubernetes", "east", "--lease-s", "1", *cluster.flags_of("windward-pods")]
    with ExitStack() as parts:
        parts.enter_context(scorer_process(valkey.url, names))
        client = parts.enter_context(Client(valkey.url, names.prefix, timeout_s=20))
        parts.enter_context(LocalProcess("pods", command))
        _, port, page = parts.enter_context(extender(valkey.url, names))
        eventually(lambda: get(f"{page}/ready")[0] == 200)
        cluster.schedule([{"schedulerName": "windward"}], [entry(port)], name="second")
        token = cluster.flags_of("windward-evictor")
        pages = parts.enter_context(evictor(valkey.url, names, token[1], "--apply", *token[2:]))

        cluster.make_owned("web-0", "web", SPEC | {"nodeName": "n0"})
        propose(valkey, names, client, cluster.uid_of("web-0"))
        eventually(lambda: cluster.is_ending("web-0"))
        cluster.make_owned("web-1", "web", SPEC)
        assert cluster.node_of("web-1") == "n3"
        eventually(lambda: counted(pages, "windward_evictor_replaced_total", where="target") == 1)
        cluster.delete_pod("web-0")
        eventually(lambda: client.instances().total == 1)

        cluster.make_owned("db-0", "db", SPEC | {"nodeName": "n0"})
        cluster.set_phase("db-0", "Running")  # one that waits is evicted whatever its budget says
        cluster.make_budget("db", 1)
        propose(valkey, names, client, cluster.uid_of("db-0"))
        eventually(lambda: counted(pages, "windward_evictor_declined_total", reason="budget") == 1)
        assert not cluster.is_ending("db-0")
