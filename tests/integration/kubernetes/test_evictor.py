"""The evictor as a process: proposals of pods become evictions, and their targets are held for the replacements."""

import time
from dataclasses import dataclass

import pytest
import redis

from schemas.messages.proposal import MoveProposal, write_proposal
from schemas.names import Names
from schemas.rpc.request import read_request
from scorer.client import Client
from scorer.kubernetes.evictor.evictor import LEAD_S
from scorer.kubernetes.pods_request import hold_id
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.wire import Wire
from tests.integration.observe.test_exporter import get, samples
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.kube_api import KubeApi, kube_api
from tests.support.pages import eventually, process_with_pages
from tests.window_tables import publish, window_table

OWNED = [{"kind": "StatefulSet", "name": "db", "controller": True}]
KIND = "shop/db"
HOLD = hold_id("east", KIND)
LABELS = {"kubernetes": "east", "namespace": "shop"}


def evictor(url, names, api_url, *flags):
    of_cluster = ("--kubernetes", "east", "--api-url", api_url, "--every", "100ms")
    return process_with_pages("evictor", url, "--prefix", names.prefix, *of_cluster, *flags)


@dataclass
class Scene:
    """Four nodes, pods on the first, and a scorer."""

    url: str
    names: Names
    api: KubeApi
    client: Client
    server: redis.Redis

    def run(self, uid, node="n0", **labels):
        """Have a pod of the StatefulSet ``db`` run on a node, as `windward pods` would."""
        self.api.put(uid, node, ownerReferences=OWNED)
        labels = LABELS | {"pod": f"pod-{uid}"} | labels
        request = read_request({"id": uid, "cpu": 1, "memory": "1Gi", "kind": KIND, "labels": labels})
        wire = Wire({"url": self.url})
        Ledger(wire, self.names).correct([instance_of(request, node, 0.0)], cluster=labels["kubernetes"])
        wire.close()
        eventually(lambda: self.client.instances(id=uid).instances)

    def propose(self, uid, target="n3", source="n0"):
        """Propose to move it, as the planner does."""
        now_s = time.time()
        row = self.client.instances(id=uid).instances[0]
        move = MoveProposal(
            id=f"1-{uid}", fence=1, at=now_s, expires_at=now_s + 600, instance=uid, generation=row.generation,
            source=source, target=target, gain=0.1,
        )  # fmt: skip
        self.server.lpush(self.names.moves_waiting, write_proposal(move))

    def held(self):
        return [row.machine for row in self.client.instances(id=HOLD, state="reserved").instances]

    def lists(self):
        """Return how many proposals wait, and how many are taken."""
        return self.server.llen(self.names.moves_waiting), self.server.llen(self.names.moves_taken)

    def dry_runs(self):
        """Return of each eviction whether it was a dry run."""
        return [one["deleteOptions"].get("dryRun") == ["All"] for one in self.api.evictions]


@pytest.fixture
def scene(valkey, names):
    publish(valkey.url, names, [window_table(["n0", "n1", "n2", "n3"], at=time.time() + 300)])
    with (
        kube_api() as api, scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=20) as client,
        redis.Redis.from_url(valkey.url) as server,
    ):  # fmt: skip
        eventually(lambda: client.health()["ready"])
        yield Scene(valkey.url, names, api, client, server)


def counted(page, metric, **labels):
    (found,) = (value for given, value in samples(get(f"{page}/metrics")[2])[metric] if labels.items() <= given.items())
    return found


