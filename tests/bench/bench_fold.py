"""Samples per second of one stream worker, everything on, against a null worker in the same run.

    python -m tests.bench.bench_fold [--machines 1000] [--messages 200000] [--rounds 3]

Prints both rates of every round and the median ratio, by wall clock and by processor time (the latter is steadier on a
shared machine). Then what a sample and metric cost beyond the null worker, against Faust's ``hopping(900, 10)`` of
n, mean, m2 and max without its changelog; and the memory a machine takes in Redis.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import redis
from kafka import KafkaProducer

from ops.stack.servers.broker import LocalBroker
from ops.stack.servers.valkey import LocalValkey
from schemas.messages.sample import encode
from schemas.resources import RESOURCES
from streams.worker.topics import TopicSettings, ensure_topics
from tests.support.pipeline import make_samples

HOPPING_MESSAGES = 2_000


def publish(kafka: str, prefix: str, machines: int, messages: int) -> None:
    """Put the messages of one stretch of time on the topic: every machine once a slot, in time order."""
    ensure_topics(TopicSettings(kafka=kafka, prefix=prefix))
    publish_slots(kafka, prefix, machines, messages)


def publish_slots(
    kafka: str, prefix: str, machines: int, messages: int, may_go_on: Callable[[int], bool] = lambda _: True
) -> None:
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


def run(kind: str, kafka: str, redis_url: str, prefix: str, messages: int) -> dict[str, float]:
    """Run one worker over the topic and return what it measured."""
    command = [sys.executable, "-m", "tests.bench.stream_worker", kind, kafka, redis_url, prefix, str(messages)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ratios, cpu_ratios, null_us, fold_us = [], [], [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBroker() as broker,
        LocalValkey(directory=Path(folder)) as valkey,
    ):
        for n in range(options.rounds):
            prefix = f"bench{n}"
            publish(broker.address, prefix, options.machines, options.messages)
            null = run("null", broker.address, valkey.url, prefix, options.messages)
            fold = run("fold", broker.address, valkey.url, prefix, options.messages)
            rates = [r["messages"] / r["seconds"] for r in (null, fold)]
            cpu = [r["cpu_seconds"] / r["messages"] * 1e6 for r in (null, fold)]
            null_us.append(cpu[0])
            fold_us.append(cpu[1])
            ratios.append(rates[1] / rates[0])
            cpu_ratios.append(cpu[0] / cpu[1])
            print(
                f"round {n}: null {rates[0]:,.0f}/s {cpu[0]:.1f} us  fold {rates[1]:,.0f}/s {cpu[1]:.1f} us"
                f"  ratio {ratios[-1]:.2f}  by processor time {cpu_ratios[-1]:.2f}",
                flush=True,
            )
            with redis.Redis.from_url(valkey.url) as client:
                used = sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(f"{prefix}:*"))
                print(f"         Redis: {used / options.machines / 1000:.1f} kB a machine")
                client.flushall()
        prefix = "bench-hopping"
        publish(broker.address, prefix, 100, HOPPING_MESSAGES)
        hopping = run("hopping", broker.address, valkey.url, prefix, HOPPING_MESSAGES)
    hopping_us = hopping["cpu_seconds"] / hopping["messages"] * 1e6 - statistics.median(null_us)
    ours_us = (statistics.median(fold_us) - statistics.median(null_us)) / len(RESOURCES)
    print(
        f"a sample and metric beyond the null worker: Faust hopping(900, 10) {hopping_us:.0f} us,"
        f" ours {ours_us:.1f} us, {hopping_us / ours_us:.0f} times (goal 100)"
    )
    print(f"fold / null: median {statistics.median(ratios):.2f} by wall clock (goal 0.75)")
    print(f"             median {statistics.median(cpu_ratios):.2f} by processor time")


if __name__ == "__main__":
    main()
