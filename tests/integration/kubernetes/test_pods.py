"""The pods of a cluster in the ledger: after whatever happens, it has what the API server has."""

import os
import signal
import threading

import msgspec
import pytest
import redis

from ops.stack.servers.process import LOOPBACK
from schemas.messages.process import read_processes
from scorer.kubernetes.pods.watcher import Metrics, NodeFacts, PodsWatcher
from scorer.kubernetes.pods_api import ApiServer
from scorer.kubernetes.pods_request import Reading
from scorer.ledger.record.instance import Instance
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.live.loader import Loader
from scorer.wire import Wire
from tests.integration.ledger.test_ledger import amounts_of
from tests.integration.observe.test_exporter import get, samples
from tests.support.kube_api import kube_api
from tests.support.pages import eventually, process_with_pages

STARTED_S = 1767225600.0
LEASE_S = 1.0


@pytest.fixture
def api():
    with kube_api() as made:
        yield made


class Follower(threading.Thread):
    """A process that follows the pods, as a thread."""

    def __init__(self, server, valkey, names, name="one"):
        super().__init__(daemon=True)
        self.wire, self.metrics = Wire({"url": valkey.url}), Metrics()
        self.nodes = NodeFacts(Wire({"url": valkey.url}), names, "east", self.metrics)
        lease = Lease(Ledger(self.wire, names), "pods east", name, LEASE_S)
        self.watcher = PodsWatcher(lease, server, Reading("east"), self.metrics, self.nodes)
        self.stopping, self.turns = threading.Event(), 0

    def run(self):
        while not self.stopping.wait(self.watcher.turn(self.stopping)):
            self.turns += 1

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join(20)
        assert not self.is_alive()
        self.watcher.stop()
        self.wire.close()
        self.nodes.close()


class Scene:
    """An API server, a ledger, and those who follow."""

    def __init__(self, api, valkey, names, wire):
        self.api, self._valkey, self._names, self.ledger = api, valkey, names, Ledger(wire, names)

    def follower(self, name="one", silent_s=30.0):
        """Make one, which runs in a block and gives its lease up at its end."""
        server = ApiServer(host=LOOPBACK, port=self.api.server_port, silent_s=silent_s)
        return Follower(server, self._valkey, self._names, name)

    def ours(self):
        """Return machine and cores of the cluster's instances, by id."""
        return {
            one.id: (one.machine, one.amounts[0] or 0.0)
            for one in self.ledger.all_instances().values()
            if one.labels.get("kubernetes") == "east" and one.state == "confirmed"
        }

    def settled(self):
        """Wait until the ledger has what the API server has; its sums are those of its instances."""
        eventually(lambda: self.ours() == self.api.running(), 20)
        assert Check(self.ledger).run().differences == []
        return True

    def watched(self, times=1):
        eventually(lambda: self.api.watching == times, 20)


@pytest.fixture
def scene(api, valkey, names, wire):
    return Scene(api, valkey, names, wire)


def test_the_ledger_follows_the_pods(scene):
    """Bound, resized, ended, deleted; one that is being deleted still runs; what is not of the cluster stays."""
    other = Instance(id="db", machine="n1", state="confirmed", amounts=amounts_of(2.0), labels={"kubernetes": "west"})
    scene.ledger.correct([other, msgspec.structs.replace(other, id="own", labels={})])
    scene.api.put("before", "n1")
    scene.api.put("waits", "")
    with scene.follower() as follower:
        scene.watched()
        assert scene.settled()
        assert scene.ledger.live(["before"])["before"].started_at == STARTED_S
        scene.api.put("waits", "n2")
        for number in range(20):
            scene.api.put(f"p{number}", f"n{number % 3}")
        assert scene.settled()
        scene.api.put("p0", "n0", cpu="3")
        scene.api.put("p1", "n1", phase="Succeeded")
        scene.api.put("p2", "n2", deletionTimestamp="2026-01-01T00:00:00Z")
        scene.api.delete("p3")
        assert scene.settled()
        assert {"p0", "p2"} <= scene.ours().keys()
        assert {"db", "own"} <= scene.ledger.all_instances().keys()
        assert (scene.api.lists, follower.value("windward_pods_lists_total", result="done")) == (1, 1.0)
        changes = {what: follower.value("windward_pods_changes_total", change=what) for what in
                   ("confirmed", "corrected", "released")}  # fmt: skip
        assert changes == {"confirmed": 22.0, "corrected": 1.0, "released": 2.0}


