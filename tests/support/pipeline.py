"""What the recovery tests share: samples made beforehand, real workers, and the tables they must end with."""

import os
import random
import sys
import time
from collections import defaultdict

import numpy as np
import redis
from kafka import KafkaProducer

from ops.stack.servers.process import LocalProcess
from schemas.messages.sample import Moments, Sample, encode
from schemas.resources import RESOURCES
from schemas.tables.window_table import aligned
from scorer.cluster_wire import wire_to
from scorer.live.windows_reader import asking, read_windows
from scorer.wire import AWAY
from streams.worker.topics import TopicSettings, ensure_topics
from tests.streams import oracle

WINDOWS_S = (300, 900, 3600)
SESSION_TIMEOUT_S = {"tansu": 3, "apache": 6}[os.environ.get("WINDWARD_TEST_KAFKA", "tansu")]
"""Half of it is what the local broker waits for members of a new group, all of it until it gives up a killed worker;
6 is the least that Apache Kafka takes."""


def await_condition(condition, what, deadline_s=120.0):
    """Return the condition's value as soon as it is true; fail with ``what`` at the deadline."""
    deadline = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.05)


def make_samples(machines, slots, seed=1, end=None):
    """One sample a machine and slot, in time order, ending now; every machine has a phase of its own."""
    rng = random.Random(seed)
    end = time.time() - 20 if end is None else end
    samples = []
    for slot in range(slots):
        for m in range(machines):
            cpu, memory = rng.uniform(0, 60), rng.uniform(1e9, 6e10)
            samples.append(
                Sample(
                    v=1,
                    machine=f"m{m:03d}",
                    boot=1,
                    seq=slot,
                    at=end // 10 * 10 - (slots - slot) * 10 + (m * 7 % 100) / 10,
                    interval_s=10.0,
                    cpu=Moments(10, cpu, rng.uniform(0, 9), cpu + 2, 64.0),
                    memory=Moments(10, memory, rng.uniform(0, 1e18), memory * 1.1, 6.87e10),
                )
            )
    return samples


