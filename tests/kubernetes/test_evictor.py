"""Proposed moves of real pods: evicted by the API server, made again by a controller, placed on the held target.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

import http.client
import ssl
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import redis

from ops.stack.servers.process import LOOPBACK, LocalProcess
from schemas.messages.proposal import MoveProposal, write_proposal
from schemas.names import Names
from scorer.client import Client
from scorer.kubernetes.pods_api import ApiServer
from scorer.kubernetes.pods_request import hold_id
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.integration.kubernetes.test_evictor import counted, evictor
from tests.integration.kubernetes.test_pods import pods_process
from tests.integration.observe.test_exporter import get
from tests.integration.scorer.test_rpc import scorer_process
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import MANIFESTS, REQUESTS, Kubelets, agents, entry, make_nodes, settle
from tests.kubernetes.test_trimaran import BINARY
from tests.support.extender_process import extender
from tests.support.pages import eventually

pytestmark = test_trimaran.pytestmark

COLD = {"n0": 0.05, "n1": 0.5, "n2": 0.5, "n3": 0.6}
"""Pods go to n0 at first."""
HOT = {"n0": 0.9, "n1": 0.1, "n2": 0.2, "n3": 0.6}
"""The best node is not the target, so that what is placed there was steered."""
CONTAINER = {"name": "c", "image": "none", "resources": {"requests": REQUESTS}}
SPEC = {"containers": [CONTAINER], "automountServiceAccountToken": False, "schedulerName": "windward"}


@dataclass
class Scene:
    """Four nodes, controllers, kubelets, a scheduler with the extender, a scorer, and who follows the pods."""

    cluster: Cluster
    url: str
    names: Names
    client: Client
    ledger: Ledger
    followed: LocalProcess
    load: dict[str, float] = field(default_factory=lambda: dict(COLD))

    def deploy(self, name, replicas):
        """Have so many pods run on n0, then make it hot; return their names."""
        self.load |= COLD
        eventually(lambda: self.client.rank(cpu=1).machine == "n0")
        self.cluster.make_set(name, replicas, SPEC)
        pods = eventually(lambda: self._bound(name, replicas))
        assert set(pods.values()) == {"n0"}
        settle(self.ledger, self.cluster)
        self.load |= HOT
        eventually(lambda: self.client.rank(cpu=1).machine == "n1")
        return sorted(pods)

    def _bound(self, name, count):
        pods = self.cluster.pods_of(name)
        return pods if len(pods) == count and all(pods.values()) else None

    def nodes(self, name):
        """Return the nodes of an owner's pods that are not being deleted."""
        return sorted(self.cluster.pods_of(name).values())

    def propose(self, uid, target="n3"):
        """Propose to move a pod from n0, as the planner does."""
        (row,) = self.client.instances(id=uid).instances
        now_s = time.time()
        move = MoveProposal(
            id=f"{uid}-{now_s}", fence=1, at=now_s, expires_at=now_s + 600, instance=uid, generation=row.generation,
            source="n0", target=target, gain=0.1,
        )  # fmt: skip
        with redis.Redis.from_url(self.url) as server:
            server.lpush(self.names.moves_waiting, write_proposal(move))

    def held(self, name):
        """Return how many targets are held for an owner."""
        return len(self.client.instances(id=hold_id("east", f"default/{name}"), state="reserved").instances)


@pytest.fixture
def scene(tmp_path, valkey, names):
    """By the rights of the manifests; no pod yet."""
    with ExitStack() as parts:
        cluster = parts.enter_context(Cluster(BINARY, tmp_path))
        make_nodes(cluster, COLD)
        cluster.apply(MANIFESTS / "pods.yaml", MANIFESTS / "evictor/rights.yaml")
        cluster.control()
        parts.enter_context(Kubelets(cluster))
        parts.enter_context(scorer_process(valkey.url, names))
        client = parts.enter_context(Client(valkey.url, names.prefix, timeout_s=20))
        ledger = Ledger(Wire({"url": valkey.url}), names)
        parts.callback(ledger.wire.close)
        followed, _ = parts.enter_context(pods_process(valkey.url, names, *cluster.flags_of("windward-pods")))
        made = Scene(cluster, valkey.url, names, client, ledger, followed)
        parts.enter_context(agents(valkey.url, names, lambda: dict(made.load)))
        _, port, page = parts.enter_context(extender(valkey.url, names))
        eventually(lambda: get(f"{page}/ready")[0] == 200)
        cluster.schedule([{"schedulerName": "windward"}], [entry(port)], name="second")
        yield made


