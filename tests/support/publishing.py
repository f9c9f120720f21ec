"""What the agent's and the fleet's integration tests share: real processes, their logs, and what the topic holds."""

import json
import re
import sys
import time
from typing import NamedTuple

from kafka import KafkaConsumer

from ops.stack.servers.process import LocalProcess
from schemas.messages.sample import Message, Sample, decode
from streams.worker.topics import TopicSettings, ensure_topics
from tests.support.fleet_label import without_fleet
from tests.support.pages import get

DEADLINE_S = 60.0


class Received(NamedTuple):
    key: bytes
    partition: int
    timestamp_s: float
    message: Message


def make_topics(broker, names):
    ensure_topics(
        TopicSettings(
            kafka=broker.address, prefix=names.prefix, replication=broker.replication, min_insync=broker.min_insync
        )
    )


def restart(broker, names, publisher):
    """Start a killed broker with its topics, while a publisher goes on.

    The local broker gives records that arrive while it makes a topic the offsets of others, and a reader skips them
    (in 18 of 42 tries; in none of 36 with a publisher that waits). So the publisher is frozen meanwhile.
    """
    if not broker.keeps_topics:
        publisher.pause()
    broker.start()
    make_topics(broker, names)
    if not broker.keeps_topics:
        publisher.resume()


def process(name, broker, names, folder, *arguments):
    """Return one ``windward`` command that is not started yet."""
    common = ["--kafka", broker.address, "--prefix", names.prefix, "--log-format", "json"]
    command = [sys.executable, "-m", "ops.cli.main", name, *common, *arguments]
    return LocalProcess(name, command, log=folder / f"{name}.log")


def events(process, event):
    """Return the log lines of one event so far."""
    lines = process.log.read_text().splitlines() if process.log.exists() else []
    parsed = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [line for line in parsed if line.get("event") == event]


def metric(agent, name):
    """Return one value, named with its labels, of an agent's Prometheus page; 0 while there is no page yet."""
    port = agent.command[agent.command.index("--metrics-port") + 1]
    status, page = get(int(port), "/metrics")
    return float(re.findall(rf"^{re.escape(name)} (\S+)$", without_fleet(page), re.MULTILINE)[0]) if status else 0.0


def receive(broker, names, until, deadline_s=DEADLINE_S):
    """Read the topic from its beginning until the condition holds."""
    consumer = KafkaConsumer(
        names.samples_topic,
        bootstrap_servers=broker.address.split(","),
        auto_offset_reset="earliest",
        group_id=None,
        enable_auto_commit=False,
    )
    received = []
    until_s = time.monotonic() + deadline_s
    try:
        while not until(received):
            assert time.monotonic() < until_s, f"not within {deadline_s} s; {len(received)} records so far"
            for records in consumer.poll(200).values():
                received += [
                    Received(record.key, record.partition, record.timestamp / 1000, decode(record.value))
                    for record in records
                ]
    finally:
        consumer.close()
    return received


def samples(received):
    return [found.message for found in received if isinstance(found.message, Sample)]
