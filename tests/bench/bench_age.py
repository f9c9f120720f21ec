"""From the end of a sample's interval to its being visible in an answer, under a fleet's load.

    python -m tests.bench.bench_age [--machines 5000] [--interval-s 10] [--probes 200]

A broker, a Valkey, one stream worker and one scorer run on this machine, with a fleet that publishes. Probe samples are
published one after another, stamped with the moment they are sent, and the scorer is asked about their machine until it
answers with that sample; the age also holds the asking. Prints p50 and p99, and the processor share of each process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from kafka import KafkaProducer

from ops.stack.servers.broker import LocalBroker
from ops.stack.servers.process import LocalProcess
from ops.stack.servers.valkey import LocalValkey
from schemas.messages.sample import Moments, Sample, encode
from scorer.client import Client, WindwardError
from streams.worker.topics import TopicSettings, ensure_topics
from tests.integration.pipeline import await_condition


def windward(name: str, folder: Path, *arguments: str) -> LocalProcess:
    """Start one of our processes."""
    return LocalProcess(
        name, [sys.executable, "-m", "ops.cli.main", name, *arguments], log=folder / f"{name}.log"
    ).spawn()


def probe_ages(client: Client, producer: KafkaProducer, probes: int, pause_s: float) -> np.ndarray:
    """Return the age of each probe when it was first seen in an answer, in milliseconds."""
    ages = np.empty(probes)
    for seq in range(probes):
        at = time.time()
        moments = Moments(10, 1.0, 0.0, 1.0, 64.0)
        sample = Sample(v=1, machine="probe", boot=1, seq=seq, at=at, interval_s=10.0, cpu=moments, memory=moments)
        producer.send("windward.samples.v1", key=b"probe", value=encode(sample))
        while newest_at(client) < at - 0.05:  # the probe before it is at least 0.1 s older
            time.sleep(0.002)
        ages[seq] = (time.time() - at) * 1000
        time.sleep(pause_s * (0.5 + seq % 10 / 10))
    return ages


def newest_at(client: Client) -> float:
    """Return the event time of the probe's newest sample in the scorer's view, to some milliseconds."""
    try:
        return time.time() - client.machines(names=["probe"])["machines"][0]["age_s"]
    except WindwardError:
        return 0.0


class Found(NamedTuple):
    """The ages in milliseconds, how long it took, and each process's share of a processor in per cent."""

    ages: np.ndarray
    seconds: float
    shares: dict[str, float]


def measure(machines: int, interval_s: int, probes: int) -> Found:
    """Run the pipeline under the load of a fleet; return the ages of the probes."""
    folder = Path(tempfile.mkdtemp(prefix="windward-age-"))
    with LocalBroker() as broker, LocalValkey(directory=folder) as valkey:
        ensure_topics(TopicSettings(kafka=broker.address))
        to_kafka, to_redis = ("--kafka", broker.address), ("--redis-url", valkey.url)
        processes = [
            windward("stream", folder, *to_kafka, *to_redis, "--session-timeout-s", "6"),
            windward("scorer", folder, *to_redis),
            windward("fleet", folder, *to_kafka, "--machines", str(machines), "--interval-s", str(interval_s)),
        ]
        try:
            with Client(valkey.url) as client, KafkaProducer(bootstrap_servers=broker.address, acks=1) as producer:
                await_condition(lambda: known(client) >= machines, "every machine is known", 120)
                watched = {p.name: psutil.Process(p.pid) for p in [*processes, broker, valkey]}
                before = {name: sum(p.cpu_times()[:2]) for name, p in watched.items()}
                started = time.monotonic()
                ages = probe_ages(client, producer, probes, 0.2)
                seconds = time.monotonic() - started
                shares = {name: (sum(p.cpu_times()[:2]) - before[name]) / seconds * 100 for name, p in watched.items()}
        finally:
            for process in processes:
                process.kill()
    return Found(ages, seconds, shares)


def main() -> None:
    """Print the ages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=5000)
    parser.add_argument("--interval-s", type=int, default=10)
    parser.add_argument("--probes", type=int, default=200)
    options = parser.parse_args()
    ages, seconds, shares = measure(options.machines, options.interval_s, options.probes)
    p50, p99 = np.percentile(ages, [50, 99])
    print(f"{options.machines} machines every {options.interval_s} s, {options.probes} probes in {seconds:.0f} s")
    print(f"sample to answer: p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {ages.max():.0f} ms (goal p99 250 ms)")
    print("processor: " + ", ".join(f"{name} {share:.0f} %" for name, share in shares.items()))


def known(client: Client) -> int:
    """Return how many machines the scorer has data of."""
    try:
        return int(client.machines(limit=1)["total"])
    except WindwardError:
        return 0


if __name__ == "__main__":
    main()
