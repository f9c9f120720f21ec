"""Two extenders side by side, behind one address: limits hold, a burst is spread, and a scheduler is known by its name.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from ops.stack.servers.process import LocalProcess
from schemas.names import Names
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.extender_process import extender
from tests.integration.test_exporter import get
from tests.integration.test_extender import certificates
from tests.integration.test_rpc import eventually
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import CORES, MANIFESTS, MEMORY_GIB, agents, follower, in_ledger, value
from tests.kubernetes.service import Service
from tests.kubernetes.test_extender import REQUESTS, entry
from tests.kubernetes.test_trimaran import BINARY

pytestmark = test_trimaran.pytestmark

Extenders = list[tuple[LocalProcess, str]]


@contextmanager
def two(url: str, names: Names, *flags: str) -> Iterator[tuple[Service, Extenders]]:
    """Run two; yields their common address, and each process with the address of its pages."""
    with extender(url, names, *flags) as first, extender(url, names, *flags) as second:
        both = [(process, page) for process, _, page in (first, second)]
        for _, page in both:
            eventually(lambda page=page: get(f"{page}/ready")[0] == 200)
        with Service([first[1], second[1]]) as service:
            yield service, both


@contextmanager
def cluster_of(nodes: list[str], folder: Path) -> Iterator[Cluster]:
    """Run a cluster of nodes that are alike, with the account of the extender."""
    with Cluster(BINARY, folder) as cluster:
        for node in nodes:
            cluster.make_node(node, cpu=str(CORES), memory=f"{MEMORY_GIB}Gi", labels={})
        cluster.apply(*(MANIFESTS / name for name in ("pods.yaml", "extender-bind/rights.yaml")))
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        yield cluster


def test_twenty_places_are_twenty(tmp_path: Path, valkey: Valkey, names: Names, server: redis.Redis) -> None:
    """Of 30 pods exactly 20 are bound, of which the ledger has each; one extender is killed among them."""
    nodes = [f"n{number}" for number in range(10)]
    rules = {"share": {"cpu": 0.125}, "thresholds": {"cpu": 1.0}}  # two of 16 cores: less than Kubernetes would give
    server.hset(names.operator, "*", json.dumps(rules))
    ledger = Ledger(Wire({"url": valkey.url}), names)
    verbs = {"filterVerb": "filter", "bindVerb": "bind", "ignorable": False, "httpTimeout": "5s"}
    with cluster_of(nodes, tmp_path) as cluster, agents(valkey.url, names, lambda: dict.fromkeys(nodes, 0.0)):
        account = cluster.flags_of("windward-extender")
        with two(valkey.url, names, "--mode", "bind", *account) as (service, both):
            cluster.schedule([{"schedulerName": "windward"}], [entry(service.port, **verbs)], name="second")
            for number in range(30):
                cluster.make_pod(f"p{number}", {"cpu": "1", "memory": "64Mi"}, {}, schedulerName="windward")
                if number == 10:
                    both[0][0].kill()
            eventually(lambda: len(cluster.running()) == 20)
            eventually(lambda: sum("cpu too full" in said for said in cluster.waiting().values()) == 10)
            assert len(cluster.running()) == 20
            assert in_ledger(ledger).keys() == cluster.running().keys()
            assert Counter(node for node, _ in cluster.running().values()) == dict.fromkeys(nodes, 2)
            assert value(both[1][1], "windward_extender_answers_total", verb="bind", result="answered") > 0
    ledger.wire.close()


def test_a_burst_is_spread(tmp_path: Path, valkey: Valkey, names: Names) -> None:
    """300 pods go to 150 of 200 nodes that are alike, or more; no node has more than six."""
    nodes = [f"n{number}" for number in range(200)]
    load = {node: 0.2 + 0.001 * (place % 20) for place, node in enumerate(nodes)}
    with cluster_of(nodes, tmp_path) as cluster, agents(valkey.url, names, lambda: load):
        follows = follower(valkey.url, names, cluster.flags_of("windward-pods"))
        with follows, two(valkey.url, names) as (service, _):
            cluster.schedule([{"schedulerName": "windward"}], [entry(service.port)], name="second")
            for number in range(300):
                cluster.make_pod(f"p{number}", REQUESTS, {}, schedulerName="windward")
            eventually(lambda: len(cluster.running()) == 300)
        placed = Counter(node for node, _ in cluster.running().values())
        assert len(placed) >= 150
        assert max(placed.values()) <= 6


@pytest.mark.parametrize("name", ["scheduler", "other"])
def test_a_scheduler_is_known_by_its_certificate(name: str, tmp_path: Path, valkey: Valkey, names: Names) -> None:
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
