"""The rounds of the recorder: take messages; when it is time, read the ledger and the state, and write one entry.

A source that is away is tried again in the next round; the others are read. While the entry cannot be written it is
kept in memory, and no message is taken: they wait in Kafka.
"""

import logging
import threading
import time
from collections.abc import Callable

import msgspec
import redis
from kafka.errors import KafkaError

from ops.record.entry import Decision, Entry, Facts, Gap, Position, RecordingError, pack
from ops.record.folder import Folder, files, hour_of
from ops.record.gathering import Gathering, Names
from ops.record.ledger_log import LedgerLog, News
from ops.record.samples import Samples
from ops.record.state import State
from schemas.process.metrics import Table, counter, gauge
from schemas.resources import RESOURCES
from scorer.ledger.record.transition import UnknownFormat
from scorer.wire import AWAY
from streams.fold.admission import REASONS

SOURCES = ("samples", "ledger", "decisions")


class Metrics(Table):
    """The recorder's metrics, in a registry of their own."""

    PROCESS = "record"

    entries = counter("windward_record_entries", "Entries written")
    written = counter("windward_record_written_bytes", "Bytes written")
    figures = counter("windward_record_figures", "Figures written, by kind", kind=("usage", "load"))
    changes = counter("windward_record_changes", "Changes of the ledger written")
    decisions = counter("windward_record_decisions", "Decisions written")
    refused = counter(
        "windward_record_messages_refused", "Messages not recorded, by reason", reason=(*REASONS, "far", "names")
    )
    gaps = counter("windward_record_gaps", "Times a source no longer had what was next", source=SOURCES)
    lost = counter("windward_record_lost_messages", "Messages the topic kept no longer")
    failures = counter("windward_record_failures", "Rounds that failed", part=("kafka", "redis", "disk"))
    removed = counter("windward_record_removed_files", "Files removed for room")
    size = gauge("windward_record_size_bytes", "Bytes of all files")
    limit = gauge("windward_record_limit_bytes", "Bytes that all files may have")
    oldest = gauge("windward_record_oldest_timestamp_seconds", "Beginning of the oldest file")
    newest = gauge("windward_record_last_entry_timestamp_seconds", "When the last entry was written")


log = logging.getLogger("windward.record")

POLL_S = 0.5
AGAIN_S = 1.0
SAMPLES_MAX = 200_000
"""The number of samples that ends a round early."""


