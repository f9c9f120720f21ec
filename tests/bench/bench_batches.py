"""Batches on one scorer: instances a second, and processor time of scorer and server an instance, us.

`tests.bench.bench_against` measures with it. A batch is of identical instances, of 64 sizes, or of instances that are
all different. No window is written meanwhile.
"""

import time

from scorer.client import Client
from tests.bench.mixed_requests import ONE_SIZE, Requests

KINDS = ("identical", "64 sizes", "all different")
TTL_S = 3_600.0
TIMEOUT_S = 600.0


def batch(kind, name, count):
    if kind == "identical":
        cpu, memory = ONE_SIZE
        return {"id": name, "cpu": cpu, "memory": memory, "count": count, "ttl_s": TTL_S}
    sizes = Requests("plain 64", count)
    alike = [sizes.size() if kind == "64 sizes" else different(number) for number in range(count)]
    return {"instances": [{"id": f"{name}-{n}", "ttl_s": TTL_S, **each} for n, each in enumerate(alike)]}


def different(number):
    return {"cpu": 0.001 * (1 + number % 97), "memory": 1e6 + number}


class Batches:
    def __init__(self, rig):
        self._rig = rig
        self._turns = 0

    def __call__(self, kind, count):
        self._turns += 1
        rig = self._rig
        rig.refresh()
        asked = batch(kind, f"batch-{self._turns}", count)
        with Client(rig.url, timeout_s=TIMEOUT_S) as client:
            client.health()
            before, started = rig.processors(), time.perf_counter()
            placed = client.call("place", asked)["placed"]
            elapsed_s, after = time.perf_counter() - started, rig.processors()
        assert len(placed) == count, f"{kind}: {len(placed)} of {count} were placed"
        rig.release([one["id"] for one in placed])
        return {"instances/s": count / elapsed_s, **{name: (after[name] - before[name]) / count for name in before}}