def flags(scene, *more):
    """Return the API server and the flags of an evictor that has the rights of the manifest."""
    return [*scene.cluster.flags_of("windward-evictor")[1:], "--backoff", "1", *more]


def test_replacements_land_on_the_held_target(scene):
    """Three pods of a Deployment, one after the other; at most as many as the rate allows in an hour."""
    pods = scene.deploy("web", 3)
    with evictor(scene.url, scene.names, *flags(scene, "--apply", "--hour-max", "2")) as (_, page):
        for pod in pods:
            scene.propose(scene.cluster.uid_of(pod))
        eventually(lambda: counted(page, "windward_evictor_replaced_total", where="target") == 2)
        eventually(lambda: counted(page, "windward_evictor_waiting", reason="hour") == 1)
        assert scene.nodes("web") == ["n0", "n3", "n3"]
        assert scene.held("web") == 0
        assert counted(page, "windward_evictor_replaced_total", where="elsewhere") == 0
        settle(scene.ledger, scene.cluster)


def test_an_exhausted_budget_keeps_a_pod(scene):
    (pod, _) = scene.deploy("db", 2)
    uid = scene.cluster.uid_of(pod)
    scene.cluster.make_budget("db", 2)
    eventually(lambda: scene.cluster.allowed("db") == 0)
    with evictor(scene.url, scene.names, *flags(scene, "--apply")) as (_, page):
        scene.propose(uid)
        eventually(lambda: counted(page, "windward_evictor_declined_total", reason="budget") == 1)
        scene.cluster.make_budget("db", 1, name="db-too")
        eventually(lambda: scene.cluster.allowed("db-too") == 1)
        scene.propose(uid)
        eventually(lambda: counted(page, "windward_evictor_declined_total", reason="budget") == 2)
        assert scene.nodes("db") == ["n0", "n0"]
        assert scene.held("db") == 0
        scene.cluster.delete_budget("db")
        scene.propose(uid)
        eventually(lambda: counted(page, "windward_evictor_replaced_total", where="target") == 1)
        assert scene.nodes("db") == ["n0", "n3"]
        settle(scene.ledger, scene.cluster)


def test_another_pod_of_the_name_is_not_evicted(scene):
    """The pod that was meant is gone, which its ledger has not heard; nor is one that changes at the last moment."""
    scene.cluster.make_owned("db-0", "db", SPEC | {"nodeName": "n0"})
    uid = scene.cluster.uid_of("db-0")
    settle(scene.ledger, scene.cluster)
    scene.followed.kill()
    scene.cluster.delete_pod("db-0")
    scene.cluster.make_owned("db-0", "db", SPEC | {"nodeName": "n0"})
    with evictor(scene.url, scene.names, *flags(scene, "--apply")) as (_, page):
        scene.propose(uid)
        eventually(lambda: counted(page, "windward_evictor_declined_total", reason="gone") == 1)
    authority, token = scene.cluster.flags_of("windward-evictor")[3::2]
    tls = ssl.create_default_context(cafile=authority)
    api = ApiServer(host=LOOPBACK, port=scene.cluster.port, tls=tls, token_file=Path(token))
    now = api.pod("default", "db-0")
    before = msgspec.structs.replace(now, metadata=msgspec.structs.replace(now.metadata, uid=uid))
    assert api.evict(before, dry_run=False).status == http.client.CONFLICT
    assert not scene.cluster.is_ending("db-0")
    api._own.calls.close()