def test_a_pod_that_cannot_be_counted_is_told(scene, caplog):
    """It keeps no other from the ledger, and is no longer told when it is gone."""
    scene.api.put("huge", cpu="9000000000")
    scene.api.put("p")
    with scene.follower() as follower:
        eventually(lambda: scene.ours().keys() == {"p"})
        assert eventually(lambda: follower.value("windward_pods_refused") == 1.0)
        scene.api.delete("huge")
        assert eventually(lambda: follower.value("windward_pods_refused") == 0.0)
    assert "pods.refused" in caplog.messages


def test_what_happened_while_away_is_made_up_for(scene):
    """50 are gone and 50 others on other nodes, more pods than a page; one is resized; the last one is of no list."""
    for number in range(600):
        scene.api.put(f"p{number}", f"n{number % 7}")
    with scene.follower():
        assert scene.settled()
    for number in range(50):
        scene.api.delete(f"p{number}")
        scene.api.put(f"q{number}", f"n{number % 5 + 1}")
    scene.api.put("p100", "n2", cpu="4")
    with scene.follower():
        assert scene.settled()
        scene.watched()
    assert len(scene.ours()) == 600


def cut(api):
    api.cut()


def too_old(api):
    """Answer the next watch that its version is too old."""
    api.forget()


def too_old_as_event(api):
    api.gone_as_status = False
    api.forget()


def falls_silent(api):
    """Keep the connection open and say nothing."""
    api.deaf = True


@pytest.mark.parametrize(("trouble", "lists"), [(cut, 1), (too_old, 2), (too_old_as_event, 2), (falls_silent, 2)])
def test_what_changes_while_no_watch_works_is_not_lost(scene, monkeypatch, trouble, lists):
    """A watch that is cut between two events goes on from its version; after any other end all pods are listed."""
    monkeypatch.setattr("scorer.kubernetes.pods_api.WATCH_S", 1)
    for number in range(10):
        scene.api.put(f"p{number}")
    with scene.follower(silent_s=0.2) as follower:
        scene.watched()
        assert scene.settled()
        trouble(scene.api)
        scene.api.delete("p0")
        scene.api.put("new", "n9")
        assert scene.settled()
        scene.api.deaf = False
        scene.api.put("newer", "n9")
        assert scene.settled()
        assert (follower.value("windward_pods_lists_total", result="done") or 0) >= lists


def test_while_the_api_server_is_away_nothing_is_released(scene):
    """Why is said; when it is back the ledger has what it has."""
    scene.api.put("p")
    with scene.follower() as follower:
        scene.watched()
        assert scene.settled()
        scene.api.away = True
        scene.api.cut()
        assert eventually(lambda: "503" in follower.watcher.trouble)
        assert scene.ours().keys() == {"p"}
        assert follower.value("windward_pods_up") == 0.0
        scene.api.delete("p")
        scene.api.put("q")
        scene.api.away = False
        assert scene.settled()
        assert eventually(lambda: not follower.watcher.trouble)


def test_an_answer_that_is_no_list_ends_no_pod(scene):
    """Not one, whatever it is; one that is a list, and lacks most of the pods, is asked for once more."""
    for number in range(700):
        scene.api.put(f"p{number}")
    with scene.follower():
        assert scene.settled()
        scene.watched()
    empty = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
    others = [{}, {"status": "ok"}, {"kind": "Status", "apiVersion": "v1", "code": 200}, empty | {"items": None}]
    for answers in [*([one] for one in others), [scene.api.page("", 500), {}], [empty]]:
        scene.api.answers = list(answers)
        change = scene.ledger.wire.one("HGET", scene.ledger.head, "change")
        with scene.follower() as follower:
            eventually(lambda: follower.watcher.watches)
            assert not scene.api.answers
        assert scene.ledger.wire.one("HGET", scene.ledger.head, "change") == change, answers
    now = empty | {"metadata": {"resourceVersion": str(scene.api.version)}}  # the watch then tells no pod again
    scene.api.answers = [now, now]
    with scene.follower() as follower:
        eventually(lambda: follower.watcher.watches)
        assert scene.ours() == {}


