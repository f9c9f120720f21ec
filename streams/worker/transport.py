"""Faust's Kafka transport with a shorter wait of fetches. Shell.

Faust asks brokers to hold a fetch for 1.5 s when there is nothing new, and has no setting for it. Apache Kafka answers
as soon as there is a record. With a broker that checks only at intervals while it holds a fetch (Tansu: twice) samples
were 400 ms old at the median before they were read.
"""

from __future__ import annotations

from typing import Any

from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport

FETCH_WAIT_MS = 50


class _Thread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # taken up when the consumer starts
        return consumer


class _Consumer(Consumer):
    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class QuickTransport(Transport):
    """Faust's own transport except for the wait."""

    Consumer = _Consumer
