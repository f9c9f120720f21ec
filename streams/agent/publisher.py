"""Publishing that never blocks its caller and survives a lost broker. Shell: a thread of its own talks to Kafka.

    publish() ──→ backlog (bounded, drop oldest) ──→ in flight (bounded) ──→ acknowledged
                     ↑                                      │
                     └──── failed or unanswered, in order ──┘

Chosen, each because the alternative failed in a test:

- kafka-python's own queue has no bound in bytes while the broker is away, so it is given at most ``in_flight_most``
records; the others wait here.
- The constructor fails when the broker is away, so it is tried again in the thread, with growing pauses. After a round
  that failed the producer is built anew: one that holds records it cannot send takes 5 % of a core, and one whose
  broker came back as another may never recover.
- The sending thread reads the results off the futures. With callbacks, code of this module would run in
  kafka-python's thread, and the order of the records that failed would be lost.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError

from streams.agent.broker_clock import BrokerClock
from streams.agent.producer import REFUSALS, close, in_words, wait
from streams.agent.sampling.backlog import Backlog, Record
from streams.agent.sampling.counts import Counts

log = logging.getLogger("windward.publisher")

BACKOFF_S = (0.2, 5.0)
UNANSWERED_S = 20.0
"""Twice the time after which kafka-python itself gives a record up: no result by then is a producer that hangs."""


@dataclass
class _Round:
    """The counts from one check of the sends in flight."""

    delivered: int = 0
    failed: int = 0
    refused: int = 0
    error: BaseException | None = None


class _Sent(NamedTuple):
    record: Record
    future: Any
    """Of kafka-python; ``value.timestamp``: the time stamp in the topic, epoch ms."""
    at_ms: int
    """When it was sent, by this machine's clock."""