def test_a_list_that_lacks_most_nodes_is_asked_for_once_more(scene, valkey, names):
    for number in range(30):
        scene.api.put_node(f"n{number}")
    with redis.Redis.from_url(valkey.url) as server:
        with scene.follower():
            scene.watched()
            eventually(lambda: server.hlen(names.nodes) == 30)
        lists, whole = list[int](), scene.api.page_of_nodes

        def short_once():
            lists.append(server.hlen(names.nodes))
            return whole() | ({"items": []} if len(lists) == 1 else {})

        scene.api.page_of_nodes = short_once
        with scene.follower() as follower:
            eventually(lambda: follower.watcher.watches)
            assert (lists, server.hlen(names.nodes)) == ([30, 30], 30)
        scene.api.nodes.clear()
        with scene.follower() as follower:
            eventually(lambda: follower.watcher.watches)
            assert (len(lists), server.hlen(names.nodes)) == (4, 0)


def test_what_no_pod_is_stays_whatever_a_pod_says(scene):
    """A pod's hash, and a uid that a deployer has, take nothing: the script looks at who wrote each."""
    victim = Instance(id="victim", machine="n1", state="confirmed", amounts=amounts_of(40.0))
    scene.ledger.correct([victim])
    notes = {"kubernetes.io/config.hash": "victim", "kubernetes.io/config.mirror": "victim"}
    scene.api.put("x", "n1", annotations=notes, ownerReferences=[{"kind": "Node", "name": "n1", "controller": True}])
    scene.api.put("victim", "n2")
    with scene.follower():
        eventually(lambda: scene.ours().keys() == {"x", "pod:victim"})
        scene.api.delete("x")
        scene.api.delete("victim")
        eventually(lambda: scene.ours() == {})
    ledger = scene.ledger
    (held,) = ledger.live(["victim"]).values()
    assert (held.state, held.machine, held.amounts) == ("confirmed", "n1", amounts_of(40.0))
    kinds = [one.kind for one in ledger.correct([victim], ["victim", "none"], cluster="east").outcomes]
    assert kinds == ["other", "other", "unknown"]


def test_an_emptied_ledger_is_filled_again(scene, wire, names):
    for number in range(5):
        scene.api.put(f"p{number}")
    with scene.follower():
        scene.watched()
        assert scene.settled()
        wire.one("DEL", *wire.one("KEYS", names.ledger("*")))
        assert scene.settled()


@pytest.mark.parametrize("knows", [True, False])
def test_a_leader_that_wakes_changes_nothing(scene, knows):
    """Its list is of before: another has taken the lease, and the ledger has what came since."""
    for number in range(700):
        scene.api.put(f"p{number}")
    scene.api.lists_held.clear()
    with scene.follower("frozen") as frozen:
        if not knows:
            frozen.watcher._renew_s = 1e9  # it does not look: the ledger alone can refuse
        eventually(lambda: len(scene.ours()) == 500)
        eventually(lambda: frozen.watcher.leads)
        for number in range(600):
            scene.api.delete(f"p{number}")
        scene.api.put("p650", "n5", cpu="7")
        with scene.follower("other") as other:
            eventually(lambda: other.watcher.watches)
            assert scene.settled()
            change = scene.ledger.wire.one("HGET", scene.ledger.head, "change")
            scene.api.lists_held.set()
            eventually(lambda: frozen.turns >= 1)
            assert scene.ledger.wire.one("HGET", scene.ledger.head, "change") == change
            assert scene.settled()
            assert other.watcher.leads


def pods_process(url, names, *flags):
    of_cluster = ("--kubernetes", "east", "--lease-s", "1")
    return process_with_pages("pods", url, "--prefix", names.prefix, *of_cluster, *flags)


