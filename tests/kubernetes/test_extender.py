"""A second scheduler, as it is published, with extenders: pods go by load, limits hold, and no kill blocks a pod.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from ops.stack.servers.process import LOOPBACK
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.integration.kubernetes.test_extender import certificates
from tests.integration.kubernetes.test_pods import pods_process
from tests.integration.observe.test_exporter import get
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import MANIFESTS, REQUESTS, SETTLED_S, agents, entry, make_nodes, value
from tests.kubernetes.service import Service
from tests.kubernetes.test_trimaran import BINARY
from tests.support.extender_process import ask, extender
from tests.support.pages import eventually

pytestmark = test_trimaran.pytestmark

ROOM = 5
"""The number of pods of three cores that a node of 16 takes."""


@contextmanager
def two(url, names, *flags):
    """Run two; yields their common address, and each process with the address of its pages."""
    with extender(url, names, *flags) as first, extender(url, names, *flags) as second:
        both = [(process, page) for process, _, page in (first, second)]
        for _, page in both:
            eventually(lambda page=page: get(f"{page}/ready")[0] == 200)
        with Service([first[1], second[1]]) as service:
            yield service, both


@contextmanager
def cluster_of(nodes, folder):
    """Run a cluster of nodes that are alike, with the account of the extender."""
    with Cluster(BINARY, folder) as cluster:
        make_nodes(cluster, nodes)
        cluster.apply(*(MANIFESTS / name for name in ("pods.yaml", "extender-bind/rights.yaml")))
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        yield cluster


def test_pods_go_by_load_and_none_is_blocked(tmp_path, valkey, names):
    """All of 25 to nodes that are idle, no node with most of them; the extender is killed, and 25 more are placed.

    By mode filter: that the scores of an extender which is away are missing blocks no pod in any case.
    """
    idle = [f"idle{number}" for number in range(5)]
    load = dict.fromkeys(idle, 0.05) | {f"busy{number}": 0.75 for number in range(5)}
    with (
        cluster_of(list(load), tmp_path) as cluster, agents(valkey.url, names, lambda: load),
        extender(valkey.url, names, "--mode", "filter") as (process, port, page),
    ):  # fmt: skip
        eventually(lambda: get(f"{page}/ready")[0] == 200)
        cluster.schedule([{"schedulerName": "windward"}], [entry(port, "filter")], name="second")
        for number in range(25):
            cluster.make_pod(f"p{number}", REQUESTS, {}, schedulerName="windward")
        placed = Counter(cluster.node_of(f"p{number}") for number in range(25))
        assert placed.keys() <= set(idle), placed
        assert max(placed.values()) <= 10, placed
        for number in range(25, 50):
            cluster.make_pod(f"p{number}", REQUESTS, {}, schedulerName="windward")
            if number == 30:
                process.kill()
        assert all(cluster.node_of(f"p{number}") in load for number in range(25, 50))


def test_twenty_places_are_twenty(tmp_path, valkey, names, server):
    """Of 30 pods exactly 20 are bound, of which the ledger has each; one extender is killed among them."""
    nodes = [f"n{number}" for number in range(10)]
    rules = {"share": {"cpu": 0.125}, "thresholds": {"cpu": 1.0}}  # two of 16 cores: less than Kubernetes would give
    server.hset(names.operator, "*", json.dumps(rules))
    ledger = Ledger(Wire({"url": valkey.url}), names)
    with cluster_of(nodes, tmp_path) as cluster, agents(valkey.url, names, lambda: dict.fromkeys(nodes, 0.0)):
        account = cluster.flags_of("windward-extender")
        with two(valkey.url, names, "--mode", "bind", *account) as (service, both):
            cluster.schedule([{"schedulerName": "windward"}], [entry(service.port, "bind")], name="second")
            for number in range(30):
                cluster.make_pod(f"p{number}", {"cpu": "1", "memory": "64Mi"}, {}, schedulerName="windward")
                if number == 10:
                    both[0][0].kill()
            eventually(lambda: len(cluster.running()) == 20)
            eventually(lambda: sum("too much cpu promised" in said for said in cluster.waiting().values()) == 10)
            assert len(cluster.running()) == 20
            held = {one.id: one.machine for one in ledger.all_instances().values()}
            assert held == {uid: node for uid, (node, _) in cluster.running().items()}
            assert Counter(node for node, _ in cluster.running().values()) == dict.fromkeys(nodes, 2)
            assert value(both[1][1], "windward_extender_answers_total", verb="bind", result="answered") > 0
    ledger.wire.close()


def test_several_tries_to_bind_a_pod_keep_every_limit(tmp_path, valkey, names):
    """Of each pod three at once, on other nodes, at two extenders; answers are cut off, one extender is killed.

    `windward pods` runs beside them. No node ever runs more than its room, and the ledger has what runs.
    """
    nodes, ledger = [f"n{number}" for number in range(4)], Ledger(Wire({"url": valkey.url}), names)
    with ExitStack() as parts:
        cluster = parts.enter_context(cluster_of(nodes, tmp_path))
        parts.callback(ledger.wire.close)
        parts.enter_context(agents(valkey.url, names, lambda: dict.fromkeys(nodes, 0.0)))
        parts.enter_context(pods_process(valkey.url, names, *cluster.flags_of("windward-pods")))
        api = parts.enter_context(Service([cluster.port]))
        flags = [*cluster.flags_of("windward-extender"), "--api-url", f"https://{LOOPBACK}:{api.port}"]
        both = [parts.enter_context(extender(valkey.url, names, "--mode", "bind", *flags)) for _ in range(2)]
        for _, _, page in both:
            eventually(lambda page=page: get(f"{page}/ready")[0] == 200)
        for number in range(40):
            cluster.make_pod(f"p{number}", {"cpu": "3"}, {}, schedulerName="nobody")
        uids = [cluster.uid_of(f"p{number}") for number in range(40)]

        def most():
            return max(Counter(node for node, _ in cluster.running().values()).values(), default=0)

        def bind(at, number, node):
            about = {"PodName": f"p{number}", "PodNamespace": "default", "PodUID": uids[number], "Node": node}
            with suppress(OSError, http.client.HTTPException):
                ask(both[at % 2][1], "bind", about)
            if (number + at) % 10 == 5:
                api.cut()
            assert most() <= ROOM

        pool = parts.enter_context(ThreadPoolExecutor(6))
        tries = [(at, number, nodes[(number + at) % 4]) for number in range(40) for at in range(3)]
        first, second = tries[:60], tries[60:]
        list(pool.map(lambda each: bind(*each), first))
        both[0][0].kill()
        list(pool.map(lambda each: bind(*each), second))

        def followed():
            held = {one.id: (one.machine, one.state) for one in ledger.all_instances().values()}
            running = {uid: (node, "confirmed") for uid, (node, _) in cluster.running().items()}
            return running == {uid: where for uid, where in held.items() if where[1] == "confirmed"}

        eventually(followed, SETTLED_S)
        assert Check(ledger).run().differences == []
        assert most() <= ROOM < len(cluster.running())


@pytest.mark.parametrize("name", ["scheduler", "other"])
def test_a_scheduler_is_known_by_its_certificate(name, tmp_path, valkey, names):
    """By the entry of the documentation; one of another name places its pods without the extender."""
    folder = certificates(tmp_path, ["server", "scheduler", "other"])
    load = {f"n{number}": 0.1 * number for number in range(8)}
    files = [("--listen-tls-cert-file", "server.crt"), ("--listen-tls-key-file", "server.key")]
    files += [("--listen-client-ca-file", "ca.crt")]
    flags = [part for flag, file in files for part in (flag, str(folder / file))]
    with (
        cluster_of(list(load), tmp_path) as cluster, agents(valkey.url, names, lambda: load),
        two(valkey.url, names, *flags, "--client-names", "scheduler") as (service, both),
    ):  # fmt: skip
        tls = {part: str(folder / f"{name}.{end}") for part, end in (("certFile", "crt"), ("keyFile", "key"))}
        tls["caFile"] = str(folder / "ca.crt")
        encrypted = entry(service.port) | {"urlPrefix": f"https://127.0.0.1:{service.port}"}
        encrypted |= {"enableHTTPS": True, "tlsConfig": tls}
        cluster.schedule([{"schedulerName": "windward"}], [encrypted], name="second")
        for number in range(4):
            cluster.make_pod(f"p{number}", REQUESTS, {}, schedulerName="windward")
        placed = {cluster.node_of(f"p{number}") for number in range(4)}
        answered = sum(value(page, "windward_extender_answers_total", result="answered") for _, page in both)
        assert (answered > 0) is (name == "scheduler")
        assert name == "other" or placed <= {"n0", "n1"}
