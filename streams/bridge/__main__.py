"""``windward bridge telegraf|otel|node-exporter``: another agent's measurements as samples. Shell."""

import http.client
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from schemas.messages.sample import Message, encode
from schemas.process.settings import SettingsError, load_settings
from schemas.process.tables import Column, table
from schemas.process.version import product_version
from streams.agent.__main__ import begin, stop_event
from streams.agent.producer import connect
from streams.agent.publisher import Publisher
from streams.agent.sampling.backlog import Record
from streams.batches import PassedOver, read_with_kafka_python, unpacked
from streams.bridge.formats import otel, telegraf
from streams.bridge.formats.assembler import Assembler
from streams.bridge.formats.interfaces import counts
from streams.bridge.formats.node_exporter import interfaces
from streams.bridge.formats.points import Point, UnreadableError
from streams.bridge.scraping import Asker, Scraper
from streams.bridge.settings import AGENTS, BridgeSettings

log = logging.getLogger("windward.bridge")

POLL_MS = 500
REPORT_S = 60.0
AWAY_S = 2.0
FUTURE_TOLERANCE_S = 10.0
"""How far the clock of a host may be ahead of this one's; the stream app refuses samples further ahead."""

READERS = {
    "telegraf": (telegraf.read_points, "host", "telegraf"),
    "otel": (otel.read_points, "host.name", "otlp_metrics"),
}
"""By agent that writes to Kafka: what reads a message, the default key of the machine, and the default topic."""

