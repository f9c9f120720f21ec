"""What runs beside the control plane: agents' windows, followers of pods, and what the ledger has in the end."""

import http.client
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ops.stack.servers.process import LOOPBACK
from scorer.ledger.store.check import Check
from scorer.wire import AWAY, Wire
from tests.integration.observe.test_exporter import get, samples
from tests.support.pages import eventually
from tests.window_tables import GIB, publish, window_table

CORES, MEMORY_GIB = 16, 64
REQUESTS = {"cpu": "100m", "memory": "64Mi"}
MANIFESTS = Path(__file__).parents[2] / "ops/kubernetes"
SETTLED_S = 5.0
"""So long after the last change, kill or cut the ledger has what the API server has."""


def make_nodes(cluster, nodes, **labels):
    """Make nodes that are alike to Kubernetes, with these labels, and as large as `agents` say."""
    for node in nodes:
        cluster.make_node(node, cpu=str(CORES), memory=f"{MEMORY_GIB}Gi", labels=labels)


def entry(port, mode="score", **more):
    """Return the extender in the scheduler's configuration, as the documentation has it for a mode."""
    found = {
        "urlPrefix": f"http://{LOOPBACK}:{port}", "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True,
        "ignorable": mode != "bind", "httpTimeout": "5s" if mode == "bind" else "200ms",
    }  # fmt: skip
    verbs = {"score": {}, "filter": {"filterVerb": "filter"}, "bind": {"filterVerb": "filter", "bindVerb": "bind"}}
    return found | verbs[mode] | more


@contextmanager
def agents(url, names, load):
    """Write the windows of nodes, again and again: their data are fresh, whatever happens to Redis."""
    stop, wire = threading.Event(), Wire({"url": url})

    def write():
        while True:
            now = load()
            table = window_table(
                list(now), utilization=list(now.values()), capacity=(CORES, MEMORY_GIB * GIB), at=time.time()
            )
            with suppress(*AWAY):
                publish(wire, names, [table])
            if stop.wait(1.0):
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
        wire.close()


def value(page, metric, **labels):
    """Return a metric, summed over the labels that are not given."""
    found = samples(get(f"{page}/metrics")[2])[metric]
    return sum(value for given, value in found if labels.items() <= given.items())


def in_ledger(ledger):
    """Return node and cores of each confirmed instance, as a cluster writes them; of one that is not, its state."""
    return {
        one.id: (one.machine, f"{round(1000 * (one.amounts[0] or 0))}m")
        if one.state == "confirmed"
        else ("", one.state)
        for one in ledger.all_instances().values()
    }


def settle(ledger, cluster):
    """Return after how many seconds the ledger has what the API server has, and its sums are those of its instances."""
    began_s = time.monotonic()
    eventually(lambda: in_ledger(ledger) == cluster.running(), SETTLED_S)
    took_s = time.monotonic() - began_s
    assert Check(ledger).run().differences == []
    return took_s


class Kubelets(threading.Thread):
    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.bound = {}
        """All nodes on which a pod was seen, by its uid, until it is gone."""
        self._cluster = cluster
        self._stopping = threading.Event()

    def run(self):
        while not self._stopping.is_set():
            self.bound.clear()
            try:
                for event in self._cluster.watch("/api/v1/pods"):
                    if self._stopping.is_set():
                        return
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._look(event["object"])
                    else:
                        self.bound.pop(event["object"]["metadata"]["uid"], None)
            except (OSError, http.client.HTTPException, AssertionError):
                self._stopping.wait(0.2)  # the API server is away

    def _look(self, pod):
        about, node = pod["metadata"], pod["spec"].get("nodeName")
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        if node:
            self.bound.setdefault(about["uid"], set()).add(node)
        if "deletionTimestamp" in about:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}}
            self._cluster.ask("DELETE", path, options)
        elif node and pod["status"]["phase"] == "Pending":
            started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            status = {"phase": "Running", "startTime": started, "conditions": [{"type": "Ready", "status": "True"}]}
            self._cluster.ask("PATCH", f"{path}/status", {"status": status})

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