def test_the_command(scene, valkey, names, server, tmp_path):
    """It sends its token, writes heartbeats, serves its pages; one that is killed or frozen is taken over from."""
    token = tmp_path / "token"
    token.write_text("of-this-test\n")
    scene.api.put("p")
    with pods_process(valkey.url, names, "--api-url", scene.api.url, "--token-file", str(token)) as (process, page):
        assert scene.settled()
        assert scene.api.tokens == {"Bearer of-this-test"}
        assert eventually(lambda: get(f"{page}/ready")[0] == 200)
        assert ({}, 1.0) in samples(get(f"{page}/metrics")[2])["windward_pods_leads"]
        fields = eventually(lambda: server.hgetall(names.processes("pods")))
        (said,) = read_processes(fields).values()
        assert (said.pid, said.details["cluster"]) == (process.pid, "east")
        os.kill(process.pid, signal.SIGSTOP)
        with scene.follower() as other:
            assert eventually(lambda: other.watcher.watches)
            scene.api.delete("p")
            scene.api.put("q", "n2")
            assert scene.settled()
            os.kill(process.pid, signal.SIGCONT)
            assert eventually(lambda: "pods.overtaken" in process.log.read_text() or
                              "leads=false" in process.log.read_text())  # fmt: skip
            assert scene.settled()
        process.stop()
        assert not server.exists(names.processes("pods"))
        assert "pods.stop" in process.log.read_text()


def test_a_cluster_says_what_its_nodes_are(scene, valkey, names):
    """Below operators' rules, from the list and from events; entries of others stay; gone nodes go."""
    other = msgspec.json.encode({"labels": {"kubernetes": "west"}})
    with redis.Redis.from_url(valkey.url) as server:
        server.hset(names.nodes, mapping={"w1": other, "gone": msgspec.json.encode({"labels": {"kubernetes": "east"}})})
        server.hset(names.operator, "n1", msgspec.json.encode({"labels": {"zone": "b"}, "capacity": {"cpu": 6}}))
        scene.api.put_node("n1", taints=[{"key": "gpu", "effect": "NoSchedule"}])
        scene.api.put_node("n2", allocatable="8")
        loader = Loader(Wire({"url": valkey.url}), names)

        def rules(name):
            snapshot = loader.refresh() or seen[0]
            seen[0] = snapshot
            if name not in snapshot.roster.index:
                return ()
            row, said = snapshot.roster.index[name], snapshot.rules
            taints = [taint.key for taint in said.taint_sets[said.taint_codes[row]]]
            capacity, reserve = said.capacity_operator[0, row], said.reserve[0, row]
            return said.labels(row), taints, bool(said.cordon[row]), capacity, reserve

        seen = [None]
        with scene.follower():
            scene.watched()
            eventually(lambda: rules("n1") == ({"zone": "b", "kubernetes": "east"}, ["gpu"], False, 6.0, 0.5))
            eventually(lambda: rules("n2") == ({"zone": "a", "kubernetes": "east"}, [], False, 8.0, 0.0))
            assert server.hget(names.nodes, "w1") == other
            assert not server.hexists(names.nodes, "gone")
            scene.api.put_node(
                "n2", unschedulable=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
            )
            eventually(lambda: rules("n2")[1:3] == ([], True))
            version = server.get(names.operator_version)
            scene.api.put_node("n2", unschedulable=True)  # says the same
            scene.api.put_node("n3")
            eventually(lambda: rules("n3") != ())
            assert int(server.get(names.operator_version) or 0) == int(version or 0) + 1
            scene.api.delete_node("n3")
            eventually(lambda: not server.hexists(names.nodes, "n3"))


def test_a_server_without_rights_for_nodes_keeps_no_pod_back(scene, valkey, names):
    """The facts are tried again; the ledger has the pods."""
    with redis.Redis.from_url(valkey.url) as server, scene.follower() as follower:
        scene.watched()
        server.set(names.nodes, "no hash")
        scene.api.put_node("n1")
        scene.api.put("a")
        assert scene.settled()
        eventually(lambda: (follower.value("windward_pods_nodes_failures_total") or 0) >= 1)
        server.delete(names.nodes)
        eventually(lambda: server.hexists(names.nodes, "n1"))


def test_a_process_that_is_to_end_does_not_finish_its_list(scene):
    """It ends at the next page, and another takes over at once."""
    for number in range(1200):
        scene.api.put(f"p{number}")
    scene.api.lists_held.clear()
    with scene.follower() as follower:
        eventually(lambda: len(scene.ours()) == 500)
        follower.stopping.set()
        scene.api.lists_held.set()
        follower.join(10)
        assert not follower.is_alive()
        assert len(scene.ours()) == 500
    with scene.follower("two"):
        assert scene.settled()
