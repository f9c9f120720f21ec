"""What a client waits for `rank` while an agent changes its labels all the time.

    python -m tests.bench.bench_labels [--machines 5000] [--seconds 10]

One scorer, one client that ranks every 20 ms. In one run: alone; while the window table is written 20 times a second;
while one machine's label changes with each of these writes, too. Prints p50, p99 and the longest of each.
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
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    names, machines = Names(), machine_names(arguments.machines)
    with own_server() as (url, wire):
        publish(wire, names, [window_table(machines, at=time.time() + 600)])
        phases = {
            "alone": None,
            f"window table written {FLIPS_A_SECOND} times a second": rewrite_tables,
            f"the same, and a label changed {FLIPS_A_SECOND} times a second": flip_labels,
        }
        with own_scorer(url), Client(url, timeout_s=60) as client:
            ranked_ms(client, 2.0)
            for name, load in phases.items():
                ending = multiprocessing.Event()
                beside = multiprocessing.Process(target=load, args=(url, machines, ending)) if load else None
                if beside is not None:
                    beside.start()
                    time.sleep(1.0)
                print(f"{name}: {line(ranked_ms(client, arguments.seconds))}", flush=True)
                ending.set()
                if beside is not None:
                    beside.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
