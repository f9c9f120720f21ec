"""Pods a second of a real kube-scheduler with the extender, beside the same scheduler without.

    WINDWARD_TEST_CONTROL_PLANE=BINARY python -m tests.bench.bench_scheduler [--nodes 500] [--pods 600] [--pairs 2]

The binary is what `make test-kubernetes` builds. Pods wait before the scheduler starts; then it is counted how many are
bound. The rate is that between a tenth and nine tenths of them. API server, etcd, scheduler, extender and Valkey share
the computer. Prints both rates and their ratio, with that of each pair.
"""

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from schemas.names import Names
from scorer.wire import Wire
from tests.bench.pairs import read_options
from tests.bench.servers import machine_names, own_server
from tests.integration.observe.test_exporter import get
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import REQUESTS, entry
from tests.support.extender_process import extender
from tests.support.pages import eventually
from tests.window_tables import GIB, publish, window_table

LOOK_S = 0.1


def rate(cluster, name, pods, extenders):
    """Return how many of so many waiting pods are bound in a second."""
    before = len(cluster.running())
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: cluster.make_pod(f"{name}-{n}", REQUESTS, {}, schedulerName=name), range(pods)))
    cluster.schedule([{"schedulerName": name}], extenders, name="measured")
    seen = []
    while not seen or seen[-1][1] < pods:
        seen.append((time.monotonic(), len(cluster.running()) - before))
        time.sleep(LOOK_S)
    first, last = (next(one for one in seen if one[1] >= share * pods) for share in (0.1, 0.9))
    return (last[1] - first[1]) / (last[0] - first[0])


def main():
    given = read_options(__doc__, nodes=500, pods=600, pairs=2)
    nodes, names, found = machine_names(given.nodes), Names(), []
    with tempfile.TemporaryDirectory() as folder, own_server() as (url, _):
        wire = Wire({"url": url})
        load = [0.1 + 0.6 * (number % 7) / 7 for number in range(given.nodes)]
        publish(wire, names, [window_table(nodes, utilization=load, capacity=(64, 256 * GIB), at=time.time() + 3600)])
        wire.close()
        binary = os.environ["WINDWARD_TEST_CONTROL_PLANE"]
        with Cluster(binary, Path(folder)) as cluster, extender(url, names) as (_, port, page):
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(lambda node: cluster.make_node(node, cpu="64", memory="256Gi", labels={}), nodes))
            eventually(lambda: get(f"{page}/ready")[0] == 200)
            for pair in range(given.pairs):
                plain = rate(cluster, f"plain{pair}", given.pods, [])
                ours = rate(cluster, f"ours{pair}", given.pods, [entry(port)])
                found.append((plain, ours))
                print(f"plain {plain:.0f} pods/s, with the extender {ours:.0f}: {ours / plain:.2f}", flush=True)
    print(f"{given.nodes} nodes: {median(ours / plain for plain, ours in found):.2f} of plain kube-scheduler's rate")
    return 0


if __name__ == "__main__":
    sys.exit(main())
