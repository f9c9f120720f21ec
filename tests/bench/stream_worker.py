"""A worker that reads a topic to its end and says how fast: the real one, or one that does nothing with the messages.

``null`` is the same Faust app with the same settings, loop and batch call, and replaces only what happens to a batch;
``hopping`` keeps the statistics of one metric in Faust's own windows instead.
Prints one JSON line: messages, seconds and processor seconds between the first tenth and the end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

import uvloop
from redis.asyncio import Redis

from schemas.messages.sample import decode
from streams.state.partition import Partition
from streams.worker.app import StreamApp
from streams.worker.servers import OneServer, Servers
from streams.worker.settings import StreamSettings


class Timer:
    """Marks the first tenth and the end of the messages."""

    def __init__(self, total: int) -> None:
        self.total, self.count = total, 0
        self.begin: tuple[int, float, float] | None = None
        self.done = asyncio.Event()

    def add(self, count: int) -> None:
        """Count a batch."""
        self.count += count
        if self.begin is None and self.count >= self.total // 10:
            self.begin = (self.count, time.perf_counter(), time.process_time())
        if self.count >= self.total and not self.done.is_set():
            first, wall, cpu = self.begin or (0, 0.0, 0.0)
            result = {
                "messages": self.count - first,
                "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - cpu,
            }
            print(json.dumps(result), flush=True)
            self.done.set()


class NullApp(StreamApp):
    """Takes batches and drops them; writes nothing."""

    timer: Timer

    async def _fold_stream(self, stream: Any) -> None:
        async for events in stream.noack_take(self.settings.batch_messages, within=self.settings.batch_wait_s):
            self.timer.add(len(events))

    async def _tick_forever(self) -> None:
        await asyncio.sleep(1e9)


class FoldApp(StreamApp):
    """The real one, timed."""

    timer: Timer

    async def _fold(self, partition: Partition) -> None:
        taken = len(partition.pending)
        await super()._fold(partition)
        self.timer.add(taken)


class Summary(NamedTuple):
    """What a window of Faust's holds here: less than our windows do, no percentiles."""

    n: float = 0.0
    mean: float = 0.0
    m2: float = 0.0
    max: float = 0.0

    def __add__(self, other: Any) -> Summary:
        n = self.n + other.n
        distance = other.mean - self.mean
        return Summary(
            n,
            self.mean + distance * other.n / n,
            self.m2 + other.m2 + distance**2 * self.n * other.n / n,
            max(self.max, other.max),
        )


class HoppingApp(NullApp):
    """Faust's own way: a table of hopping windows, 900 s long, every 10 s; for one metric of the sample."""

    def __init__(self, settings: StreamSettings, redis: Redis, windows: Servers) -> None:
        super().__init__(settings, redis, windows)
        self.app.conf.topic_allow_declare = True
        self.table = self.app.Table("hops", default=Summary, partitions=settings.partitions).hopping(900, 10)
        # Without the changelog, which costs several times the update itself: the comparison is with the update alone.
        sent = SimpleNamespace(message=SimpleNamespace(partition=0))
        self.table.table.send_changelog = lambda *_, **__: sent

    async def _fold_stream(self, stream: Any) -> None:
        async for event in stream.events():
            sample = decode(event.value)
            cpu = sample.cpu
            self.table[sample.machine] += Summary(cpu.n, cpu.mean, cpu.m2, cpu.max)
            self.timer.add(1)


KINDS = {"null": NullApp, "fold": FoldApp, "hopping": HoppingApp}


async def run(kind: str, kafka: str, redis_url: str, prefix: str, total: int) -> None:
    """Run one worker to the end of the topic."""
    settings = StreamSettings(kafka=kafka, redis_url=redis_url, prefix=prefix, session_timeout_s=6.0, log_level="error")
    redis = Redis.from_url(redis_url)
    app = KINDS[kind](settings, redis, OneServer(redis))
    app.timer = Timer(total)
    app.app.finalize()
    await app.topic.await_topic()
    starting = asyncio.ensure_future(app.app.start())
    await asyncio.wait_for(app.timer.done.wait(), 300)
    starting.cancel()
    await app.app.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        asyncio.set_event_loop(runner.get_loop())
        runner.run(run(*sys.argv[1:5], int(sys.argv[5])))
