"""The stream app: Faust reads the samples, `Partition` folds them, `Store` keeps the state. Shell.

Faust's own offsets are not the truth here (a committed offset is not state): each partition's state in Redis says how
far it goes, and reading is moved there. Acknowledgements are therefore off, which also makes Faust's loop cheaper; the
offsets of written state are committed now and then for the sake of tools that show lag.

    assigned -> load from Redis -> seek to its offset -> take -> fold and write every 50 ms -> revoked: write, keep
                                                                   |
                                          Redis holds more than we do: another owner -> load again
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import faust
import numpy as np
from aiokafka.errors import IllegalStateError
from faust.types import TP
from kafka.errors import KafkaError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from streams.fold import active, skew_s
from streams.metrics import Metrics
from streams.partition import Arrived, Partition
from streams.peaks import Zone
from streams.settings import StreamSettings
from streams.store import StateAheadError, Store
from streams.table import Table
from streams.topics import ensure_topics, topic_id
from streams.transport import QuickTransport

log = logging.getLogger("windward.stream")

RESEEK_S = 0.5
"""Shortest time between two seeks of one partition: what was fetched before the seek has to drain."""

HOLE_SEEKS = 4
"""A hole met again after so many seeks is one of the log itself (retention, transaction markers)."""

STALLED_S = 5.0
"""A partition with messages ahead of which none arrives for so long may be read from elsewhere."""

SKIP_MESSAGES = 5_000
"""More known messages ahead than this are skipped by a seek rather than read."""

PENDING_MAX = 20_000
"""Messages of a partition taken and not folded, at most: beyond, reading waits for the next write."""

CATCHING_UP_MESSAGES = 5_000
"""Further behind than this, the share of time spent writing is limited: throughput before freshness."""

FLUSH_WAIT_S_MAX = 5.0
"""Longest pause between two writes, however long they take."""

SWEEP_S = 60.0
"""Time between two looks for machines that have been silent too long."""

COMMIT_S = 3.0
TICK_S = 0.5


class StreamApp:
    """One worker: the Faust app, the partitions it holds, and the tasks beside it."""

    def __init__(self, settings: StreamSettings, redis: Redis) -> None:
        self.settings = settings
        self.names = settings.names
        self.metrics = Metrics(version("windward"))
        self.redis = redis
        self.store = Store(redis, self.names)
        self.partitions: dict[int, Partition] = {}
        self.owned: set[int] = set()
        self.topic_id = ""
        self.redis_ok: bool | None = None
        self._broker_away = False
        self._loading: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._seeks: dict[int, tuple[int, int, float]] = {}
        self._still: dict[int, tuple[int, float]] = {}
        self._committed: dict[int, int] = {}
        self._flush_lock = asyncio.Lock()
        self._flush_s = 0.0
        self.app = _faust_app(settings)
        self.samples = self.app.topic(
            self.names.samples_topic, key_serializer="raw", value_serializer="raw", acks=False, partitions=None
        )
        self.rejects = self.app.topic(self.names.rejects_topic, key_serializer="raw", value_serializer="raw")
        self.app.agent(self.samples, name="fold")(self._fold_stream)
        signals: Any = self.app
        signals.on_partitions_assigned.connect(self._on_assigned)
        signals.on_partitions_revoked.connect(self._on_revoked)
        self.app.task(self._flush_forever)
        self.app.task(self._tick_forever)
        self.app.task(self._watch_topic_forever)

    # ---- assignment

    async def _on_assigned(self, _app: Any, assigned: Any, **_: Any) -> None:
        self.owned = {tp.partition for tp in assigned if tp.topic == self.names.samples_topic}
        self._seeks.clear()
        self._still.clear()
        self.metrics.rebalances.inc()
        self.metrics.partitions.set(len(self.owned))
        log.info("stream.assigned", extra={"values": {"partitions": sorted(self.owned)}})

    async def _on_revoked(self, _app: Any, *_: Any, **__: Any) -> None:
        await self._flush()
        self.owned = set()

    async def _partition(self, number: int) -> Partition | None:
        """Return the partition, loaded from Redis unless what is in memory is still what Redis holds; None: not now."""
        if number not in self.owned:
            return None
        partition = self.partitions.get(number)
        if partition is not None and partition.topic_id:
            return partition
        async with self._loading[number]:
            if self.partitions.get(number) is None:
                await self._load(number)
        return self.partitions.get(number) if number in self.owned else None

    async def _load(self, number: int) -> None:
        if not self.topic_id:
            return
        started = time.perf_counter()
        try:
            partition = await self.store.load(number, self._table)
        except RedisError as error:
            self._redis_failed("load", error)
            return
        if partition.topic_id != self.topic_id:
            if partition.topic_id:
                log.warning(
                    "stream.topic-changed", extra={"values": {"partition": number, "stored": partition.position}}
                )
            partition.topic_id, partition.next_offset = self.topic_id, 0
        self.partitions[number] = partition
        self.metrics.load_s.observe(time.perf_counter() - started)
        log.info(
            "stream.loaded",
            extra={"values": {"partition": number, "machines": len(partition.ring), "offset": partition.next_offset}},
        )
        await self._seek(partition)

    def _table(self) -> Table:
        return Table(self.settings.windows_s, Zone(self.settings.time_zone))

    async def _seek(self, partition: Partition) -> None:
        """Have the partition read on from where its state ends.

        Not by Faust's ``seek``: that runs in this thread and takes away records while aiokafka's, in its own thread,
        is reading them, which ends the worker with a KeyError; ``seek_wait`` runs over there.
        """
        tp = TP(self.names.samples_topic, partition.number)
        if tp in self.app.consumer.assignment():
            self.metrics.seeks.inc()
            try:
                await self.app.consumer.seek_wait({tp: partition.next_offset})
            except IllegalStateError:
                log.info("stream.seek-late", extra={"values": {"partition": partition.number}})  # revoked meanwhile

    # ---- folding

    async def _fold_stream(self, stream: Any) -> None:
        async for events in stream.noack_take(self.settings.batch_messages, within=self.settings.batch_wait_s):
            arrived: dict[int, list[Arrived]] = defaultdict(list)
            for event in events:
                message = event.message
                arrived[message.partition].append(
                    Arrived(message.offset, message.value, message.timestamp, message.key)
                )
            for number, messages in arrived.items():
                await self._take(number, messages)

    async def _take(self, number: int, arrived: Sequence[Arrived]) -> None:
        partition = await self._partition(number)
        if partition is None:
            return
        before = partition.next_offset
        beyond = partition.take(arrived)
        if partition.next_offset > before:
            self._seeks.pop(number, None)
        if beyond is not None:
            await self._mend_hole(partition, beyond)
        elif partition.next_offset - arrived[-1].offset > SKIP_MESSAGES:
            await self._reseek(partition, arrived[-1].offset)
        if len(partition.pending) > PENDING_MAX:
            await self._flush()

    async def _fold(self, partition: Partition) -> None:
        """Fold what was taken, count it, and keep what was refused."""
        if not partition.pending:
            return
        started = time.perf_counter()
        outcome = partition.fold_pending()
        self.metrics.fold_s.observe(time.perf_counter() - started)
        for name, count in outcome.counts.items():
            what, _, reason = name.partition(":")
            self.metrics.messages.labels(what).inc(count)
            if reason:
                self.metrics.rejected.labels(reason).inc(count)
        if outcome.refused:
            await self._keep_refused(outcome.refused)

    async def _keep_refused(self, refused: Sequence[tuple[Arrived, Any]]) -> None:
        """Keep refused messages, unchanged, on the rejects topic, before the offset that passes them is written."""
        sent = [
            await self.rejects.send(
                key=message.key,
                value=message.value,
                headers={"reason": one.reason.encode(), "detail": one.detail.encode()[:500]},
            )
            for message, one in refused
        ]
        for reason in {one.reason for _, one in refused}:
            example = next(one for _, one in refused if one.reason == reason)
            log.warning("stream.rejected", extra={"values": {"reason": reason, "detail": example.detail[:200]}})
        try:
            await asyncio.wait_for(asyncio.gather(*sent), timeout=10)
        except (TimeoutError, KafkaError, OSError) as error:
            log.error("stream.rejects-lost", extra={"values": {"messages": len(refused), "error": repr(error)}})  # noqa: TRY400

    async def _mend_hole(self, partition: Partition, beyond: int) -> None:
        """Fetch again from where the state ends; a hole that stays is one of the log and is stepped over."""
        if await self._reseek(partition, beyond) >= HOLE_SEEKS:
            log.warning(
                "stream.hole",
                extra={"values": {"partition": partition.number, "from": partition.next_offset, "to": beyond}},
            )
            partition.next_offset = beyond
            await self._seek(partition)
            self._seeks.pop(partition.number, None)

    async def _reseek(self, partition: Partition, met: int) -> int:
        """Seek to the state's offset, not too often; return how often in a row the same offset was met instead."""
        seen, count, last = self._seeks.get(partition.number, (met, 0, 0.0))
        if time.monotonic() - last < RESEEK_S:
            return 0
        count = count + 1 if seen == met else 1
        self._seeks[partition.number] = (met, count, time.monotonic())
        if count < HOLE_SEEKS:
            await self._seek(partition)
        return count

    async def _mend_stall(self, partition: Partition) -> None:
        """Seek again when the log goes on, reading is beyond our state, and nothing arrives.

        A rebalance puts the reading back to the group's offset; beside a topic made again that can be its end already,
        where no message comes to show the hole.
        """
        now = time.monotonic()
        offset, since = self._still.get(partition.number, (-1, now))
        if offset != partition.next_offset or self._end(partition) <= offset:
            self._still[partition.number] = partition.next_offset, now
        elif now - since > STALLED_S:
            self._still.pop(partition.number)
            if await self._reading_at(partition) > offset == partition.next_offset:
                log.warning("stream.stalled", extra={"values": {"partition": partition.number, "offset": offset}})
                await self._seek(partition)

    async def _reading_at(self, partition: Partition) -> int:
        """Return the offset the consumer reads next (-1: not known now)."""
        tp = TP(self.names.samples_topic, partition.number)
        if tp not in self.app.consumer.assignment():
            return -1
        try:
            return await asyncio.wait_for(self.app.consumer.position(tp), TICK_S) or -1
        except (IllegalStateError, TimeoutError):
            return -1

    # ---- writing

    async def _flush_forever(self) -> None:
        while not self.app.should_stop:
            pause = self.settings.flush_interval_s
            if self._behind() > CATCHING_UP_MESSAGES:
                pause = max(pause, min(self._flush_s * (1 / self.settings.flush_share - 1), FLUSH_WAIT_S_MAX))
            await asyncio.sleep(pause)
            await self._flush()

    async def _flush(self) -> None:
        """Fold and write every partition that changed; a partition that somebody else owns is let go."""
        async with self._flush_lock:
            changed = [self.partitions[n] for n in self.owned if n in self.partitions and self.partitions[n].unwritten]
            for partition in changed:
                await self._fold(partition)
            started = time.perf_counter()
            await asyncio.gather(*(self._save(partition) for partition in changed))
            if changed:
                self._flush_s = time.perf_counter() - started
                self.metrics.flush_s.observe(self._flush_s)
                self.metrics.flushed.set(time.time())

    async def _save(self, partition: Partition) -> None:
        try:
            await self.store.save(partition, time.time())
            self.redis_ok = True
        except StateAheadError as error:
            log.warning("stream.overtaken", extra={"values": {"detail": str(error)}})
            self.metrics.flush_failures.labels("overtaken").inc()
            self.partitions.pop(partition.number, None)
        except RedisError as error:
            self._redis_failed("flush", error)
            await asyncio.sleep(0.5)

    def _behind(self) -> int:
        """How many messages of the held partitions are not taken yet, as far as the last fetch told."""
        held = [self.partitions[n] for n in self.owned if n in self.partitions]
        return sum(max(0, self._end(partition) - partition.next_offset) for partition in held)

    def _end(self, partition: Partition) -> int:
        return self.app.consumer.highwater(TP(self.names.samples_topic, partition.number)) or 0

    def _redis_failed(self, doing: str, error: RedisError) -> None:
        if self.redis_ok is not False:
            log.error("stream.redis-away", extra={"values": {"doing": doing, "error": str(error)}})
        self.redis_ok = False
        self.metrics.flush_failures.labels("redis").inc()

    # ---- beside the stream

    async def _tick_forever(self) -> None:
        """Load what was assigned, notice a Redis that lost its state, drop the silent, measure lag."""
        last_commit = last_sweep = time.monotonic()
        while not self.app.should_stop:
            await asyncio.sleep(TICK_S)
            for number in sorted(self.owned):
                partition = await self._partition(number)
                if partition is None:
                    continue
                await self._mend_stall(partition)
                if not partition.unwritten:
                    await self._check_stored(partition)
            self._measure()
            if time.monotonic() - last_commit > COMMIT_S:
                last_commit = time.monotonic()
                await self._commit()
            if time.monotonic() - last_sweep > min(SWEEP_S, self.settings.silent_s / 4):
                last_sweep = time.monotonic()
                for partition in self.partitions.values():
                    self.metrics.dropped.inc(partition.drop_silent(time.time(), self.settings.silent_s))

    async def _check_stored(self, partition: Partition) -> None:
        """Have the state written, or loaded, again when an idle partition is not what Redis holds."""
        try:
            current = await self.store.is_current(partition)
            self.redis_ok = True
        except RedisError as error:
            self._redis_failed("check", error)
            return
        if not current and partition.next_offset:
            partition.changed = True

    async def await_topic(self) -> None:
        """Wait until the broker has the topics, making them where it lacks them.

        Before Faust starts: one that subscribes to a topic that does not exist yet is given nothing for minutes.
        """
        while not await self._look_at_topic():
            await asyncio.sleep(0.5)

    async def _watch_topic_forever(self) -> None:
        """Know the topic's id: another id means a new topic, to be read from its start onto the same state."""
        while not self.app.should_stop:
            await asyncio.sleep(self.settings.broker_check_s)
            await self._look_at_topic()

    async def _look_at_topic(self) -> bool:
        """Look which topic the broker has and tell Redis how many partitions; return whether the broker answered."""
        try:
            count = await asyncio.to_thread(ensure_topics, self.settings)
            current = await asyncio.to_thread(topic_id, self.settings)
        except (KafkaError, OSError) as error:
            if not self._broker_away:
                log.warning("stream.broker-away", extra={"values": {"error": repr(error)}})
            self._broker_away = True
            return False
        if self._broker_away:
            log.warning("stream.broker-back")
        self._broker_away = False
        await self._note_topic(current)
        try:
            await self.redis.set(self.names.partitions, count)
            self.redis_ok = True
        except RedisError as error:
            self._redis_failed("announce", error)
        return True

    async def _note_topic(self, current: str) -> None:
        if current != self.topic_id:
            if self.topic_id:
                log.warning("stream.topic-changed", extra={"values": {"old": self.topic_id, "new": current}})
            self.topic_id = current
            for partition in self.partitions.values():
                await self._fold(partition)
                partition.topic_id, partition.next_offset = current, 0
                await self._seek(partition)
            return
        for partition in self.partitions.values():
            end = self._end(partition) if partition.number in self.owned else 0
            if end and end < partition.next_offset:
                log.warning("stream.log-shrank", extra={"values": {"partition": partition.number, "end": end}})
                await self._fold(partition)
                partition.next_offset = 0
                await self._seek(partition)

    async def _commit(self) -> None:
        """Commit the offsets of written state, for tools that show lag; a worker starts from its state's own."""
        held = {n: self.partitions[n].written for n in self.owned if n in self.partitions}
        offsets = {
            TP(self.names.samples_topic, n): written.offset
            for n, written in held.items()
            if written and written.topic_id == self.topic_id
        }
        fresh = {tp: offset for tp, offset in offsets.items() if offset and self._committed.get(tp.partition) != offset}
        consumer: Any = self.app.consumer  # its public commit() knows only acknowledged messages
        if fresh and await consumer._commit(fresh):
            self._committed.update({tp.partition: offset for tp, offset in fresh.items()})

    def _measure(self) -> None:
        held = [self.partitions[n] for n in self.owned if n in self.partitions]
        now = time.time()
        for partition in held:
            behind = max(0, self._end(partition) - partition.next_offset)
            self.metrics.lag.labels(str(partition.number)).set(behind)
            age = now - partition.recorded_at if behind and partition.recorded_at else 0.0
            self.metrics.lag_s.labels(str(partition.number)).set(max(0.0, age))
        lively = sum(active(p.ring, now) for p in held)
        self.metrics.machines.labels("active").set(lively)
        self.metrics.machines.labels("silent").set(sum(len(p.ring) for p in held) - lively)
        self.metrics.skewed.set(sum(int((np.abs(skew_s(p.ring, np.arange(len(p.ring)))) > 1).sum()) for p in held))
        self.metrics.ready.set(self.ready()[0])

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether this worker does its work, and what is missing."""
        details = {
            "redis": bool(self.redis_ok),
            "topic": bool(self.topic_id),
            "assigned": len(self.owned),
            "loaded": len(self.owned & self.partitions.keys()),
            "rebalancing": bool(self.app.rebalancing),
        }
        return bool(self.redis_ok) and bool(self.topic_id) and self.owned <= self.partitions.keys(), details

    async def drain(self) -> None:
        """Write what is folded, before the process ends."""
        await self._flush()


def _faust_app(settings: StreamSettings) -> faust.App:
    app = faust.App(
        f"{settings.prefix}-stream",
        broker=[f"aiokafka://{broker}" for broker in settings.kafka_brokers],
        autodiscover=False,
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=settings.partitions,
        stream_wait_empty=False,
        stream_buffer_maxsize=4 * settings.batch_messages,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / 6,
        broker_rebalance_timeout=settings.session_timeout_s,
        broker_commit_interval=3600.0,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
    )
    app._create_directories = lambda: None  # type: ignore[method-assign]  # else ./NAME-data, which stays empty
    app.transport = QuickTransport(app.conf.broker_consumer, app)
    context = settings.kafka_ssl_context()
    if settings.kafka_security.startswith("SASL"):
        app.conf.broker_credentials = faust.SASLCredentials(
            username=settings.kafka_sasl_username,
            password=settings.kafka_sasl_password,
            mechanism=settings.kafka_sasl_mechanism,
            ssl_context=context,
        )
    elif context is not None:
        app.conf.broker_credentials = faust.SSLCredentials(context=context)
    return app
