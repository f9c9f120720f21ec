"""Latency and throughput of the RPC against a bare list echo in the same run.

    python -m tests.bench.bench_rpc [--machines 5000] [--calls 2000]

Prints the p50 and p99 of an echo (a process that BLPOPs and RPUSHes back, asked by RPUSH and BLPOP), of ``rank`` and of
``place`` on a fleet with the default profile, their ratios, and the placements a second of one scorer with 8 clients.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import redis

from schemas.names import Names
from scorer.client import Client
from scorer.wire import Wire
from tests.bench.servers import machine_names, own_scorer, own_server
from tests.window_tables import publish, window_table


def echo_server(url: str) -> None:
    """Send back what comes, until killed."""
    client = redis.Redis.from_url(url, socket_timeout=None)
    while True:
        _, raw = client.blpop("echo:queries", timeout=0)
        client.rpush("echo:reply", raw)


def measure(call: Callable[[], object], calls: int) -> np.ndarray:
    """Return the time of each call in microseconds."""
    for _ in range(max(20, calls // 20)):
        call()
    times = np.empty(calls)
    for position in range(calls):
        started = time.perf_counter()
        call()
        times[position] = time.perf_counter() - started
    return times * 1e6


def client_process(url: str, number: int, seconds: float, counts: multiprocessing.Queue[int]) -> None:
    """Place small instances as fast as the answers come."""
    placed = 0
    with Client(url) as client:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            client.place(id=f"c{number}-{placed}", cpu=0.001, memory="1M", top=1)
            placed += 1
    counts.put(placed)


def measure_all(url: str, calls: int, seconds: float) -> None:
    """Measure echo, health, rank and place, then placements by eight clients; print all."""
    plain = redis.Redis.from_url(url, socket_timeout=None)

    def ask_echo() -> None:
        plain.rpush("echo:queries", b"x" * 200)
        plain.blpop("echo:reply", timeout=5)

    with Client(url, timeout_s=20) as client:
        client.health()
        results = {
            "echo": measure(ask_echo, calls),
            "health": measure(client.health, calls),
            "rank": measure(lambda: client.rank(cpu=0.5, memory="1G"), calls),
            "place": measure(lambda: client.place(cpu=0.001, memory="1M"), calls),
        }
    base = np.percentile(results["echo"], [50, 99])
    for name, times in results.items():
        p50, p99 = np.percentile(times, [50, 99])
        print(f"{name:6} p50 {p50:6.0f} us  p99 {p99:6.0f} us {p50 / base[0]:5.2f} x  {p99 / base[1]:5.2f} x echo")
    counts: multiprocessing.Queue[int] = multiprocessing.Queue()
    clients = [
        multiprocessing.Process(target=client_process, args=(url, number, seconds, counts)) for number in range(8)
    ]
    for process in clients:
        process.start()
    placed = sum(counts.get() for _ in clients)
    for process in clients:
        process.join()
    print(f"8 clients, one scorer: {placed / seconds:.0f} placements/s")


def main() -> int:
    """Run everything on a server and a scorer of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=5000)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--flush", type=float, default=0.0, help="rewrite the window tables every so many seconds")
    arguments = parser.parse_args()
    names, machines = Names(), machine_names(arguments.machines)
    loads = np.random.default_rng(1).beta(2, 4, arguments.machines)
    parts = [range(p, arguments.machines, arguments.partitions) for p in range(arguments.partitions)]

    def tables() -> list[bytes]:
        return [window_table([machines[row] for row in part], utilization=loads[list(part)]) for part in parts]

    with own_server() as (url, wire):
        publish(wire, names, tables())
        echo = multiprocessing.Process(target=echo_server, args=(url,), daemon=True)
        echo.start()
        ending = threading.Event()

        def flush() -> None:
            own = Wire({"url": url})
            while not ending.wait(arguments.flush):
                publish(own, names, tables())

        if arguments.flush:
            threading.Thread(target=flush, daemon=True).start()
        try:
            with own_scorer(url):
                measure_all(url, arguments.calls, arguments.seconds)
        finally:
            ending.set()
            echo.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
