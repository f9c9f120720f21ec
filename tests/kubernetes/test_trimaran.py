"""Trimaran's plugins as they are published, in a real scheduler, by the load that the load watcher gives them.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

import os
import time

import pytest

from scorer.wire import Wire
from tests.integration.kubernetes.test_load_watcher import load_watcher, read
from tests.kubernetes.cluster import Cluster
from tests.support.pages import eventually
from tests.window_tables import GIB, publish, window_table

BINARY = os.environ.get("WINDWARD_TEST_CONTROL_PLANE", "")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(
        not BINARY,
        reason="NOT RUN: no binary in WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it in minutes",
    ),
]

CORES, MEMORY_GIB = 16, 64
LOAD = {f"a{place}": 0.05 + 0.08 * place for place in range(8)} | {"b0": 0.05, "b1": 0.35}
"""By node, the share of its CPU and memory that is used, on average."""
ARGUMENTS = {
    "LoadVariationRiskBalancing": {"safeVarianceMargin": 1, "safeVarianceSensitivity": 1},
    "TargetLoadPacking": {"targetUtilization": 40},
    "LowRiskOverCommitment": {"smoothingWindowSize": 5, "riskLimitWeights": {"cpu": 0.5, "memory": 0.5}},
}


class Scene:
    """A cluster whose nodes have agents, and a scheduler with a profile for each plugin."""

    def __init__(self, cluster, valkey, names, page):
        self._cluster, self._valkey, self._names, self._page = cluster, valkey, names, page
        self._pods = 0

    def has(self, ages_s, *, listed):
        """Write windows of nodes of these ages, and start the scheduler when the load watcher lists these nodes."""
        wire, now_s = Wire({"url": self._valkey.url}), time.time()
        tables = [
            window_table([node], utilization=LOAD[node], capacity=(CORES, MEMORY_GIB * GIB), at=now_s - ages_s[node])
            for node in LOAD
        ]
        publish(wire, self._names, tables)
        wire.close()
        eventually(lambda: set(read(self._page).get("data", {}).get("NodeMetricsMap", ())) == listed)
        self._cluster.schedule([self._profile(plugin) for plugin in ARGUMENTS])

    def _profile(self, plugin):
        scores = {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}
        arguments = {"watcherAddress": self._page, **ARGUMENTS[plugin]}
        return {
            "schedulerName": plugin.lower(), "plugins": {"score": scores},
            "pluginConfig": [{"name": plugin, "args": arguments}],
        }  # fmt: skip

    def places(self, plugin, group="a"):
        """Return the node that a plugin chooses for a pod of one core, among those of a group."""
        self._pods += 1
        name = f"pod-{self._pods}"
        self._cluster.make_pod(
            name, {"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "2Gi"}, schedulerName=plugin.lower(),
            nodeSelector={"group": group},
        )  # fmt: skip
        return self._cluster.node_of(name)


@pytest.fixture
def scene(valkey, names, tmp_path):
    """Nodes a0 to a7, each with more load than the one before; b0 and b1, whose pods may use twice their requests."""
    with Cluster(BINARY, tmp_path) as cluster, load_watcher(valkey.url, names) as (_, page):
        for node in LOAD:
            cluster.make_node(node, cpu=str(CORES), memory=f"{MEMORY_GIB}Gi", labels={"group": node[0]})
        for node in ("b0", "b1"):
            requests, limits = {"cpu": "4", "memory": "16Gi"}, {"cpu": "8", "memory": "32Gi"}
            cluster.make_pod(f"on-{node}", requests, limits, nodeName=node)
        yield Scene(cluster, valkey, names, page)


def test_pods_go_by_load(scene):
    """To the node that each plugin's formula prefers; not to a stale one; while all are silent, by the last load."""
    fresh = dict.fromkeys(LOAD, 3.0)
    scene.has(fresh, listed=set(LOAD))
    assert scene.places("LoadVariationRiskBalancing") == "a0"
    assert scene.places("LowRiskOverCommitment", "b") == "b0"
    # 29 % used and one core of 16 more is next below 40 %. The pod that is bound then counts, since the window ended
    # before, and the next one goes to the node below.
    assert [scene.places("TargetLoadPacking") for _ in range(2)] == ["a3", "a2"]

    scene.has(fresh | {"a0": 5000.0, "b0": 5000.0}, listed=LOAD.keys() - {"a0", "b0"})
    assert scene.places("LoadVariationRiskBalancing") == "a1"
    assert scene.places("LowRiskOverCommitment", "b") == "b1"

    scene.has(dict.fromkeys(LOAD, 5000.0), listed=set(LOAD))
    assert scene.places("LoadVariationRiskBalancing") == "a0"
    assert scene.places("LowRiskOverCommitment", "b") == "b0"
