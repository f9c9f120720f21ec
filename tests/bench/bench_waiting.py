"""How long a placement waits for others' long queries; what a planner takes, in memory and at its start.

    git worktree add --detach /tmp/other COMMIT
    python -m tests.bench.bench_waiting [--tree /tmp/other] [--machines 5000] [--instances 20000] [--seconds 20]

A scorer of a checkout, a planner beside it where the checkout has one, and a fleet with instances. One client places
and releases, while another has long queries answered one after the other: an explanation of the whole fleet, a list of
all machines and of all instances, a drain, a rebalancing, a count of capacity. Prints one JSON object: the waiting of
the placements in ms, alone and beside the long queries, how many of these were answered, and the planner's figures.
"""

import json
import multiprocessing
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from itertools import cycle
from pathlib import Path

import numpy as np
import psutil

from schemas.names import Names
from scorer.client import Client
from tests.bench.pairs import read_options
from tests.bench.servers import own_server
from tests.conftest import stop
from tests.window_tables import publish, window_table

AT_ONCE = 1_000
READY_S = 120.0


@contextmanager
def process(tree, module, url, *options):
    """Yield a process of a checkout that ends with the block."""
    command = [sys.executable, "-m", module, "--redis-url", url, "--log-level", "warning", *options]
    running = subprocess.Popen(command, cwd=tree)
    try:
        yield psutil.Process(running.pid)
    finally:
        stop(running, wait_s=20)


def long_queries(client, machine):
    """Yield calls that take long, one after the other, for ever."""
    return cycle([
        lambda: client.rank(cpu=1, memory="1G", explain=True), lambda: client.machines(limit=10_000),
        lambda: client.instances(limit=10_000), lambda: client.drain(machines=[machine]),
        client.rebalance, lambda: client.capacity(cpu=1, memory="1G", by="machine"),
    ])  # fmt: skip


def ask(url, machine, stopping, answered):
    """Ask one long query after the other until the event is set."""
    with Client(url, timeout_s=READY_S) as client:
        for call in long_queries(client, machine):
            if stopping.is_set():
                return
            call()
            answered.value += 1


def waited_ms(client, seconds, name):
    """Return the waiting of placements in a row for so long."""
    found, until = list[float](), time.monotonic() + seconds
    while time.monotonic() < until:
        asked_at = time.perf_counter()
        client.place(id=f"{name}-{len(found)}", cpu=0.01, memory="1M")
        found.append(1e3 * (time.perf_counter() - asked_at))
        client.release(f"{name}-{len(found) - 1}")
        time.sleep(0.005)
    of = {f"p{q}": round(float(np.percentile(found, q)), 1) for q in (50, 99)}
    return {**of, "most": round(max(found), 1), "placements": len(found)}


def begun(wire, client, running, started):
    """Wait for the planner; return how long its first answer took from its start, and its memory then."""
    if running is None:
        return {}
    while not wire.one("ZCARD", Names().planners):
        time.sleep(0.01)
    client.capacity(cpu=1)
    return {"start s": round(time.monotonic() - started, 2), "MB": round(running.memory_info().rss / 1e6)}


def main():
    options = read_options(__doc__, tree=Path(__file__).parents[2], machines=5_000, instances=20_000, seconds=20.0)
    names = [f"m{number:05d}" for number in range(options.machines)]
    has_planner = (options.tree / "scorer/planner").is_dir()
    context = multiprocessing.get_context("spawn")  # whoever reads a long answer shares no interpreter with who waits
    stopping, answered = context.Event(), context.Value("i", 0)
    with own_server() as (url, wire):
        publish(wire, Names(), [window_table(names, at=time.time() + 3_600)])
        with process(options.tree, "scorer", url), Client(url, timeout_s=READY_S) as client:
            client.health()
            for number in range(options.instances // AT_ONCE):
                client.place(id=f"before-{number}", cpu=0.01, memory="1M", count=AT_ONCE, ttl_s=86_400)
            alone = waited_ms(client, options.seconds / 2, "alone")
            started = time.monotonic()
            with process(options.tree, "scorer.planner", url) if has_planner else nullcontext() as planner:
                of_planner = begun(wire, client, planner, started)

                asking = context.Process(target=ask, args=(url, names[0], stopping, answered))
                asking.start()
                beside = waited_ms(client, options.seconds, "beside")
                stopping.set()
                asking.join()
                memory = {} if planner is None else {"MB after": round(planner.memory_info().rss / 1e6)}
    found = {"alone": alone, "beside": beside, "long": answered.value, "planner": of_planner | memory}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