SETTINGS = BridgeSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the bridge until told to stop; return 1 when samples were left undelivered."""
    if not argv or argv[0] not in AGENTS:
        if argv[:1] not in (["-h"], ["--help"]):
            raise SettingsError(f"which agent's messages? windward bridge {'|'.join(AGENTS)}")
        argv = ["telegraf", "--help"]
    agent = argv[0]
    settings = load_settings(BridgeSettings, f"bridge {agent}", argv[1:], environ, table="bridge")
    begin(settings)
    stop = stop_event()
    assembler = Assembler(
        int(time.time()),
        settings.interval_s,
        facts_interval_s=settings.facts_interval_s,
        nic_speed=settings.nic_bytes_s,
        cores=settings.cores,
        excluded=settings.excluded,
        labels=settings.labels,
        hand_over_s=max(3 * settings.every, 30.0),
        agent_version=f"bridge-{agent}-{product_version()}",
    )
    source = Topic(settings, agent) if agent in READERS else _scraped(settings)
    if settings.dry_run:
        if isinstance(source, Topic):
            raise SettingsError("dry_run: of node-exporter alone: only a scraped page says which interfaces count")
        return show(source, settings)
    publisher = Publisher(
        partial(connect, settings, "windward-bridge"), settings.names.samples_topic, settings.backlog_records
    )
    publisher.start()
    if isinstance(source, Topic):
        values: dict[str, Any] = {"agent": agent, "topic": source.name}
    else:
        values = {"agent": agent, "prometheus": settings.prometheus, "targets": len(settings.targets)}
    log.info("bridge.started", extra={"values": values})
    bridge(source, assembler, publisher, stop)
    left = publisher.close(settings.flush_s)
    log.info("bridge.stopped", extra={"values": {"delivered": publisher.counts.delivered, "undelivered": left}})
    return 1 if left else 0


def _scraped(settings: BridgeSettings) -> Scraper | Asker:
    """Return the scraper; raises SettingsError where no target is named."""
    how = settings.how
    if settings.prometheus:
        return Asker(settings.prometheus, settings.series, settings.machine_key, how)
    if not (targets := settings.targets):
        raise SettingsError("which node_exporters? Give --target, --targets-file or --prometheus")
    return Scraper(targets, how)


def show(source: Scraper | Asker, settings: BridgeSettings) -> int:
    """Print for each target the interfaces that count, and why others do not; return 1 if one cannot be read."""
    rows = []
    try:
        for machine, values in source.look():
            found = interfaces(values)
            for name, why in counts(found, settings.excluded).items():
                known = settings.nic_bytes_s or found[name].speed
                speed = f"{known * 8 / 1e9:g} Gbit/s" if known > 0 else "unknown"
                why_not = why or ("" if known > 0 else "its speed is unknown: --nic-speed")
                rows.append([machine, name, "no" if why_not else "yes", speed, why_not or "-"])
    except (OSError, http.client.HTTPException, UnreadableError) as error:
        log.warning("bridge.target.failed", extra={"values": {"error": str(error)[:200]}})
        return 1
    columns = [Column(title, left=True) for title in ("machine", "interface", "counts", "speed", "why not")]
    print(table(columns, rows))  # noqa: T201
    return 0


def bridge(
    source: "Scraper | Asker | Topic", assembler: Assembler, publisher: Publisher, stop: threading.Event
) -> None:
    """Publish the samples of a source until told to stop; log lacking resources, taken names, and the counts."""
    reported_s, told = time.monotonic(), set[tuple[str, str]]()

    def take(points: Sequence[Point]) -> None:
        nonlocal reported_s
        now_s = time.monotonic()
        publish(assembler.take(points, now_s, time.time() + FUTURE_TOLERANCE_S) + assembler.flush(now_s))
        for machine, (owner, other) in assembler.taken.items():
            if (machine, other) not in told:
                told.add((machine, other))
                values = {"machine": machine, "read": owner, "left_out": other, "mend": "NAME=HOST:PORT, --machine-key"}
                log.warning("bridge.name.taken", extra={"values": values})
        assembler.taken.clear()
        for machine, resource, why in assembler.lacking:
            values = {"machine": machine, "resource": resource, "why": why}
            log.warning("bridge.resource.lacking", extra={"values": values})
        assembler.lacking.clear()
        if now_s - reported_s >= REPORT_S:
            reported_s = now_s
            log.info("bridge.counts", extra={"values": {**source.counts, **assembler.counts}})

    def publish(messages: Sequence[Message]) -> None:
        if messages:
            publisher.publish([Record(one.machine.encode(), encode(one)) for one in messages])

    source.run(stop, take)
    publish(assembler.flush(time.monotonic(), 0.0))


class Topic:
    """The messages of a topic, read until told to stop; connects again after a failure of the broker."""

    def __init__(self, settings: BridgeSettings, agent: str) -> None:
        self._settings = settings
        self._read, key, topic = READERS[agent]
        self._key, self.name = settings.machine_key or key, settings.topic or topic
        self.counts = {"unreadable": 0, "unreadable-batches": 0}
        self._batches = PassedOver()

    def run(self, stop: threading.Event, take: Callable[[Sequence[Point]], None]) -> None:
        while not stop.is_set():
            try:
                self._consume(stop, take)
            except (KafkaError, OSError) as error:
                log.warning("bridge.broker.away", extra={"values": {"error": f"{type(error).__name__}: {error}"}})
                stop.wait(AWAY_S)

    def _consume(self, stop: threading.Event, take: Callable[[Sequence[Point]], None]) -> None:
        settings = self._settings
        consumer = KafkaConsumer(
            self.name,
            **settings.kafka_python_arguments(),
            group_id=settings.group or f"{settings.prefix}-bridge",
            auto_offset_reset="earliest" if settings.from_start else "latest",
            bootstrap_timeout_ms=5_000,
            session_timeout_ms=10_000,
        )
        read_with_kafka_python(consumer, self._batches)
        try:
            while not stop.is_set():
                records = [record for some in consumer.poll(POLL_MS).values() for record in some]
                self.counts["unreadable-batches"] = self._batches.count
                take([point for record in records for point in self._points(record)])
        finally:
            consumer.close()

    def _points(self, record: Any) -> Sequence[Point]:
        try:
            return self._read(unpacked(record.value or b""), self._key)
        except ValueError as error:  # UnreadableError, or of its packing
            self.counts["unreadable"] += 1
            if self.counts["unreadable"] == 1:
                log.warning("bridge.unreadable", extra={"values": {"error": str(error)[:200]}})
            return ()
