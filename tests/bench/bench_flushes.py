"""What flushes of a fleet cost the worker, Redis and a reader; in simulated time, so that other load changes little.

    python -m tests.bench.bench_flushes [--machines 5000 20000 50000] [--seconds 10] [--against TREE]

One process takes the samples of the fleet as a worker does: folds those of a flush, writes every partition, and has a
loader read what changed and a decision's columns. Each machine sends every 10 s, evenly. Prints processor time a
second of the fleet's time (fold and write, read and join), the bytes that Redis received, and the bytes that the reader
got. ``--against`` measures another checkout in turn with this one, and prints the ratios of this one to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PARTITIONS, INTERVAL_S, WINDOW_S = 8, 10, 3600
FIGURES = ("fold ms", "write ms", "read ms", "written MB", "read MB")
Figures = dict[str, float]


def simulated(machines: int, seconds: float, flush_s: float, folder: Path) -> Figures:
    """Return the figures of a fleet, a second of its time."""
    import redis
    from redis.asyncio import Redis

    from ops.stack.servers.valkey import LocalValkey
    from schemas.messages.sample import encode
    from schemas.names import Names
    from scorer.live.loader import Loader
    from scorer.wire import Wire
    from streams.fold.arrivals import Arrived
    from streams.worker.store import Store
    from tests.support.pipeline import make_samples

    start = time.time() // 10 * 10
    each = machines // PARTITIONS
    held = [full_partition(number, each, start - 20) for number in range(PARTITIONS)]
    pattern = make_samples(1, 1, end=start)[0]
    names, spent = Names("bench"), dict.fromkeys(FIGURES, 0.0)

    def message(partition: Any, machine: int, at: float) -> Arrived:
        import msgspec

        name = partition.ring.machines[machine]
        sample = msgspec.structs.replace(pattern, machine=name, at=at, seq=int(at), boot=2)
        return Arrived(partition.next_offset, encode(sample), at, name.encode())

    async def run(url: str, server: redis.Redis) -> None:
        async with Redis.from_url(url) as client:
            store, loader = Store(client, names), Loader(Wire({"url": url}), names)
            await client.set(names.partitions, PARTITIONS)
            for partition in held:
                await store.save(partition, start)
            loader.refresh()
            done = 0
            for step in range(1, round((seconds + 2 * INTERVAL_S) / flush_s)):
                now_s = start + step * flush_s
                due = int((now_s - start) / INTERVAL_S * each)
                counted = step * flush_s > 2 * INTERVAL_S
                arrived = [[message(p, m % each, now_s) for m in range(done, due)] for p in held]
                before, stats = time.process_time(), server.info("stats")
                for partition, messages in zip(held, arrived, strict=True):
                    for one in messages:
                        partition.take([one._replace(offset=partition.next_offset)])
                    partition.fold_pending()
                folded, done = time.process_time(), due
                refresh_together(held, now_s)
                await asyncio.gather(*(store.save(partition, now_s) for partition in held))
                written, after = time.process_time(), server.info("stats")
                read_from = time.process_time()
                snapshot = loader.refresh()
                assert snapshot is not None
                windows = snapshot.windows(WINDOW_S)
                _ = windows.mean, windows.std, windows.filled, windows.picked("percentile"), snapshot.seen_at
                _ = snapshot.inverse_allocatable
                if counted:
                    last = server.info("stats")
                    spent["fold ms"] += 1e3 * (folded - before)
                    spent["write ms"] += 1e3 * (written - folded)
                    spent["read ms"] += 1e3 * (time.process_time() - read_from)
                    spent["written MB"] += (after["total_net_input_bytes"] - stats["total_net_input_bytes"]) / 1e6
                    spent["read MB"] += (last["total_net_output_bytes"] - after["total_net_output_bytes"]) / 1e6

    with LocalValkey(directory=folder) as valkey, redis.Redis.from_url(valkey.url) as server:
        asyncio.run(run(valkey.url, server))
    return {name: value / seconds for name, value in spent.items()}


def refresh_together(held: list[Any], now_s: float) -> None:
    """Refresh the window tables of all partitions at once, where the checkout does."""
    from streams.state import partition

    if hasattr(partition, "refresh_tables"):
        partition.refresh_tables(held, now_s)


def measured(tree: Path, machines: int, seconds: float, flush_s: float) -> Figures:
    """Return the figures of a checkout, measured in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": str(tree)}
    code = "import sys; sys.path.append(sys.argv[1]); import bench_flushes; bench_flushes.one(*sys.argv[2:])"
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(machines), str(seconds), str(flush_s)]
    done = subprocess.run(command, cwd=tree, env=environ, stdout=subprocess.PIPE, check=True)
    found: Figures = json.loads(done.stdout)
    return found


def full_partition(number: int, machines: int, now: float) -> Any:
    """Return a partition whose machines have a full hour; filled as arrays, for making it by messages takes minutes."""
    from streams.fold.peaks import Zone
    from streams.fold.table import Table
    from streams.state.partition import Partition

    partition = Partition(number, Table((300, 900, 3600), Zone()))
    ring, rng = partition.ring, np.random.default_rng(number)
    ring.add(f"machine-{number}-{m:05d}" for m in range(machines))
    used = slice(0, machines)
    ring.head[used] = int(now // 10) - 2
    ring.at[used] = ring.head[used] * 10.0 + 5
    ring.capacity[used] = 64.0
    ring.n[used] = 10
    for m in range(machines):
        ring.mean[m] = rng.random(ring.mean.shape[1:])
        ring.m2[m] = 1.0
        ring.max[m] = 1.0
    ring.slot_boot[used] = 1
    ring.minute[used] = 0.5
    ring.peak_hour[used] = ring.head[used] // 360
    ring.peak[used] = 0.5
    ring.first_minute[used] = ring.head[used] // 6 - 60
    partition.topic_id, partition.next_offset = "bench", 1
    partition.forget_written()
    partition.refresh_table()
    return partition


def one(machines: str, seconds: str, flush_s: str) -> None:
    """Print the figures of the checkout that is imported."""
    with tempfile.TemporaryDirectory() as folder:
        found = simulated(int(machines), float(seconds), float(flush_s), Path(folder))
    sys.stdout.write(json.dumps(found))


def main() -> None:
    """Print a table of figures, and of ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=[5_000, 20_000, 50_000])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--flush-s", type=float, default=0.06, help="time between two flushes of this checkout")
    parser.add_argument("--other-flush-s", type=float, default=0.06, help="the same of the other one")
    parser.add_argument("--against", type=Path, help="a source tree of the other commit")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    this = Path(__file__).resolve().parents[2]
    print("machines          " + "".join(f"{name:>12}" for name in FIGURES) + "    a second")
    for machines in options.machines:
        sides = {"other": options.against.resolve(), "this": this} if options.against else {"this": this}
        rounds = options.pairs if options.against else 1
        pace = {"other": options.other_flush_s, "this": options.flush_s}
        runs = [
            {side: measured(tree, machines, options.seconds, pace[side]) for side, tree in sides.items()}
            for _ in range(rounds)
        ]
        best = {side: {name: min(run[side][name] for run in runs) for name in FIGURES} for side in sides}
        for side, found in best.items():
            print(f"{machines:8,} {side:9}" + "".join(f"{found[name]:12.1f}" for name in FIGURES), flush=True)
        if options.against:
            ratios = "".join(f"{best['this'][name] / best['other'][name]:12.2f}" for name in FIGURES)
            print(f"{machines:8,} ratio    {ratios}", flush=True)


if __name__ == "__main__":
    main()