class Pipeline:
    """A broker, a Redis and any number of workers, and every sample that was published."""

    def __init__(self, broker, redis_url, names, folder, partitions=4, windows_url=""):
        self.broker, self.redis_url, self.names, self.folder = broker, redis_url, names, folder
        self.windows_url = windows_url
        self.partitions = partitions
        self.published = []
        self.workers = []
        self._producer = None
        self._windows = wire_to({"url": windows_url or redis_url})
        self._wanted = {}
        self.ensure_topics()

    def ensure_topics(self):
        ensure_topics(
            TopicSettings(
                kafka=self.broker.address,
                prefix=self.names.prefix,
                partitions=self.partitions,
                replication=self.broker.replication,
                min_insync=self.broker.min_insync,
            )
        )

    def start_worker(self, *more):
        arguments = [
            *("--kafka", self.broker.address, "--redis-url", self.redis_url, "--prefix", self.names.prefix),
            *(("--windows-url", self.windows_url) if self.windows_url else ()),
            *("--session-timeout-s", str(SESSION_TIMEOUT_S), "--partitions", str(self.partitions)),
            *("--replication", str(self.broker.replication), "--min-insync", str(self.broker.min_insync)),
            *("--broker-check-s", "1", "--flush-interval-s", "0.2", *more),
        ]
        name = f"worker-{len(self.workers)}"
        log = self.folder / f"{name}.log"
        worker = LocalProcess(name, [sys.executable, "-m", "ops.cli.main", "stream", *arguments], log=log).spawn()
        self.workers.append(worker)
        return worker

    def publish(self, samples, keep=True):
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self.broker.address.split(","), acks="all", linger_ms=5, retries=100
            )
        sent = [self._producer.send(self.names.samples_topic, key=s.machine.encode(), value=encode(s)) for s in samples]
        self._producer.flush()
        for future in sent:
            future.get(timeout=60)
        if keep:
            self.published.extend(samples)

    def forget_producer(self):
        """Drop the producer: its broker was replaced."""
        if self._producer is not None:
            self._producer.close(timeout=0)
            self._producer = None

    def rows(self):
        """Every machine's columns as Redis has them; empty while Redis is away."""
        rows = {}
        try:
            found = read_windows(self._windows, self.names, self.partitions)
        except (redis.RedisError, *AWAY):
            return rows
        for table in (windows.whole() for windows in found.windows):
            columns = {name: column for name in table.columns if (column := aligned(table, name)) is not None}
            for m, machine in enumerate(table.machines):
                rows[machine] = {name: column[..., m] for name, column in columns.items()}
        return rows

    def mismatch(self):
        """What differs between the tables and the oracle over all published samples; empty when nothing does."""
        wanted = defaultdict(list)
        for sample in self.published:
            wanted[sample.machine].append(sample)
        rows = self.rows()
        if rows.keys() != wanted.keys():
            return f"machines: {sorted(rows)[:3]}... {len(rows)} of {len(wanted)}"
        for machine, samples in wanted.items():
            if rows[machine]["at"] != max(s.at for s in samples):
                return f"{machine} is behind"
        for machine, samples in wanted.items():
            if difference := _difference(rows[machine], self._oracle(machine, samples, float(rows[machine]["end"]))):
                return f"{machine}: {difference}"
        return ""

    def _oracle(self, machine, samples, end):
        """Return the columns a machine must have, computed once for the samples there are now."""
        key = machine, len(samples), end
        if key not in self._wanted:
            self._wanted[key] = _columns(samples, end)
        return self._wanted[key]

    def await_exact(self, deadline_s=120.0):
        """Wait until the tables are those of an undisturbed run."""
        deadline = time.monotonic() + deadline_s
        while difference := self.mismatch():
            if time.monotonic() > deadline:
                logs = "\n".join(f"== {w.name}\n{w.output_end(15)}" for w in self.workers)
                raise AssertionError(f"not exact within {deadline_s} s: {difference}\n{logs}")
            time.sleep(0.2)

    def await_folded(self, samples, deadline_s=120.0):
        """Wait until the states in Redis go at least so many messages far."""
        await_condition(lambda: self.folded() >= samples, f"{samples} messages folded", deadline_s)

    def folded(self):
        """How many messages the states in Redis go far, over all partitions; of a server started anew, too."""
        ask, commands = (
            asking(self._windows),
            [("HMGET", self.names.state(p), "offset") for p in range(self.partitions)],
        )
        try:
            found = ask(commands)
        except AWAY:  # the connection was to the server before
            found = ask(commands)
        return sum(int(offset or 0) for (offset,) in found)

    def close(self):
        for worker in self.workers:
            if worker.running:
                worker.kill()
        self.forget_producer()
        self._windows.close()


def _columns(samples, end):
    """Return by column, window and resource what the oracle says of one machine's samples."""
    columns = {}
    yesterday, today, tomorrow = oracle.utc_days((end - 1) // 10 * 10)
    for r, resource in enumerate(RESOURCES):
        for w, window_s in enumerate(WINDOWS_S):
            for name, value in oracle.window(samples, resource, window_s).items():
                columns.setdefault(name, {})[w, r] = value
        for name, begin, stop in (("peak_today", today, tomorrow), ("peak_yesterday", yesterday, today)):
            columns.setdefault(name, {})[(r,)] = oracle.peak(samples, resource, begin, stop)
    return columns


def _difference(row, wanted):
    for name, values in wanted.items():
        for place, value in values.items():
            got = row[name][place]
            same = got == value if name == "filled" else np.allclose(got, value, rtol=1e-6, atol=0, equal_nan=True)
            if not same:
                return f"{name} is {got}, wanted {value}, at {place} of windows and resources"
    return ""
