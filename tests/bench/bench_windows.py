"""How the cost of the fold, of the table and of reading it grow with the fleet; in one process, without Kafka.

    python -m tests.bench.bench_windows [--machines 5000 10000 25000 50000] [--partitions 8]

For each size: processor time a sample from raw message to folded ring, a table row, memory a machine in the worker and
in Redis, and the time to read all windows as the scorer does, against one hash a machine read by pipelined HGETALL with
the same numbers in it. Cost per sample must not grow with the number of machines.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import psutil
import redis
from redis.asyncio import Redis

from ops.stack.servers.valkey import LocalValkey
from schemas.messages.sample import encode
from schemas.names import Names
from scorer.live.windows_reader import read_windows
from streams.fold.arrivals import Arrived
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition
from streams.worker.store import Store
from tests.integration.pipeline import make_samples

WINDOWS_S = (300, 900, 3600)
HOUR_SLOTS = 360
ROUNDS = 5


def full_partition(number: int, machines: int, now: float) -> Partition:
    """Return a partition whose machines have a full hour; filled as arrays, for making it by messages takes minutes."""
    partition = Partition(number, Table(WINDOWS_S, Zone()))
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
    ring.peak_hour[used] = ring.head[used] // HOUR_SLOTS
    ring.peak[used] = 0.5
    ring.first_minute[used] = ring.head[used] // 6 - 60
    partition.topic_id, partition.next_offset = "bench", 1
    partition.forget_written()
    partition.refresh_table()
    return partition


def fold_cost(partition: Partition, now: float, batch: int) -> tuple[float, float]:
    """Return the processor microseconds a sample from message to ring, and a table row."""
    machines = partition.ring.machines[:batch]
    pattern = make_samples(50, 1, end=now)
    fold_us, row_us = [], []
    for step in range(ROUNDS):
        at = now + step * 10
        raw = [
            encode(msgspec.structs.replace(pattern[m % 50], machine=machine, at=at, seq=step, nic=pattern[m % 50].cpu))
            for m, machine in enumerate(machines)
        ]
        arrived = [Arrived(n, value, at + 0.01, None) for n, value in enumerate(raw)]
        started = time.process_time()
        partition.fold(arrived)
        folded = time.process_time()
        partition.refresh_table()
        fold_us.append((folded - started) / len(raw) * 1e6)
        row_us.append((time.process_time() - folded) / len(raw) * 1e6)
    return min(fold_us), min(row_us)


def measure(machines: int, partitions: int, folder: Path) -> dict[str, float]:
    """Return the figures of one fleet size."""
    now = time.time() // 10 * 10
    before = psutil.Process().memory_info().rss
    each = machines // partitions
    held = [full_partition(p, each, now) for p in range(partitions)]
    worker_kb = (psutil.Process().memory_info().rss - before) / machines / 1000
    fold_us, row_us = fold_cost(held[0], now, min(each, 600))
    names = Names("bench")
    with LocalValkey(directory=folder) as valkey:
        save_ms = asyncio.run(save_all(valkey.url, names, held))
        with redis.Redis.from_url(valkey.url) as client:
            redis_kb = sum(client.memory_usage(k, samples=0) for k in client.scan_iter("bench:*")) / machines / 1000
            table_ms = best(lambda: read_tables(client, names, partitions))
            write_hashes(client, held, WINDOW_NUMBERS)
            hash_ms = best(lambda: read_hashes(client, held))
    return {
        "fold_us": fold_us,
        "row_us": row_us,
        "worker_kb": worker_kb,
        "redis_kb": redis_kb,
        "save_ms": save_ms,
        "table_ms": table_ms,
        "hash_ms": hash_ms,
    }


WINDOW_NUMBERS = 3 * 3 * 9
"""Statistics of three windows and three resources: what a row of the table and a hash alike hold."""


async def save_all(url: str, names: Names, held: list[Partition]) -> float:
    """Write everything, then one position more of each; return the milliseconds of the latter, all partitions."""
    async with Redis.from_url(url) as client:
        store = Store(client, names)
        for partition in held:
            await store.save(partition, time.time())
        for partition in held:
            partition.positions[7] = True
            partition.next_offset += 1
            partition.changed = True
        started = time.perf_counter()
        await asyncio.gather(*(store.save(partition, time.time()) for partition in held))
        return (time.perf_counter() - started) * 1000


def read_tables(client: redis.Redis, names: Names, partitions: int) -> list:
    """Read all window tables as columns."""
    return read_windows(client, names, partitions).windows


def write_hashes(client: redis.Redis, held: list[Partition], numbers: int) -> None:
    """Write one hash a machine, as a store without tables would."""
    fields = {f"f{n}": "12.345678" for n in range(numbers)}
    for partition in held:
        with client.pipeline(transaction=False) as pipe:
            for machine in partition.ring.machines:
                pipe.hset(f"hash:{machine}", mapping=fields)
            pipe.execute()


def read_hashes(client: redis.Redis, held: list[Partition]) -> list:
    """Read every machine's hash in one pipeline."""
    with client.pipeline(transaction=False) as pipe:
        for partition in held:
            for machine in partition.ring.machines:
                pipe.hgetall(f"hash:{machine}")
        return pipe.execute()


def best(call: object) -> float:
    """Return the milliseconds of the fastest of some rounds."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return min(times)


def main() -> None:
    """Measure each size in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=[5_000, 10_000, 25_000, 50_000])
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(
                msgspec.json.encode(measure(options.machines[0], options.partitions, Path(folder))).decode()
            )
        return
    print("machines  fold us/sample  table us/row  worker kB  Redis kB  write ms  read ms  HGETALL ms  ratio")
    for machines in options.machines:
        command = [sys.executable, "-m", "tests.bench.bench_windows", "--one", "--machines", str(machines)]
        done = subprocess.run(command, capture_output=True, check=True, timeout=300)
        r = msgspec.json.decode(done.stdout)
        print(
            f"{machines:8,}  {r['fold_us']:14.1f}  {r['row_us']:12.1f}  {r['worker_kb']:9.1f}  {r['redis_kb']:8.1f}"
            f"  {r['save_ms']:8.1f}  {r['table_ms']:7.2f}  {r['hash_ms']:10.1f}  {r['hash_ms'] / r['table_ms']:5.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
