"""What a client waits for `rank` while a long batch is placed, and while an agent changes its labels all the time.

    python -m tests.bench.bench_beside [--machines 5000] [--instances 10000] [--seconds 10]

One scorer, one client that ranks every 20 ms. In one run: alone, beside a batch of unlike instances (one query of
another client, sent again under other ids until the time is over), alone again, and beside one machine whose label
changes 20 times a second. Prints p50, p99 and the longest of each, the ledger's longest script beside the batch, and
how long a batch took.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from multiprocessing.synchronize import Event

import numpy as np

from schemas.names import Names
from scorer.client import Client
from scorer.wire import Wire
from tests.bench.servers import machine_names, own_scorer, own_server
from tests.window_tables import publish, window_table

EVERY_S = 0.02
FLIPS_A_SECOND = 20


def ranked_ms(client: Client, seconds: float) -> np.ndarray:
    """Return how long each answer took."""
    times, until = [], time.perf_counter() + seconds
    while (begin := time.perf_counter()) < until:
        client.rank(cpu=0.5, memory="1G", top=1)
        times.append(1e3 * (time.perf_counter() - begin))
        time.sleep(max(0.0, EVERY_S - times[-1] / 1e3))
    return np.array(times)


def place_batches(url: str, instances: int, ending: Event) -> None:
    """Place one batch after the other; give each back, so that the machines do not fill up."""
    with Client(url, timeout_s=600) as client:
        for number in itertools.count():
            asked = [
                {"id": f"b{number}-{n}", "cpu": 0.001 * (1 + n % 97), "memory": 1_000_000 + n, "ttl_s": 5}
                for n in range(instances)
            ]
            begin = time.perf_counter()
            answer = client.call("place", {"instances": asked})
            taken_s = time.perf_counter() - begin
            print(f"  {len(answer['placed'])} unlike instances placed in {taken_s:.1f} s", flush=True)
            if ending.is_set():
                return


def flip_labels(url: str, machines: list[str], ending: Event) -> None:
    """Change one machine's label, as an agent and the stream app would write it."""
    wire, names = Wire({"url": url}), Names()
    for number in itertools.count():
        said = {"type": "machine", "v": 1, "machine": machines[0], "boot": 1, "at": time.time(),
                "labels": {"flip": str(number)}, "capacity": {}}  # fmt: skip
        publish(wire, names, [window_table(machines, facts=number + 1)], [{machines[0]: said}])
        if ending.wait(1 / FLIPS_A_SECOND):
            return


def rewrite_tables(url: str, machines: list[str], ending: Event) -> None:
    """Write the window table as often as beside the flips, with no change of facts."""
    wire, names = Wire({"url": url}), Names()
    while not ending.wait(1 / FLIPS_A_SECOND):
        publish(wire, names, [window_table(machines)])


def line(times: np.ndarray) -> str:
    """Return the figures of one phase."""
    p50, p99 = np.percentile(times, [50, 99])
    return f"rank p50 {p50:6.1f} ms  p99 {p99:6.1f} ms  longest {times.max():6.1f} ms  ({times.size} calls)"


def main() -> int:
    """Run all phases on a server and a scorer of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=5000)
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    names, machines = Names(), machine_names(arguments.machines)
    with own_server() as (url, wire):
        publish(wire, names, [window_table(machines, at=time.time() + 600)])
        wire.ask([("CONFIG", "SET", "slowlog-log-slower-than", 1000), ("CONFIG", "SET", "slowlog-max-len", 10_000)])
        phases = {
            "alone": (None, ()),
            f"beside a batch of {arguments.instances} unlike instances": (place_batches, (url, arguments.instances)),
            "alone again": (None, ()),
            f"window table written {FLIPS_A_SECOND} times a second": (rewrite_tables, (url, machines)),
            f"the same, and a label changed {FLIPS_A_SECOND} times a second": (flip_labels, (url, machines)),
        }
        with own_scorer(url), Client(url, timeout_s=60) as client:
            ranked_ms(client, 2.0)
            for name, (load, given) in phases.items():
                wire.one("SLOWLOG", "RESET")
                ending = multiprocessing.Event()
                beside = multiprocessing.Process(target=load, args=(*given, ending)) if load else None
                if beside is not None:
                    beside.start()
                    time.sleep(1.0)
                print(f"{name}: {line(ranked_ms(client, arguments.seconds))}", flush=True)
                ending.set()
                if beside is not None:
                    beside.join()
                slow = [entry[2] / 1e3 for entry in wire.one("SLOWLOG", "GET", -1) if entry[3][0][:4] == b"EVAL"]
                if slow:
                    print(f"  longest ledger script {max(slow):.1f} ms, {len(slow)} of 1 ms or more", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