class Recorder:
    """``connect`` makes the source of samples; raises KafkaError."""

    def __init__(
        self,
        folder: Folder,
        connect: Callable[[], Samples],
        ledger: LedgerLog,
        state: State,
        gathering: Gathering,
        metrics: Metrics,
        *,
        position: Position,
        version: str,
        write_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._connect, self._ledger, self._state = folder, connect, ledger, state
        self._gathering, self._metrics = gathering, metrics
        self._version, self._write_s, self._clock = version, write_s, clock
        self._samples: Samples | None = None
        self.position = position
        self._hosts, self._pairs = Names(), Names()
        self._facts: dict[str, Facts] = {}
        self._operator: dict[str, bytes] | None = None
        self._due_s = clock() + write_s
        self._kept: Entry | None = None
        self._said: dict[str, str] = {}
        self.last_entry_s = 0.0

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Return whether an entry was written recently, and the errors by part."""
        age_s = self._clock() - self.last_entry_s
        return age_s <= 3 * self._write_s + 10 and not self._said, {"trouble": "; ".join(self._said.values())}

    def run(self, stop: threading.Event) -> None:
        """Record until ``stop`` is set; the messages taken until then are written."""
        self.write()
        while not stop.is_set():
            if self._kept is not None or not self.take():
                stop.wait(AGAIN_S)
            if self._clock() >= self._due_s or len(self._gathering) >= SAMPLES_MAX or self._kept is not None:
                self.write()
        self.write()
        self._folder.release()
        if self._samples is not None:
            self._samples.close()

    def take(self) -> bool:
        """Take new messages; return whether the broker answered."""
        now_s = self._clock()
        try:
            if self._samples is None:
                self._samples = self._connect()
            records = self._samples.poll(min(POLL_S, max(self._due_s - now_s, 0.01)), now_s)
        except (KafkaError, OSError) as error:
            self._fails("kafka", error)
            if self._samples is not None:
                self._remember(self._samples)
                self._samples.close()
                self._samples = None
            return False
        self._works("kafka")
        self._gathering.take(
            [one.value for one in records],
            [(one.timestamp or -1) / 1000 for one in records],
            [one.key for one in records],
        )
        return True

    def write(self) -> None:
        """Write one entry: the one kept after a failed write, or a new one."""
        now_s = self._clock()
        self._due_s = now_s + self._write_s
        entry = self._kept if self._kept is not None else self._entry(now_s)
        try:
            size = self._folder.write(entry)
        except (OSError, RecordingError) as error:
            self._fails("disk", error)
            self._kept = entry
            return
        self._works("disk")
        self._kept = None
        self.last_entry_s = now_s
        self._count(entry, size)

    def _entry(self, now_s: float) -> Entry:
        first = self._folder.begins(now_s)
        if first:
            self._hosts, self._pairs = Names(), Names()
        gaps: list[Gap] = []
        news = News()
        decisions: list[Decision] = []
        try:
            news = self._ledger.read(now_s)
            self._state.read_machines()
            decisions, gap = self._state.read_decisions()
            gaps += [gap] if gap is not None else []
            self._works("redis")
        except (*AWAY, redis.ResponseError, UnknownFormat) as error:
            self._fails("redis", error)
        gaps += [news.gap] if news.gap is not None else []
        load, usage = self._gathering.figures(self._hosts, self._pairs, now_s)
        if self._samples is not None:
            gaps += self._samples.take_gaps(now_s)
        labels, capacity = self._state.labels, self._gathering.capacity
        facts = {name: Facts(capacity.get(name, {}), labels.get(name, {})) for name in sorted({*labels, *capacity})}
        operator = self._state.operator
        entry = Entry(
            at=now_s,
            version=self._version if first else "",
            resources=list(RESOURCES) if first else [],
            facts=facts if first else {name: one for name, one in facts.items() if self._facts.get(name) != one},
            gone=[] if first else sorted(self._facts.keys() - facts.keys()),
            operator=operator if first or operator != self._operator else None,
            full=first or news.full,
            instances=[*news.records, *self._ledger.live.values()] if first and not news.full else news.records,
            decisions=decisions,
            pairs=self._pairs.take(),
            usage=pack(usage),
            machines=self._hosts.take(),
            load=pack(load),
            gaps=gaps,
            refused=self._gathering.take_refused(),
            position=self._go_on(),
        )
        self._facts, self._operator = facts, operator
        self._metrics.figures.labels("usage").inc(len(usage))
        self._metrics.figures.labels("load").inc(len(load))
        self._metrics.changes.inc(len(news.records))
        return entry

    def _remember(self, samples: Samples) -> None:
        offsets = {str(number): offset for number, offset in samples.offsets.items()}
        self.position = msgspec.structs.replace(self.position, topic_id=samples.topic_id, offsets=offsets)

    def _go_on(self) -> Position:
        """Return the position reached in each source."""
        if self._samples is not None:
            self._remember(self._samples)
        self.position = msgspec.structs.replace(
            self.position, epoch=self._ledger.epoch, change=self._ledger.change, decision=self._state.decision
        )
        return self.position

    def _count(self, entry: Entry, size: int) -> None:
        metrics = self._metrics
        metrics.entries.inc()
        metrics.written.inc(size)
        metrics.decisions.inc(len(entry.decisions))
        for reason, count in entry.refused.items():
            metrics.refused.labels(reason).inc(count)
        for gap in entry.gaps:
            metrics.gaps.labels(gap.source).inc()
            metrics.lost.inc(gap.lost if gap.source == "samples" else 0)
            values = {"source": gap.source, "since": gap.since, "until": gap.until, "lost": gap.lost, "why": gap.why}
            log.warning("record.gap", extra={"values": values})
        metrics.size.set(self._folder.size())
        metrics.limit.set(self._folder.bytes_max)
        metrics.newest.set(entry.at)
        metrics.removed.inc(self._folder.removed)
        self._folder.removed = 0
        if found := files(self._folder.path):
            metrics.oldest.set(hour_of(found[0]))

    def _fails(self, part: str, error: Exception) -> None:
        self._metrics.failures.labels(part).inc()
        said = f"{part}: {type(error).__name__}: {error}"
        if part not in self._said:
            log.warning("record.source.away", extra={"values": {"part": part, "error": str(error)}})
        self._said[part] = said

    def _works(self, part: str) -> None:
        if self._said.pop(part, None) is not None:
            log.info("record.source.back", extra={"values": {"part": part}})
