"""A stream worker without Kafka: samples arrive at a pace, are folded, and are written as the worker writes them.

`WindowWriter` is where windows are published: it folds by the product's `Partition` and writes by its `Store`, so that
a checkout writes in its own format. Each machine begins with a full hour, filled as arrays, for making it by messages
takes minutes. The slots of that hour are written only where the fleet is `whole`: only a worker that starts reads them.

`fleet_writer` is the process: it waits for ``go``, publishes every machine once, then a tenth of the fleet a second,
until ``pause``. So the data of a side that waits for its turn is fresh again when the turn begins.
"""

import asyncio
import multiprocessing
import time
from contextlib import contextmanager

import msgspec
import numpy as np
from redis.asyncio import Redis

from schemas.messages.sample import MachineFacts, Moments, Sample
from schemas.names import SLOT_S, Names
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition
from streams.worker.store import Store

try:
    from streams.fold.batch import Arrived
except ImportError:  # 8ddc875a
    from streams.fold.arrivals import Arrived

PARTITIONS = 8
WINDOWS_S = (300, 900, 3600)
INTERVAL_S = 10.0
FLUSH_S = 0.05
SLOW_S = 60.0
"""How long the first write of a large fleet may take, beside seven others."""
"""The worker's shortest time between two writes."""
ZONES, RACKS, DISKS = 10, 50, ("ssd", "hdd")
CPUS = (32.0, 64.0, 96.0)
NIC, DISK = 1.25e9, 5e8


def labels_of(number):
    return {"zone": f"z{number % ZONES}", "rack": f"r{number % RACKS}", "disk": DISKS[number // ZONES % len(DISKS)]}


class WindowWriter:
    """The partitions of a fleet: samples arrive, and what changed is published."""

    def __init__(self, machines, now, *, partitions=PARTITIONS, whole=False):
        rng = np.random.default_rng(1)
        self._cpu = np.array(CPUS)[rng.integers(0, len(CPUS), machines)]
        self._memory = self._cpu * rng.choice([4e9, 8e9], machines)
        self._load = rng.beta(2, 4, machines)
        self._dice = rng
        self._seq = 0
        self._next = 0
        self._count = machines
        self.partitions = [self._partition(np.arange(n, machines, partitions), n, now) for n in range(partitions)]
        for partition in self.partitions if not whole else ():
            partition.positions[:] = False
            partition.hours.clear()

    def _partition(self, rows, number, now):
        partition = Partition(number, Table(WINDOWS_S, Zone()))
        names = [machine_name(row) for row in rows]
        facts = [
            MachineFacts(v=1, machine=name, boot=1, at=now, labels=labels_of(int(row)))
            for row, name in zip(rows, names, strict=True)
        ]
        partition.topic_id, partition.next_offset = "bench", 1
        ring, used = partition.ring, slice(0, len(rows))
        ring.add(names)
        capacity = np.stack([*(np.broadcast_to(one, len(rows)) for one in self._capacity(rows).values())], axis=1)
        mean = capacity * self._load[rows, None]
        ring.head[used] = int(now // SLOT_S) - 2
        ring.at[used] = (ring.head[used] + 1) * SLOT_S - 5.0
        ring.boot[used] = 1
        ring.capacity[used] = capacity
        ring.n[used] = 10
        ring.mean[used] = mean[:, :, None]
        ring.m2[used] = (10 * (0.2 * mean) ** 2)[:, :, None]
        ring.max[used] = (1.3 * mean)[:, :, None]
        ring.slot_boot[used] = 1
        ring.minute[used] = mean[:, :, None]
        ring.peak_hour[used] = int(now // 3600)
        ring.peak[used] = (1.2 * mean)[:, :, None]
        ring.first_minute[used] = int(now // 60) - 60
        partition.fold([Arrived(1 + n, _encode(each), now, None) for n, each in enumerate(facts)], now)
        partition.next_offset += len(facts)
        partition.forget_written()
        return partition

    def _capacity(self, rows):
        """Return the capacity by resource, in the order of `schemas.resources`."""
        return {"cpu": self._cpu[rows], "memory": self._memory[rows], "nic": NIC, "disk": DISK}

    def messages(self, count, now):
        """Return by partition a sample of each of the next machines, and of the first ones after the last."""
        arrived = [[] for _ in self.partitions]
        factors = self._dice.uniform(0.7, 1.3, count)
        self._seq += 1
        for number, factor in zip(range(self._next, self._next + count), factors, strict=True):
            row = number % self._count
            number_of = row % len(self.partitions)
            offset = self.partitions[number_of].next_offset + len(arrived[number_of])
            arrived[number_of].append(Arrived(offset, _encode(self._sample(row, factor, now)), now, None))
        self._next += count
        return arrived

    def fold(self, arrived):
        for partition, messages in zip(self.partitions, arrived, strict=True):
            if messages:
                partition.fold(messages, messages[-1].recorded_at)
                partition.next_offset += len(messages)

    def _sample(self, row, factor, now):
        load = float(min(0.95, self._load[row] * factor))
        moments = {
            name: Moments(10, load * of, 10 * (0.1 * load * of) ** 2, 1.2 * load * of, of)
            for name, of in ((name, float(of)) for name, of in self._capacity(row).items())
        }
        return Sample(v=1, machine=machine_name(row), boot=1, seq=self._seq, at=now, interval_s=INTERVAL_S, **moments)

    async def publish(self, store):
        """Write what changed and wake the readers, as the worker's flush does."""
        changed = [one for one in self.partitions if one.unwritten]
        await asyncio.gather(*(store.save(one, time.time()) for one in changed))
        if changed:
            await store.announce(one.number for one in changed)


def machine_name(row):
    return f"machine-{row:06d}"


def _encode(message):
    return msgspec.json.encode(message)


def open_store(url):
    """Return a connection and the worker's store on it."""
    redis = Redis.from_url(url, socket_timeout=SLOW_S)
    return redis, Store(redis, Names())


async def begin(redis, store, machines, *, whole=False):
    """Return the writer of a fleet after its first write."""
    writer = WindowWriter(machines, time.time(), whole=whole)
    await redis.set(Names().partitions, PARTITIONS)
    await writer.publish(store)
    return writer


async def _write(url, machines, control):
    redis, store = open_store(url)
    async with redis:
        writer = await begin(redis, store, machines)
        control.send("ready")
        while control.recv() == "go":
            writer.fold(writer.messages(machines, time.time()))
            await writer.publish(store)
            control.send("fresh")
            started, done, cpu_s, written = time.monotonic(), 0, time.process_time(), 0
            while not control.poll():
                await asyncio.sleep(FLUSH_S)
                due = int((time.monotonic() - started) * machines / INTERVAL_S) - done
                writer.fold(writer.messages(due, time.time()))
                await writer.publish(store)
                done, written = done + due, written + 1
            control.recv()
            elapsed_s = time.monotonic() - started
            said = {
                "worker share": (time.process_time() - cpu_s) / elapsed_s,
                "samples a second": done / elapsed_s,
                "flushes a second": written / elapsed_s,
            }
            control.send(said)


def _run(url, machines, control):
    asyncio.run(_write(url, machines, control))


@contextmanager
def fleet_writer(url, machines):
    """Yield a function that tells the writer ``go`` or ``pause``, and returns what it said of its work."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_run, args=(url, machines, theirs), daemon=True)
    process.start()
    theirs.close()
    assert ours.recv() == "ready"

    def tell(word):
        ours.send(word)
        said = ours.recv()
        return said if isinstance(said, dict) else {}

    try:
        yield tell
    finally:
        process.kill()
        process.join()
