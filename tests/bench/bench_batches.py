"""Batches beside another checkout: instances a second, and how long other clients wait meanwhile.

    git worktree add --detach /tmp/other COMMIT
    python -m tests.bench.bench_batches /tmp/other [--pairs 6] [--machines 5000] [--count 1000] [--beside 10000]

A batch is of identical instances, of 64 sizes, or of instances that are all different. Prints this checkout's medians
and, in brackets, the ratio to the other one with its interval (`tests.bench.pairs`): instances a second; processor time
of scorer and server an instance, us; for a batch of ``--beside`` instances how long each placement of another client
took, p50 and p99 in ms, which places one of the mixed load every 10 ms. No window is written meanwhile.
"""

import multiprocessing
import sys
import time
from contextlib import contextmanager

import numpy as np

from scorer.client import Client, WindwardError
from tests.bench.mixed_requests import ONE_SIZE, Requests
from tests.bench.pairs import in_pairs, read_options, told, two_sides
from tests.bench.servers import own_rig

KINDS = ("identical", "64 sizes", "all different")
EVERY_S = 0.01
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


def place_batch(url, asked, told):
    """Place a batch; tell the names of its instances, and how long it took."""
    with Client(url, timeout_s=TIMEOUT_S) as client:
        client.health()
        told.put("begins")
        started = time.perf_counter()
        try:
            answer = client.call("place", asked)
        except WindwardError as refused:
            told.put(refused)
            return
        told.put((time.perf_counter() - started, [one["id"] for one in answer["placed"]]))


class Batches:
    def __init__(self, rig):
        self._rig = rig
        self._turns = 0

    def __call__(self, kind, count, beside=False):
        """Return the figures of a batch; ``beside``: of another client meanwhile."""
        self._turns += 1
        rig = self._rig
        told = multiprocessing.Queue()
        rig.refresh()
        asked = batch(kind, f"batch-{self._turns}", count)
        process = multiprocessing.Process(target=place_batch, args=(rig.url, asked, told), daemon=True)
        process.start()
        assert told.get() == "begins"
        before = rig.processors()
        waits, others = self._place_beside(told) if beside else (np.array([]), [])
        ended = told.get()
        if isinstance(ended, WindwardError):
            raise ended
        elapsed_s, placed = ended
        after = rig.processors()
        process.join()
        assert len(placed) == count, f"{kind}: {len(placed)} of {count} were placed"
        rig.release(placed + others)
        if beside:
            p50, p99 = np.percentile(waits, [50, 99])
            return {"wait p50": p50, "wait p99": p99, "longest": waits.max(), "instances/s": count / elapsed_s}
        return {"instances/s": count / elapsed_s, **{name: (after[name] - before[name]) / count for name in before}}

    def _place_beside(self, told):
        """Place one by one until the batch has ended; return how long each took, ms, and the names."""
        times, placed = [], []
        requests = Requests("mixed", self._turns)
        with Client(self._rig.url, timeout_s=60) as client:
            while told.empty() or not times:
                started = time.perf_counter()
                name = f"beside-{self._turns}-{len(times)}"
                if client.place(id=name, top=1, ttl_s=TTL_S, **requests.draw())["machine"] is not None:
                    placed.append(name)
                times.append(1e3 * (time.perf_counter() - started))
                time.sleep(EVERY_S)
        return np.array(times), placed


@contextmanager
def batches(machines):
    with own_rig(machines) as rig:
        yield Batches(rig)


def main():
    """Measure in pairs; print medians and ratios."""
    given = read_options(__doc__, "other", pairs=6, machines=5_000, count=1_000, beside=10_000)
    questions = [{"kind": kind, "count": given.count} for kind in KINDS]
    if given.beside:
        questions += [{"kind": kind, "count": given.beside, "beside": True} for kind in KINDS]
    with two_sides(given.other, "tests.bench.bench_batches:batches", machines=given.machines) as sides:
        found = in_pairs(*sides, questions, given.pairs)
    for question, pairs in zip(questions, found, strict=True):
        print(f"{question['count']} {question['kind']}: {told(pairs)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
