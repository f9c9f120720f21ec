"""A large ledger: how long a scorer takes to read it, and what a decision costs with it and without.

python -m tests.bench.bench_ledger [--instances 200000] [--machines 5000]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from schemas.names import Names
from schemas.resources import RESOURCES
from scorer.client import Client
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, total
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.store.check import Check
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.bench.servers import machine_names, own_scorer, own_server
from tests.window_tables import publish, window_table


def median_us(call: object, calls: int = 300) -> float:
    """Return the median time of a call in microseconds."""
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()  # type: ignore[operator]
        times.append(time.perf_counter() - started)
    return float(np.median(times) * 1e6)


def main() -> int:
    """Fill a ledger, then start scorers on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=200_000)
    parser.add_argument("--machines", type=int, default=5_000)
    arguments = parser.parse_args()
    names, machines = Names(), machine_names(arguments.machines)
    with own_server() as (url, wire):
        publish(wire, names, [window_table(machines, at=time.time() + 600)])
        print(f"reserve, 250 a script: {reserve_us(Ledger(wire, names), machines):.0f} us an instance")
        for filled in (0, arguments.instances):
            fill(Ledger(wire, names), machines, filled)
            started = time.perf_counter()
            follower = Follower(Ledger(wire, names))
            follower.poll()
            print(f"{len(follower.view)} instances read in {time.perf_counter() - started:.2f} s")
            started, worked = time.perf_counter(), time.process_time()
            found = Check(Ledger(Wire({"url": url}), names)).run()
            print(
                f"  checked in {time.perf_counter() - started:.2f} s, {time.process_time() - worked:.2f} s of it "
                f"here: {found.machines} machines, {len(found.differences)} differences"
            )
            started = time.perf_counter()
            with own_scorer(url), Client(url, timeout_s=60) as client:
                client.place(cpu=0.001)
                print(f"  start to first placement {time.perf_counter() - started:.2f} s")
                beside = rank_beside_check_ms(client)
                print(
                    f"  rank beside the check: {len(beside)} calls, p50 {beside[len(beside) // 2]:.1f} ms, "
                    f"p99 {beside[len(beside) * 99 // 100]:.1f} ms"
                )
                rank = median_us(lambda c=client: c.rank(cpu=0.5, top=1))
                place = median_us(lambda c=client: c.place(cpu=0.001, top=1))
                print(f"  rank p50 {rank:.0f} us, place p50 {place:.0f} us")
    return 0


def rank_beside_check_ms(client: Client) -> list[float]:
    """Return the sorted times of queries until the scorer's check has ended."""
    found = []
    while client.health()["ledger_check"] is None or len(found) < 100:
        started = time.perf_counter()
        client.rank(cpu=0.5, top=1)
        found.append((time.perf_counter() - started) * 1e3)
    return sorted(found)


def reserve_us(ledger: Ledger, machines: list[str], scripts: int = 40, step: int = 250) -> float:
    """Return the median time of an instance in microseconds, reserved by scripts of so many."""
    limits = [Limit(total("cpu"), 1e3, "cpu too full"), Limit(total("memory"), 1e13, "memory too full")]
    times = []
    for script in range(scripts):
        wanted = [
            Wanted(
                Instance(
                    id=f"r{script}-{n}", machine="", state="reserved", amounts=amounts(0.05, 1e8), request="q",
                    cluster=f"c{n % 50}", role="replica", labels={"app": "a"},
                ),
                600.0,
                [Candidate(machines[(script * step + n) % len(machines)], -1, limits)],
            )
            for n in range(step)
        ]  # fmt: skip
        started = time.perf_counter()
        ledger.reserve(wanted)
        times.append((time.perf_counter() - started) / step)
    for script in range(scripts):
        for n in range(step):
            ledger.release(f"r{script}-{n}")
    return float(np.median(times) * 1e6)


def amounts(cpu: float, memory: float) -> tuple[float, ...]:
    """Return amounts in the order of the resources."""
    return tuple({"cpu": cpu, "memory": memory}.get(name, 0.0) for name in RESOURCES)


def fill(ledger: Ledger, machines: list[str], count: int) -> None:
    """Put confirmed instances on the machines, evenly."""
    for first in range(0, count, 500):
        ledger.correct(
            [
                Instance(
                    id=f"filled-{number}", machine=machines[number % len(machines)], state="confirmed",
                    amounts=amounts(0.05, 1e8), cluster=f"c{number % 1000}", role="replica",
                    labels={"app": f"a{number % 50}"},
                )
                for number in range(first, min(first + 500, count))
            ]
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
