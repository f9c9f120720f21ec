"""The producer of Kafka records that a publisher uses, and its settings. Shell.

- ``enable_idempotence=False, acks=1``: an idempotent producer can fail permanently after its broker restarted without
its state. A record sent twice does no harm: a slot is set, not added to.
- ``max_in_flight_requests_per_connection=1``: with more, a batch that is sent again arrives behind the one after it.
- Topics are never created from here, since they would get the broker's default partition count. A missing topic is
handled like a missing broker.
- The record's timestamp is the time of sending. Where the topic keeps it the reader compares ``at`` with it, to learn
  how far the machine's clock is off and to refuse messages from the future. Where the broker replaces it by its own,
  the answer shows the agent the error of its clock (`streams.agent.broker_clock`).
"""

import logging
from typing import Any

from kafka import KafkaProducer
from kafka.errors import InvalidRecordError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from kafka.partitioner.default import DefaultPartitioner

from schemas.process.connections import KafkaSettings

log = logging.getLogger("windward.publisher")

REFUSALS = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidRecordError)
"""Errors of the record, not of the broker: sending it again would fail again."""


class CachingPartitioner(DefaultPartitioner):  # type: ignore[misc]
    """Kafka's partitioner, with its result cached by machine: the hash in Python costs more than the rest of a send."""

    def __init__(self) -> None:
        self._partitions: dict[bytes, int] = {}
        self._count = 0

    def partition(self, topic: str, key: Any, serialized_key: bytes, value: Any, raw: bytes, cluster: Any) -> int:
        count = len(cluster.partitions_for_topic(topic) or ())
        if count != self._count:
            self._partitions.clear()
            self._count = count
        found = self._partitions.get(serialized_key)
        if found is None:
            found = super().partition(topic, key, serialized_key, value, raw, cluster)
            self._partitions[serialized_key] = found
        return found


def connect(settings: KafkaSettings, client_id: str, linger_ms: int = 5, batch_bytes: int = 65_536) -> KafkaProducer:
    """Return a producer; raises KafkaError when no broker answers within two seconds."""
    return KafkaProducer(
        **settings.kafka_python_arguments(),
        client_id=client_id,
        enable_idempotence=False,
        acks=1,
        max_in_flight_requests_per_connection=1,
        linger_ms=linger_ms,
        batch_size=batch_bytes,
        max_block_ms=1_000,
        request_timeout_ms=8_000,
        delivery_timeout_ms=10_000,
        bootstrap_timeout_ms=2_000,
        reconnect_backoff_max_ms=2_000,
        allow_auto_create_topics=False,
        metrics_enabled=False,
        partitioner=CachingPartitioner(),
    )


def wait(future: Any, timeout_s: float) -> None:
    """Wait until the future is done, or for ``timeout_s``; its exception is not raised."""
    try:
        future.get(timeout_s)
    except Exception:
        return


def close(producer: KafkaProducer) -> None:
    """Close the producer. Its error about records without a result is only logged: they are in the backlog again."""
    try:
        producer.close(timeout=0)
    except KafkaError as error:
        log.debug("publisher.close.failed", extra={"values": {"error": in_words(error)}})


def in_words(error: BaseException | None) -> str:
    """Return an error with its type in front, but not twice: messages of kafka-python begin with it.

    >>> in_words(ValueError("wrong")), in_words(ValueError("ValueError: wrong"))
    ('ValueError: wrong', 'ValueError: wrong')
    """
    kind = f"{type(error).__name__}: "
    return kind + str(error).removeprefix(kind)