def test_a_proposed_move_is_an_eviction(scene):
    """Of that very pod, after a dry run; the target is held until the replacement runs, wherever it came."""
    with evictor(scene.url, scene.names, scene.api.url, "--apply") as (_, page):
        for number, (node, where) in enumerate((("n3", "target"), ("n1", "elsewhere"))):
            scene.api.evictions.clear()
            scene.run(f"old{number}")
            scene.propose(f"old{number}")
            eventually(lambda: scene.dry_runs() == [True, False])
            asked = scene.api.evictions[1]["deleteOptions"]
            assert asked == {"preconditions": {"uid": f"old{number}"}}
            (held,) = eventually(lambda: scene.client.instances(id=HOLD, state="reserved").instances)
            assert held.machine == "n3"
            assert scene.api.evicted_at[-1] - held.reserved_at > 0.9 * LEAD_S  # every extender has seen it by then
            assert scene.lists() == (0, 1)
            scene.client.release(f"old{number}")
            scene.run(f"new{number}", node)
            eventually(lambda: scene.lists() == (0, 0))
            assert scene.held() == []
            assert counted(page, "windward_evictor_replaced_total", where=where) == 1
        assert counted(page, "windward_evictor_evicted_total") == 2
        assert get(f"{page}/ready")[0] == 200


def test_a_replacement_that_never_comes_ends_the_hold(scene):
    scene.run("a")
    scene.run("b")
    with evictor(scene.url, scene.names, scene.api.url, "--apply", "--hold", "5s") as (_, page):
        scene.propose("a")
        scene.propose("b")
        eventually(lambda: counted(page, "windward_evictor_waiting", reason="kind") == 1)
        assert scene.dry_runs() == [True, False]
        eventually(lambda: counted(page, "windward_evictor_replaced_total", where="unseen") == 1)
        eventually(lambda: counted(page, "windward_evictor_evicted_total") == 2)


def test_without_apply_nothing_changes(scene):
    """The API server is asked whether it would; the proposal is left to others, and nothing is reserved."""
    scene.run("a")
    scene.propose("a")
    with evictor(scene.url, scene.names, scene.api.url) as (_, page):
        eventually(lambda: counted(page, "windward_evictor_dry_runs_total") == 1)
        assert (scene.dry_runs(), scene.lists(), scene.held()) == ([True], (1, 0), [])


def test_a_disruption_budget_is_kept(scene):
    """The proposal is declined, and its kind rests; nothing is reserved."""
    scene.run("a")
    scene.run("b")
    scene.api.refuses_evictions = 429
    with evictor(scene.url, scene.names, scene.api.url, "--apply") as (_, page):
        scene.propose("a")
        eventually(lambda: counted(page, "windward_evictor_declined_total", reason="budget") == 1)
        scene.propose("b")
        eventually(lambda: counted(page, "windward_evictor_waiting", reason="backoff") == 1)
        assert (scene.dry_runs(), scene.lists(), scene.held()) == ([True], (1, 0), [])


def test_what_cannot_be_evicted_is_declined(scene):
    """A pod of a DaemonSet, and one whose target is full; what is no pod of this cluster waits for another program."""
    scene.run("a")
    scene.api.put("a", "n0", ownerReferences=[{"kind": "DaemonSet", "name": "d", "controller": True}])
    scene.run("b")
    scene.run("c", kubernetes="west")
    while scene.client.place(machine="n3", cpu=1, memory="1Gi").machine:
        """Fill the target."""
    with evictor(scene.url, scene.names, scene.api.url, "--apply") as (_, page):
        for uid in "abc":
            scene.propose(uid)
        for reason in ("node", "room"):
            eventually(lambda reason=reason: counted(page, "windward_evictor_declined_total", reason=reason) == 1)
        assert (scene.dry_runs(), scene.lists(), scene.held()) == ([True], (1, 0), [])


def test_an_api_server_that_is_away_changes_nothing(scene):
    scene.run("a")
    scene.propose("a")
    scene.api.away = True
    with evictor(scene.url, scene.names, scene.api.url, "--apply") as (_, page):
        eventually(lambda: get(f"{page}/ready")[0] == 503)
        assert scene.lists() == (1, 0)
        scene.api.away = False
        eventually(lambda: scene.dry_runs() == [True, False])
        eventually(lambda: get(f"{page}/ready")[0] == 200)
