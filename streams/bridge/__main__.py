"""``windward bridge telegraf|otel|node-exporter``: another agent's measurements as samples. Shell."""

import http.client
import logging
import threading
import time
from collections.abc import Mapping, Sequence
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
from streams.bridge.scraping import Asker, How, Scraper
from streams.bridge.settings import AGENTS, BridgeSettings

log = logging.getLogger("windward.bridge")

POLL_MS = 500
REPORT_S = 60.0
AWAY_S = 2.0
FUTURE_TOLERANCE_S = 10.0
"""How far the clock of a host may be ahead of this one's; the stream app refuses samples further ahead."""

READERS = {"telegraf": (telegraf.read_points, "host"), "otel": (otel.read_points, "host.name")}


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
    source = _scraped(settings) if agent == "node-exporter" else None
    if settings.dry_run:
        if source is None:
            raise SettingsError("dry_run: of node-exporter alone: only a scraped page says which interfaces count")
        return show(source, settings)
    publisher = Publisher(
        partial(connect, settings, "windward-bridge"), settings.names.samples_topic, settings.backlog_records
    )
    publisher.start()
    if source is None:
        log.info("bridge.started", extra={"values": {"agent": agent, "topic": settings.source(agent)}})  # type: ignore[arg-type]
        Bridge(settings, agent, assembler, publisher).run(stop)
    else:
        values = {"agent": agent, "prometheus": settings.prometheus, "targets": len(settings.targets)}
        log.info("bridge.started", extra={"values": values})
        scrape(source, assembler, publisher, stop)
    left = publisher.close(settings.flush_s)
    log.info("bridge.stopped", extra={"values": {"delivered": publisher.counts.delivered, "undelivered": left}})
    return 1 if left else 0


def _scraped(settings: BridgeSettings) -> Scraper | Asker:
    """Return the scraper; raises SettingsError where no target is named."""
    how = How(settings.every, settings.timeout_s, settings.credentials, settings.excluded)
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


def scrape(source: Scraper | Asker, assembler: Assembler, publisher: Publisher, stop: threading.Event) -> None:
    output = Output(assembler, publisher, source.counts)

    def take(points: Sequence[Point]) -> None:
        output.take(points)
        output.turn()

    source.run(stop, take)
    output.end()


class Output:
    """Publishes the samples of an assembler; logs resources that machines lack, and the counts every `REPORT_S`."""

    def __init__(self, assembler: Assembler, publisher: Publisher, counts: Mapping[str, int]) -> None:
        """``counts``: those of the reader."""
        self._assembler, self._publisher, self._counts = assembler, publisher, counts
        self._reported_s = time.monotonic()
        self._told = set[tuple[str, str]]()

    def take(self, points: Sequence[Point]) -> None:
        self._publish(self._assembler.take(points, time.monotonic(), time.time() + FUTURE_TOLERANCE_S))

    def turn(self) -> None:
        """Publish complete samples; log once each resource that a machine lacks, and each name that is taken."""
        assembler, now_s = self._assembler, time.monotonic()
        self._publish(assembler.flush(now_s))
        for machine, (owner, other) in assembler.taken.items():
            if (machine, other) not in self._told:
                self._told.add((machine, other))
                values = {"machine": machine, "read": owner, "left_out": other, "mend": "NAME=HOST:PORT, --machine-key"}
                log.warning("bridge.name.taken", extra={"values": values})
        assembler.taken.clear()
        for machine, resource, why in assembler.lacking:
            log.warning(
                "bridge.resource.lacking", extra={"values": {"machine": machine, "resource": resource, "why": why}}
            )
        assembler.lacking.clear()
        if now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            log.info("bridge.counts", extra={"values": {**self._counts, **assembler.counts}})

    def end(self) -> None:
        self._publish(self._assembler.flush(time.monotonic(), 0.0))

    def _publish(self, messages: Sequence[Message]) -> None:
        if messages:
            self._publisher.publish([Record(one.machine.encode(), encode(one)) for one in messages])


class Bridge:
    """Reads until told to stop; connects again after a failure of the broker."""

    def __init__(self, settings: BridgeSettings, agent: str, assembler: Assembler, publisher: Publisher) -> None:
        self._settings = settings
        self._agent = agent
        self._read, key = READERS[agent]
        self._key = settings.machine_key or key
        self._counts = {"unreadable": 0, "unreadable-batches": 0}
        self._output = Output(assembler, publisher, self._counts)
        self._batches = PassedOver()

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._consume(stop)
            except (KafkaError, OSError) as error:
                log.warning("bridge.broker.away", extra={"values": {"error": f"{type(error).__name__}: {error}"}})
                stop.wait(AWAY_S)
        self._output.end()

    def _consume(self, stop: threading.Event) -> None:
        settings = self._settings
        consumer = KafkaConsumer(
            settings.source(self._agent),  # type: ignore[arg-type]
            **settings.kafka_python_arguments(),
            group_id=settings.group or f"{settings.prefix}-bridge",
            auto_offset_reset="earliest" if settings.from_start else "latest",
            bootstrap_timeout_ms=5_000,
            session_timeout_ms=10_000,
        )
        read_with_kafka_python(consumer, self._batches)
        try:
            while not stop.is_set():
                for records in consumer.poll(POLL_MS).values():
                    self._take(records)
                self._counts["unreadable-batches"] = self._batches.count
                self._output.turn()
        finally:
            consumer.close()

    def _take(self, records: Sequence[Any]) -> None:
        for record in records:
            try:
                points = self._read(unpacked(record.value or b""), self._key)
            except ValueError as error:  # UnreadableError, or of its packing
                self._counts["unreadable"] += 1
                if self._counts["unreadable"] == 1:
                    log.warning("bridge.unreadable", extra={"values": {"error": str(error)[:200]}})
            else:
                self._output.take(points)
