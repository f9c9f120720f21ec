"""A large ledger: how long a scorer takes to read it, and what a decision costs with it and without.

    python -m tests.bench.bench_ledger [--instances 200000] [--machines 5000]

First it prints what the reserve script costs an instance, by the number of instances in a call: the least of several
calls, by the server's own count, and the processor time of the caller. Beside it is what a bare HGET, HSET and ZADD in
Lua cost in the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import count

import numpy as np

from schemas.names import Names
from schemas.resources import RESOURCES
from scorer.client import Client
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.record.limits import Limit, total
from scorer.ledger.record.transition import Call, Candidate, Wanted
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
        print_script_costs(wire, Ledger(wire, names), machines)
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


BARE = """for i = 1, ARGV[1] do
  redis.call('HGET', KEYS[1], i) redis.call('HSET', KEYS[1], i, ARGV[2]) redis.call('ZADD', KEYS[2], 1, i)
end"""
LIMITS = [Limit(total("cpu"), 1e3, "cpu too full"), Limit(total("memory"), 1e13, "memory too full")]
KINDS = {"identical, 16 a machine": (True, 16), "identical, one a machine": (True, 1), "all different": (False, 1)}
SIZES = (1, 10, 64, 250, 1000)
_numbers = count()


def print_script_costs(wire: Wire, ledger: Ledger, machines: list[str], calls: int = 8) -> None:
    """Print what an instance costs by the kind and size of its batch, server and caller, in microseconds."""
    wire.one("CONFIG", "RESETSTAT")
    bare = min(script_us(wire, lambda: wire.one("EVAL", BARE, 2, "h", "z", 1000, "x" * 300)) for _ in range(calls))
    print(f"HGET, HSET and ZADD in Lua: {bare / 1000:.1f} us")
    for kind, (alike, each) in KINDS.items():
        told = []
        for size in SIZES:
            script, caller = [], []
            for _ in range(max(calls, 100 // size)):
                given = batch(machines, size, alike, each)
                started = time.process_time()
                script.append(script_us(wire, lambda given=given: ledger.reserve(given)))  # type: ignore[misc]
                caller.append(1e6 * (time.process_time() - started))
                for one in given:
                    ledger.release(one.own[0])
            told.append(f"{size}: {min(script) / size:.1f} + {min(caller) / size:.1f}")
        print(f"reserve script + caller, us an instance, {kind}: {', '.join(told)}")


def script_us(wire: Wire, call: Callable[[], object]) -> float:
    """Return how long the scripts took that a call runs."""
    wire.one("CONFIG", "RESETSTAT")
    call()
    found = wire.one("INFO", "commandstats").decode().splitlines()
    return sum(float(line.partition("usec=")[2].partition(",")[0]) for line in found if line.startswith("cmdstat_eval"))


def batch(machines: list[str], size: int, alike: bool, each: int) -> list[Wanted]:
    """Return so many instances to reserve, some on each machine; alike ones share what they can, as a scorer's do."""
    start, call = next(_numbers), Call(f"query-{next(_numbers)}", time.time() + 60)
    one = Instance(
        id="", machine="", state="reserved", amounts=amounts(0.05, 1e8), cluster="shop", role="replica",
        labels={"app": "a"},
    )  # fmt: skip
    where = {machine: [Candidate(machine, -1, LIMITS)] for machine in machines}
    found = []
    for number in range(size):
        machine = machines[(start + number // each) % len(machines)]
        if not alike:
            one = copy_with(one, amounts=amounts(0.05 + number / 1e3, 1e8), labels={"app": f"a{number}"})
        found.append(Wanted(one, 600.0, where[machine], call, f"r{next(_numbers)}", "digest"))
    return found


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
