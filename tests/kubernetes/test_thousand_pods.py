"""A thousand pods by each mode, while processes are killed and Redis is frozen: none is lost, and none is doubled.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not. Each prints how
long a pod took, beside a scheduler without an extender.
"""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from ops.stack.servers.local import LocalValkey
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.integration.kubernetes.test_pods import pods_process
from tests.integration.observe.test_exporter import get
from tests.kubernetes import processes, test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.service import Service
from tests.kubernetes.test_trimaran import BINARY
from tests.support.extender_process import extender
from tests.support.pages import eventually

pytestmark = [*test_trimaran.pytestmark, pytest.mark.timeout(900)]

NODES = [f"n{number}" for number in range(200)]
PODS = 1_000
FROZEN_S = 3.0


@dataclass
class Scene:
    """A cluster of 200 nodes, whose load grows with what is bound to them."""

    cluster: Cluster
    kubelets: processes.Kubelets
    plain_s: float = 0.0
    """How long a pod took without an extender."""

    def load(self):
        """Return the load of each node: one of its own, and a tenth of a core for each of its pods."""
        seen = Counter(node for nodes in list(self.kubelets.bound.values()) for node in nodes)
        return {
            node: 0.1 + 0.005 * (place % 60) + seen[node] * 0.1 / processes.CORES for place, node in enumerate(NODES)
        }

    def make(self, scheduler, pods):
        with ThreadPoolExecutor(4) as threads:
            each = range(pods)
            list(
                threads.map(
                    lambda n: self.cluster.make_pod(
                        f"{scheduler}-{n}", processes.REQUESTS, {}, schedulerName=scheduler
                    ),
                    each,
                )
            )

    def empty(self):
        """Delete all pods; the kubelets have heard it, so that none is counted later."""
        self.cluster.empty()
        eventually(lambda: not self.kubelets.bound)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """One for all modes; a scheduler without an extender has placed as many pods on it."""
    with Cluster(BINARY, tmp_path_factory.mktemp("cluster")) as cluster, processes.Kubelets(cluster) as kubelets:
        processes.make_nodes(cluster, NODES)
        cluster.apply(*(processes.MANIFESTS / name for name in ("pods.yaml", "extender-bind/rights.yaml")))
        made = Scene(cluster, kubelets)
        cluster.schedule([{"schedulerName": "plain"}], name="plain")
        began_s = time.monotonic()
        made.make("plain", PODS)
        eventually(lambda: len(kubelets.bound) == PODS)
        made.plain_s = (time.monotonic() - began_s) / PODS
        cluster.unschedule("plain")
        made.empty()
        yield made


@pytest.fixture
def told(request, capsys):
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")

    def say(text):
        with capsys.disabled():
            terminal.write_line(f"\n{text}")

    return say


@pytest.mark.parametrize("mode", ["score", "filter", "bind"])
def test_none_is_lost_and_none_doubled(mode, scene, names, tmp_path, told):
    """An extender is killed at 300, who follows the pods at 600, Redis is frozen at 800: at the end both are equal."""
    cluster, bound = scene.cluster, scene.kubelets.bound
    account = cluster.flags_of("windward-extender")
    follows = cluster.flags_of("windward-pods")
    with ExitStack() as parts:
        valkey = parts.enter_context(LocalValkey(directory=tmp_path / "valkey"))
        parts.enter_context(processes.agents(valkey.url, names, scene.load))
        ledger = Ledger(Wire({"url": valkey.url}), names)
        parts.callback(ledger.wire.close)
        followers = [parts.enter_context(pods_process(valkey.url, names, *follows)) for _ in range(2)]
        flags = ["--mode", mode, *(account if mode == "bind" else [])]
        extenders = [parts.enter_context(extender(valkey.url, names, *flags)) for _ in range(2)]
        for _, _, page in extenders:
            eventually(lambda page=page: get(f"{page}/ready")[0] == 200)
        service = parts.enter_context(Service([port for _, port, _ in extenders]))
        cluster.schedule([{"schedulerName": "windward"}], [processes.entry(service.port, mode)], name="second")
        parts.callback(scene.empty)
        parts.callback(cluster.unschedule, "second")

        began_s = time.monotonic()
        maker = threading.Thread(target=scene.make, args=("windward", PODS))
        maker.start()
        eventually(lambda: len(bound) >= 300)
        extenders[0][0].restart()
        eventually(lambda: len(bound) >= 600)
        leader(followers).restart()
        eventually(lambda: len(bound) >= 800)
        valkey.pause()
        threading.Event().wait(FROZEN_S)
        valkey.resume()
        maker.join()
        eventually(lambda: len(bound) == PODS, 120)
        took_s = (time.monotonic() - began_s) / PODS

        settled_s = processes.settle(ledger, cluster)
        assert len(cluster.running()) == PODS
        assert {len(nodes) for nodes in bound.values()} == {1}
        verb = "bind" if mode == "bind" else "prioritize"
        assert processes.value(extenders[1][2], "windward_extender_answers_total", verb=verb, result="answered") > 0
        told(
            f"{mode}: {1e3 * took_s:.1f} ms a pod with two kills and {FROZEN_S:g} s without Redis, "
            f"{1e3 * scene.plain_s:.1f} without an extender; equal after {settled_s:.1f} s"
        )


def leader(followers):
    (found,) = (process for process, page in followers if processes.value(page, "windward_pods_leads"))
    return found