@dataclass(eq=False)
class Publisher:
    """A thread between the sampler and the broker. ``connect`` builds a producer or raises."""

    connect: Callable[[], KafkaProducer]
    topic: str
    backlog_records: int
    in_flight_most: int = 500
    counts: Counts = field(default_factory=Counts)
    backoff_s: tuple[float, float] = BACKOFF_S

    def __post_init__(self) -> None:
        self._backlog = Backlog(self.backlog_records)
        self._in_flight: list[_Sent] = []
        self._clock = BrokerClock()
        self._changed = threading.Condition()
        self._stop_at_s: float | None = None
        """Monotonic time after which undelivered records are given up; None while running."""
        self._away = False
        self._answered_s = 0.0
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def publish(self, records: Iterable[Record]) -> None:
        """Add records to the backlog; never blocks, drops the oldest when the backlog is full."""
        with self._changed:
            self.counts.dropped += self._backlog.push(records)
            self.counts.waiting = len(self._backlog)
            self._changed.notify_all()

    def wait_for_room(self, records: int, timeout_s: float) -> bool:
        """Wait until so many records fit without dropping one; for a caller that can wait, such as a replay."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._backlog) + records <= self._backlog.limit, timeout_s)

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until everything is delivered, dropped or refused."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._backlog and not self._in_flight, timeout_s)

    def close(self, deadline_s: float) -> int:
        """Deliver the remaining records within ``deadline_s`` and stop; return how many were given up."""
        with self._changed:
            self._stop_at_s = time.monotonic() + deadline_s
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(deadline_s + 5.0)
        with self._changed:
            return len(self._backlog) + len(self._in_flight)

    # ---- the thread

    def _run(self) -> None:
        backoff_s = self.backoff_s[0]
        while not self._over():
            try:
                producer = self.connect()
            except (KafkaError, OSError) as error:
                self._note_away(error)
            else:
                self.counts.connections += 1
                try:
                    delivered = self._pump(producer)
                finally:
                    close(producer)
                    self._return_in_flight()
                if delivered:
                    backoff_s = self.backoff_s[0]
            self._pause(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311
            backoff_s = min(backoff_s * 2, self.backoff_s[1])

    def _pump(self, producer: KafkaProducer) -> bool:
        """Send until a round fails or until told to stop; return whether anything was delivered."""
        delivered = 0
        while not self._over():
            result = self._send_some(producer)
            self._settle(result)
            delivered += result.delivered
            if result.failed:
                self.counts.send_failures += 1
                self._note_away(result.error)
                self._drain_in_flight()
                break
            if result.delivered and self._away:
                self._away = False
                values = {"waiting": self.counts.waiting, "dropped": self.counts.dropped}
                log.info("publisher.broker.back", extra={"values": values})
        return delivered > 0

    def _send_some(self, producer: KafkaProducer) -> _Round:
        """Send as many records as fit in flight; wait for a record or a result when there is none to send."""
        with self._changed:
            if not self._backlog and not self._in_flight:
                self._changed.wait(None if self._stop_at_s is None else 0.05)
            if not self._in_flight:
                self._answered_s = time.monotonic()  # nothing was unanswered while there was nothing to send
            records = self._backlog.take(self.in_flight_most - len(self._in_flight))
            self.counts.waiting = len(self._backlog)
        result = _Round()
        for position, record in enumerate(records):
            now_ms = int(1e3 * time.time())
            try:
                future = producer.send(self.topic, value=record.value, key=record.key, timestamp_ms=now_ms)
            except REFUSALS as error:
                result.refused += 1
                result.error = error
            except (KafkaError, OSError, ValueError) as error:
                result.failed += 1
                result.error = error
                self._put_back(records[position:])
                break
            else:
                self._in_flight.append(_Sent(record, future, now_ms))
        return result

    def _settle(self, result: _Round) -> None:
        """Wait a moment for the oldest result, then take all completed results, oldest first, up to a failure."""
        if self._in_flight:
            wait(self._in_flight[0].future, 0.1)
        settled, now_s, last = 0, time.monotonic(), None
        for sent in self._in_flight:
            future = sent.future
            if not future.is_done:
                break
            if isinstance(future.exception, REFUSALS):
                result.refused += 1
                result.error = future.exception
            elif future.exception is not None:
                result.failed += 1
                result.error = future.exception
                break
            else:
                result.delivered += 1
                last = sent
            settled += 1
        if settled or not self._in_flight:
            self._answered_s = now_s
        elif not result.failed and now_s - self._answered_s > UNANSWERED_S:
            result.failed += 1
            result.error = TimeoutError(f"no result for {UNANSWERED_S:g} s")
        with self._changed:
            del self._in_flight[:settled]
            self.counts.in_flight = len(self._in_flight)
            self.counts.delivered += result.delivered
            self.counts.refused += result.refused
            if result.delivered:
                self.counts.last_delivery_s = time.time()
            self._changed.notify_all()
        if last is not None:
            self._compare_clocks(last)
        if result.refused:
            values = {"records": result.refused, "error": in_words(result.error)}
            log.error("publisher.records.refused", extra={"values": values})

    def _compare_clocks(self, sent: _Sent) -> None:
        """Update the offset of this clock from one acknowledged record; log when it becomes wrong, and when right."""
        clock = self._clock
        changed = clock.note(sent.at_ms / 1e3, sent.future.value.timestamp / 1e3, time.time())
        self.counts.clock_ahead_s = clock.ahead_s
        if changed:
            level = logging.WARNING if clock.is_off else logging.INFO
            event = "publisher.clock.off" if clock.is_off else "publisher.clock.right"
            log.log(level, event, extra={"values": {"ahead_s": clock.ahead_s}})

    def _drain_in_flight(self) -> None:
        """Wait for every result: failed records return to the backlog in order; delivered ones are not sent twice."""
        end_s = time.monotonic() + UNANSWERED_S
        for _, future, _ in self._in_flight:
            while not future.is_done and not self._over() and time.monotonic() < end_s:
                wait(future, 0.2)

    def _return_in_flight(self) -> None:
        with self._changed:
            failed = [
                record for record, future, _ in self._in_flight if not future.is_done or future.exception is not None
            ]
            self.counts.delivered += len(self._in_flight) - len(failed)
            self._in_flight = []
            self.counts.in_flight = 0
        self._put_back(failed)

    def _put_back(self, records: list[Record]) -> None:
        with self._changed:
            self.counts.dropped += self._backlog.put_back(records)
            self.counts.waiting = len(self._backlog)
            self._changed.notify_all()

    def _over(self) -> bool:
        """Return whether to stop: `close` was called, and no record is left or the deadline has passed."""
        with self._changed:
            if self._stop_at_s is None:
                return False
            return (not self._backlog and not self._in_flight) or time.monotonic() >= self._stop_at_s

    def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the deadline."""
        end_s = time.monotonic() + seconds
        with self._changed:
            while (left_s := min(end_s, self._stop_at_s or end_s) - time.monotonic()) > 0:
                if self._stop_at_s is not None and not self._backlog and not self._in_flight:
                    return
                self._changed.wait(left_s)

    def _note_away(self, error: BaseException | None) -> None:
        """Log once that the broker is away."""
        if not self._away:
            self._away = True
            log.warning("publisher.broker.away", extra={"values": {"error": in_words(error)}})
