"""A worker that reads a topic to its end and says how fast: the real one, or one that does nothing with the messages.

``null`` is the same Faust app with the same settings, loop and batch call, and replaces only what happens to a batch.
Prints one JSON line: messages, seconds and processor seconds between the first tenth and the end.
"""

import asyncio
import json
import random
import subprocess
import sys
import time

import msgspec
import uvloop
from kafka import KafkaProducer
from redis.asyncio import Redis

from schemas.messages.sample import encode
from streams.worker.app import StreamApp
from streams.worker.servers import Servers
from streams.worker.settings import StreamSettings
from streams.worker.topics import TopicSettings, ensure_topics
from tests.support.pipeline import make_samples


class Timer:
    """Marks the first tenth and the end of the messages."""

    def __init__(self, total):
        self.total, self.count = total, 0
        self.begin = None
        self.done = asyncio.Event()

    def add(self, count):
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

    async def _fold_stream(self, stream):
        async for events in stream.noack_take(self.settings.batch_messages, within=self.settings.batch_wait_s):
            self.timer.add(len(events))

    async def _tick_forever(self):
        await asyncio.sleep(1e9)


class FoldApp(StreamApp):
    timer: Timer

    async def _fold(self, partition):
        taken = len(partition.pending)
        await super()._fold(partition)
        self.timer.add(taken)


KINDS = {"null": NullApp, "fold": FoldApp}


def publish(kafka, prefix, machines, messages):
    """Put the messages of one stretch of time on the topic: every machine once a slot, in time order."""
    ensure_topics(TopicSettings(kafka=kafka, prefix=prefix))
    publish_slots(kafka, prefix, machines, messages)


def publish_slots(kafka, prefix, machines, messages, may_go_on=lambda _: True):
    """Do the same on a topic that is there; after every slot wait until ``may_go_on(messages sent)``."""
    pattern = make_samples(min(machines, 500), 1)
    rng = random.Random(1)
    now = time.time()
    slots = -(-messages // machines)
    with KafkaProducer(bootstrap_servers=kafka, enable_idempotence=False, acks=1, linger_ms=20) as producer:
        for k in range(messages):
            slot, m = divmod(k, machines)
            while m == 0 and not may_go_on(k):
                time.sleep(0.02)
            sample = msgspec.structs.replace(
                rng.choice(pattern),
                machine=f"machine-{m:05d}",
                seq=slot,
                at=now - (slots - slot) * 10 + m % 100 / 10 - 20,
                nic=pattern[0].cpu,
            )
            producer.send(f"{prefix}.samples.v1", key=sample.machine.encode(), value=encode(sample))


def run_worker(kind, kafka, redis_url, prefix, messages):
    command = [sys.executable, "-m", "tests.bench.stream_worker", kind, kafka, redis_url, prefix, str(messages)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True)
    return json.loads(done.stdout)


async def _run(kind, kafka, redis_url, prefix, total):
    settings = StreamSettings(kafka=kafka, redis_url=redis_url, prefix=prefix, session_timeout_s=6.0, log_level="error")
    redis = Redis.from_url(redis_url)
    app = KINDS[kind](settings, redis, Servers(redis))
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
        runner.run(_run(*sys.argv[1:5], int(sys.argv[5])))
