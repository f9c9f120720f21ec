"""Source: the samples topic, all partitions, read without a group, so that no other reader's offsets change."""

from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from ops.record.entry import Gap, Position
from schemas.process.connections import KafkaSettings
from streams.batches import PassedOver, read_with_kafka_python
from streams.worker.topics import topic_id

_AT_ONCE = 5_000
_LOOK_S = 60.0


class Samples:
    """``offsets``: the next message by partition; gaps are messages that the topic has already deleted."""

    def __init__(self, settings: KafkaSettings, position: Position, at: float, now_s: float) -> None:
        """Connect; raises KafkaError. ``at``: when the position was written."""
        self._topic = settings.names.samples_topic
        self.topic_id = topic_id(settings)
        self._gaps: list[Gap] = []
        self._consumer = KafkaConsumer(
            **settings.kafka_python_arguments(),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=_AT_ONCE,
            bootstrap_timeout_ms=5_000,
        )
        read_with_kafka_python(self._consumer, PassedOver())
        self._at = at or now_s
        self.offsets: dict[int, int] = {}
        self._known: Mapping[str, int] = position.offsets if position.topic_id in ("", self.topic_id) else {}
        if position.offsets and not self._known:
            self._gaps.append(Gap("samples", self._at, now_s, why="the topic was made anew"))
        self._look(now_s, begin=bool(position.topic_id))

    def _look(self, now_s: float, *, begin: bool = True) -> None:
        """Assign new partitions; ``begin``: from their beginning, else from their end."""
        self._looked_s = now_s
        found = self._consumer.partitions_for_topic(self._topic) or set()
        fresh = [TopicPartition(self._topic, number) for number in sorted(found - self.offsets.keys())]
        if not fresh:
            return
        first, last = self._consumer.beginning_offsets(fresh), self._consumer.end_offsets(fresh)
        for one in fresh:
            known = self._known.get(str(one.partition))
            start = (first if begin else last)[one] if known is None else known
            if start < first[one]:
                why = "the topic no longer has them: raise its retention, or restart the recorder sooner"
                self._gaps.append(Gap("samples", self._at, now_s, first[one] - start, why))
                start = first[one]
            elif start > last[one]:
                self._gaps.append(Gap("samples", self._at, now_s, 0, "the broker lost messages"))
                start = first[one]
            self.offsets[one.partition] = start
        self._consumer.assign([TopicPartition(self._topic, number) for number in self.offsets])
        for number, offset in self.offsets.items():
            self._consumer.seek(TopicPartition(self._topic, number), offset)

    def poll(self, timeout_s: float, now_s: float) -> list[Any]:
        """Return new messages; raises KafkaError."""
        if now_s - self._looked_s >= _LOOK_S:
            self._look(now_s)
        found: list[Any] = []
        for partition, records in self._consumer.poll(timeout_ms=int(timeout_s * 1000)).items():
            expected = self.offsets.get(partition.partition, records[0].offset)
            if records[0].offset > expected:  # the broker dropped them while they waited
                lost = records[0].offset - expected
                self._gaps.append(Gap("samples", self._at, now_s, lost, "the topic no longer has them"))
            self.offsets[partition.partition] = records[-1].offset + 1
            found += records
        return found

    def take_gaps(self, now_s: float) -> list[Gap]:
        """Return the gaps since the last call."""
        gaps, self._gaps = self._gaps, []
        self._at = now_s
        return gaps

    def close(self) -> None:
        self._consumer.close()
