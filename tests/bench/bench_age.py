"""From the end of a sample's interval to its being visible in an answer, under a fleet's load.

    python -m tests.bench.bench_age [--machines 5000] [--interval-s 10] [--probes 200]

A broker, a Valkey, one stream worker and one scorer run on this machine, with a fleet that publishes. Probe samples are
published one after another, stamped with the moment they are sent, and the scorer is asked about their machine until it
answers with that sample; the age also holds the asking. Prints p50, p99 and the largest, the processor share of each
process, and the bytes a second that Valkey receives. The floor is beside them: how long the same samples take through
the broker alone, from a producer to a bare consumer of their partition, under the same load.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import redis
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from ops.stack.servers.local import LocalBroker, LocalValkey
from ops.stack.servers.process import LocalProcess
from schemas.messages.sample import Moments, Sample, encode
from scorer.client import Client, WindwardError
from streams.worker.topics import TopicSettings, ensure_topics
from tests.bench.pairs import read_options
from tests.support.pipeline import await_condition


def windward(name, folder, *arguments):
    command = [sys.executable, "-m", "ops.cli.main", name, *arguments]
    return LocalProcess(name, command, log=folder / f"{name}.log").spawn()


def probe_ages(client, producer, probes, pause_s):
    """Return the age of each probe when it was first seen in an answer, in milliseconds."""
    ages = np.empty(probes)
    for seq in range(probes):
        at = send_probe(producer, seq)
        while newest_at(client) < at - 0.05:  # the probe before it is at least 0.1 s older
            time.sleep(0.002)
        ages[seq] = (time.time() - at) * 1000
        time.sleep(pause_s * (0.5 + seq % 10 / 10))
    return ages


def broker_ages(consumer, producer, probes, pause_s):
    """Return how long each probe took to a bare consumer of its partition, in milliseconds."""
    ages = np.empty(probes)
    for seq in range(probes):
        at = send_probe(producer, probes + seq)
        while not any(r.key == b"probe" for records in consumer.poll(1000).values() for r in records):
            pass
        ages[seq] = (time.time() - at) * 1000
        until_s = time.monotonic() + pause_s * (0.5 + seq % 10 / 10)
        while (left_s := until_s - time.monotonic()) > 0:
            consumer.poll(1000 * left_s)
    return ages


def send_probe(producer, seq):
    """Send a sample of the machine ``probe``, and return its moment: now."""
    at = time.time()
    moments = Moments(10, 1.0, 0.0, 1.0, 64.0)
    sample = Sample(v=1, machine="probe", boot=1, seq=seq, at=at, interval_s=10.0, cpu=moments, memory=moments)
    producer.send("windward.samples.v1", key=b"probe", value=encode(sample))
    return at


def newest_at(client):
    """Return the event time of the probe's newest sample in the scorer's view, to some milliseconds."""
    try:
        return time.time() - client.machines(names=["probe"])["machines"][0]["age_s"]
    except WindwardError:
        return 0.0


def measure(machines, interval_s, probes):
    folder = Path(tempfile.mkdtemp(prefix="windward-age-"))
    with LocalBroker() as broker, LocalValkey(directory=folder) as valkey:
        ensure_topics(TopicSettings(kafka=broker.address))
        to_kafka, to_redis = ("--kafka", broker.address), ("--redis-url", valkey.url)
        sizes = ("--machines", str(machines), "--interval-s", str(interval_s))
        processes = [
            windward("stream", folder, *to_kafka, *to_redis, "--session-timeout-s", "6"),
            windward("scorer", folder, *to_redis),
            windward("fleet", folder, *to_kafka, *sizes),
        ]
        try:
            with (
                Client(valkey.url) as client,
                KafkaProducer(bootstrap_servers=broker.address, acks=1) as producer,
                redis.Redis.from_url(valkey.url) as server,
            ):
                await_condition(lambda: known(client) >= machines, "every machine is known", 120)
                probe_ages(client, producer, 10, 0.2)
                watched = {p.name: psutil.Process(p.pid) for p in [*processes, broker, valkey]}
                before = {name: sum(p.cpu_times()[:2]) for name, p in watched.items()}
                received = server.info("stats")["total_net_input_bytes"]
                started = time.monotonic()
                ages = probe_ages(client, producer, probes, 0.2)
                seconds = time.monotonic() - started
                shares = {name: (sum(p.cpu_times()[:2]) - before[name]) / seconds * 100 for name, p in watched.items()}
                received = server.info("stats")["total_net_input_bytes"] - received
                last = producer.send("windward.samples.v1", key=b"probe", value=b"").get(30)
                consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, enable_auto_commit=False)
                consumer.assign([TopicPartition(last.topic, last.partition)])
                consumer.seek(TopicPartition(last.topic, last.partition), last.offset + 1)
                through = broker_ages(consumer, producer, probes // 2, 0.2)
                consumer.close()
        finally:
            for process in processes:
                process.kill()
    p50, p99 = np.percentile(ages, [50, 99])
    bare50, bare99 = np.percentile(through, [50, 99])
    figures = {"p50 ms": p50, "p99 ms": p99, "max ms": ages.max(), "MB/s written": received / seconds / 1e6}
    figures |= {"broker p50 ms": bare50, "broker p99 ms": bare99}
    return figures | {f"{name} %": share for name, share in shares.items()}


def main():
    options = read_options(__doc__, machines=5000, interval_s=10, probes=200)
    print(f"{options.machines} machines every {options.interval_s} s, {options.probes} probes (goal p99 250 ms)")
    figures = measure(options.machines, options.interval_s, options.probes)
    print(", ".join(f"{name} {value:.1f}" for name, value in figures.items()))


def known(client):
    try:
        return int(client.machines(limit=1)["total"])
    except WindwardError:
        return 0


if __name__ == "__main__":
    main()
