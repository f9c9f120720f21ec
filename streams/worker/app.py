"""The stream app: Faust reads the samples, `Partition` folds them, `Store` writes the state to Redis. Shell.

Each partition's state in Redis has the offset up to which it is folded; `ReadingPlace` sets the consumer to it.
Acknowledgements are therefore off, which also makes Faust's loop cheaper.

    assigned -> load from Redis -> seek to its base -> take -> fold and write every 50 ms -> revoked: write, keep
                                                                 |
                                        Redis holds more than we do: another owner -> load again

A write is followed by one message that wakes the readers. One that is lost costs them a second.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from streams.batches import PassedOver, read_with_aiokafka
from streams.fold.batch import Arrived, Outcome
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition, drop_silent, forget, make_room, refresh_tables
from streams.worker.holdings import Holdings
from streams.worker.metrics import USAGE_OUTCOMES, Metrics, measure
from streams.worker.reading_place import ReadingPlace
from streams.worker.redis_health import RedisHealth
from streams.worker.rejects import Rejects
from streams.worker.servers import Servers
from streams.worker.settings import StreamSettings
from streams.worker.store import StateAheadError, Store
from streams.worker.topic_watch import TopicWatch

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
    """Faust's own transport except for the wait of a fetch.

    Faust asks brokers to hold a fetch for 1.5 s when there is nothing new, and has no setting for it. Apache Kafka
    answers as soon as there is a record. With a broker that checks only at intervals while it holds a fetch (Tansu:
    twice) samples were 400 ms old at the median before they were read.
    """

    Consumer = _Consumer


def make_faust_app(settings: StreamSettings) -> faust.App:
    """Return the app for these settings; it connects later."""
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


log = logging.getLogger("windward.stream")

MEMORY_S = 60.0
"""A record read so long ago has a weight of 1/e."""

RECORDS_MIN = 10.0
"""With fewer records the share is taken as 0."""


class ClockWatch:
    """The share of recent records whose time is too far ahead of this worker's clock: most, if the clock is behind."""

    def __init__(self) -> None:
        self._records = self._ahead = 0.0
        self._since = 0.0

    def note(self, records: int, ahead: int, now: float) -> None:
        """Count records that were read, and those of them that were ahead; ``now`` counts seconds."""
        kept = math.exp(-max(0.0, now - self._since) / MEMORY_S)
        self._records, self._ahead, self._since = self._records * kept + records, self._ahead * kept + ahead, now

    @property
    def ahead(self) -> float:
        """The share, 0 to 1; 0 with too few records.

        >>> watch = ClockWatch()
        >>> watch.note(40, 10, 0.0)
        >>> watch.ahead
        0.25
        """
        return self._ahead / self._records if self._records >= RECORDS_MIN else 0.0

    @property
    def behind(self) -> bool:
        """Whether most records are ahead: then this clock is wrong, and not the machines'."""
        return self.ahead > 0.5


PENDING_MAX = 20_000
"""The most messages of a partition that are taken and not folded: then reading waits for the next write."""

CATCHING_UP_MESSAGES = 5_000
"""Further behind than this, the share of time spent writing is limited: throughput before freshness."""

UP_TO_DATE_MESSAGES = 50
"""A worker that is further behind counts as not up to date, which matters while no machine's data is fresh."""

HUNG_S = 5.0
"""A worker that has not checked itself for so long counts as not up to date."""

FLUSH_WAIT_S_MAX = 5.0
"""Longest pause between two writes while catching up, however long they take."""

FLUSH_SHARE_MOST = 0.4
"""Largest share of time spent writing otherwise: half of a write of few rows is spent however few they are."""

FRESH_WAIT_S_MAX = 0.1
"""Longest pause between two writes otherwise."""

SWEEP_S = 60.0
"""Time between two searches for machines that have been silent too long."""

MEND_S = 15.0
"""Time between two searches for stored values that Redis lost."""

FORGET_S = 2.0
"""Time between two reads of the machines to forget."""

COMMIT_S = 3.0
TICK_S = 0.5


class StreamApp:
    """One worker: the Faust app, the partitions it holds, and the tasks beside it."""

    def __init__(self, settings: StreamSettings, redis: Redis, windows: Servers) -> None:
        self.settings = settings
        names = settings.names
        self.metrics = Metrics(version("windward"))
        self.health = RedisHealth(self.metrics)
        self.store = Store(redis, names, settings.admission, settings.instances_flush_s, windows)
        self._flush_lock = asyncio.Lock()
        self._flush_s = 0.0
        self._mute = False
        """Whether Redis refused to wake the readers: they look once a second."""
        read_with_aiokafka(PassedOver(self.metrics.unreadable.inc))
        self.app = make_faust_app(settings)
        self.samples = self.app.topic(
            names.samples_topic, key_serializer="raw", value_serializer="raw", acks=False, partitions=None
        )
        self.rejects = Rejects(
            self.app.topic(names.rejects_topic, key_serializer="raw", value_serializer="raw"), self.metrics
        )
        self.clock = ClockWatch()
        self.clock_ahead_s = 0.0
        self._late_at = self._measured_at = time.monotonic()
        """When the worker was last not ready, or behind; and when it last checked."""
        self._clocks_off: set[str] = set()
        """Machines whose clock is known to be off."""
        self.reading = ReadingPlace(self.app, names.samples_topic, self.metrics)
        self.holdings = Holdings(self.store, self._table, self.reading.seek, self.health, self.metrics)
        self.topic = TopicWatch(settings, redis, windows, self.health, self._topic_seen)
        self.app.agent(self.samples, name="fold")(self._fold_stream)
        signals: Any = self.app
        signals.on_partitions_assigned.connect(self._on_assigned)
        signals.on_partitions_revoked.connect(self._on_revoked)
        for task in (self._flush_forever, self._tick_forever, self._measure_forever, self._watch_topic_forever):
            self.app.task(task)

    # ---- assignment

    async def _on_assigned(self, _app: Any, assigned: Any, **_: Any) -> None:
        self.holdings.assign(tp.partition for tp in assigned if tp.topic == self.settings.names.samples_topic)
        self.reading.reassigned()

    async def _on_revoked(self, _app: Any, *_: Any, **__: Any) -> None:
        await self.drain()
        self.holdings.owned = set()

    def _table(self) -> Table:
        return Table(self.settings.windows_s, Zone(self.settings.time_zone))

    async def _topic_seen(self, changed: bool) -> None:
        """Read a new topic, or one whose log shrank, from its start, and fold it into the same state."""
        for partition in list(self.holdings.loaded.values()):
            end = self.reading.end(partition) if partition.number in self.holdings.owned and not changed else 0
            if end and end < max(partition.next_offset, partition.resume_until):
                log.warning("stream.log.shrank", extra={"values": {"partition": partition.number, "end": end}})
            elif not changed:
                continue
            await self._fold(partition)
            partition.read_anew(self.topic.topic_id)
            await self.reading.seek(partition)

    # ---- folding

    async def _fold_stream(self, stream: Any) -> None:
        async for events in stream.noack_take(self.settings.batch_messages, within=self.settings.batch_wait_s):
            arrived: dict[int, list[Arrived]] = defaultdict(list)
            for event in events:
                message = event.message
                time_s = -1.0 if message.timestamp is None else message.timestamp
                arrived[message.partition].append(Arrived(message.offset, message.value, time_s, message.key))
            for number, messages in arrived.items():
                await self._take(number, messages)

    async def _take(self, number: int, arrived: Sequence[Arrived]) -> None:
        partition = await self.holdings.get(number, self.topic.topic_id)
        if partition is None:
            return
        before = partition.next_offset
        beyond = partition.take(arrived)
        await self.reading.check(partition, partition.next_offset - before, arrived[-1].offset, beyond)
        if len(partition.pending) > PENDING_MAX:
            await self._flush()

    async def _fold(self, partition: Partition) -> None:
        """Fold and count the messages taken; save the refused ones before a later offset is written."""
        if not partition.pending:
            return
        started = time.perf_counter()
        outcome = partition.fold_pending(time.time())
        self.metrics.fold_s.observe(time.perf_counter() - started)
        for name, count in outcome.counts.items():
            what, _, reason = name.partition(":")
            self.metrics.messages.labels(what).inc(count)
            if reason:
                self.metrics.rejected.labels(reason).inc(count)
        for name in USAGE_OUTCOMES:
            self.metrics.usage.labels(name).inc(getattr(outcome.usage, name))
        self._note_clock(outcome)
        if outcome.refused:
            await self.rejects.keep(partition.number, outcome.refused)

    def _note_clock(self, outcome: Outcome) -> None:
        was_behind = self.clock.behind
        self.clock.note(sum(outcome.counts.values()), outcome.ahead, time.monotonic())
        self.metrics.ahead.set(self.clock.ahead)
        if self.clock.behind and not was_behind:
            log.error("stream.clock.behind", extra={"values": {"records_ahead": round(self.clock.ahead, 3)}})

    # ---- writing

    async def _flush_forever(self) -> None:
        while not self.app.should_stop:
            share, longest = FLUSH_SHARE_MOST, FRESH_WAIT_S_MAX
            if sum(map(self.reading.behind, self.holdings.held)) > CATCHING_UP_MESSAGES:
                share, longest = min(share, self.settings.flush_share), FLUSH_WAIT_S_MAX
            pause = min(self._flush_s * (1 / share - 1), longest)
            await asyncio.sleep(max(self.settings.flush_interval_s, pause))
            await self._flush()

    async def _flush(self) -> None:
        """Fold and write every partition that changed; drop one that another worker owns."""
        async with self._flush_lock:
            # by the clock of Redis, as scorers compare it: another host's clock makes no fleet look silent
            now_s = time.time() - self.clock_ahead_s
            changed = [partition for partition in self.holdings.held if partition.write_due(now_s)]
            for partition in changed:
                await self._fold(partition)
            started = time.perf_counter()
            changed = [partition for partition in changed if not partition.resuming]
            refresh_tables(changed, now_s)
            written = await asyncio.gather(*(self._save(partition, now_s) for partition in changed))
            if any(written):
                await self._announce([one.number for one, done in zip(changed, written, strict=True) if done])
            if changed:
                self._flush_s = time.perf_counter() - started
                self.metrics.flush_s.observe(self._flush_s)
                self.metrics.flushed.set(time.time())

    async def _save(self, partition: Partition, now_s: float) -> bool:
        try:
            lost = await self.store.save(partition, now_s)
            self.metrics.rewritten.inc(lost)
            self.health.answered(partition.number)
        except StateAheadError as error:
            log.warning("stream.overtaken", extra={"values": {"detail": str(error)}})
            self.metrics.flush_failures.labels("overtaken").inc()
            self.holdings.let_go(partition)
        except RedisError as error:
            self.health.failed("flush", error, partition.number)
            await asyncio.sleep(0.5)
        else:
            return True
        return False

    async def _announce(self, numbers: list[int]) -> None:
        try:
            await self.store.announce(numbers)
        except ResponseError as error:
            if not self._mute:
                log.warning("stream.announce.refused", extra={"values": {"error": str(error)}})
            self._mute = True
        except RedisError as error:
            self.health.failed("announce", error)
        else:
            self.health.answered()

    # ---- beside the stream

    async def _tick_forever(self) -> None:
        """Load partitions, end rebuilds, restore what Redis lost, and drop machines that are silent or too many."""
        last_commit = last_sweep = last_look = last_forget = time.monotonic()
        while not self.app.should_stop:
            await asyncio.sleep(TICK_S)
            for number in sorted(self.holdings.owned):
                partition = await self.holdings.get(number, self.topic.topic_id)
                if partition is None:
                    continue
                await self.reading.mend_stall(partition)
                self._end_rebuild(partition)
                if not partition.unwritten:
                    await self._check_stored(partition)
            if time.monotonic() - last_commit > COMMIT_S:
                last_commit = time.monotonic()
                await self.reading.commit({one.number: one.written for one in self.holdings.held}, self.topic.topic_id)
            if time.monotonic() - last_forget > FORGET_S:
                last_forget = time.monotonic()
                await self._forget()
            if time.monotonic() - last_look > MEND_S:
                last_look = time.monotonic()
                await self._mend_lost()
                self._make_room()
            if time.monotonic() - last_sweep > min(SWEEP_S, self.settings.silent_s / 4):
                last_sweep = time.monotonic()
                for partition in self.holdings.loaded.values():
                    self.metrics.dropped.inc(drop_silent(partition, time.time(), self.settings.silent_s))

    def _end_rebuild(self, partition: Partition) -> None:
        """End the rebuild of a partition whose log was read again up to its former offset, or to its end."""
        self.metrics.rebuilding.set(sum(one.rebuilt_at is not None for one in self.holdings.held))
        if partition.rebuilt_at is None or partition.pending:
            return
        at_end = self.reading.end(partition) and not self.reading.behind(partition)
        if partition.next_offset >= partition.rebuilt_at or at_end:
            uncovered = partition.end_rebuild()
            self.metrics.uncovered.inc(uncovered)
            log.warning(
                "stream.rebuilt", extra={"values": {"partition": partition.number, "slots_uncovered": uncovered}}
            )

    def _make_room(self) -> None:
        for partition in self.holdings.held:
            if gone := make_room(partition):
                self.metrics.evicted.inc(gone)
                log.error("stream.full", extra={"values": {"partition": partition.number, "machines_dropped": gone}})

    async def _forget(self) -> None:
        """Drop the data of forgotten machines up to the time at which an operator forgot them."""
        try:
            forgotten = await self.store.forgotten()
        except RedisError as error:
            self.health.failed("check", error)
            return
        self.health.answered()
        for partition in self.holdings.held if forgotten else ():
            if gone := forget(partition, forgotten):
                self.metrics.dropped.inc(len(gone))
                log.info("stream.forgotten", extra={"values": {"partition": partition.number, "machines": gone}})

    async def _mend_lost(self) -> None:
        """Write values again that Redis has lost."""
        for partition in self.holdings.held:
            try:
                lost = await self.store.mend_lost(partition)
            except RedisError as error:
                self.health.failed("check", error, partition.number)
                continue
            if lost:
                log.error("stream.state.lost", extra={"values": {"partition": partition.number, "values": lost}})
                self.metrics.rewritten.inc(lost)

    async def _check_stored(self, partition: Partition) -> None:
        """Write or load the state again where an idle partition differs from Redis."""
        try:
            current = await self.store.is_current(partition)
            self.health.answered(partition.number)
        except RedisError as error:
            self.health.failed("check", error, partition.number)
            return
        if not current and partition.next_offset:
            partition.changed = True

    async def _measure_forever(self) -> None:
        """Set the gauges at regular times, independently of broker and Redis."""
        while not self.app.should_stop:
            await asyncio.sleep(TICK_S)
            behind = {partition: self.reading.behind(partition) for partition in self.holdings.held}
            measure(self.metrics, behind, time.time(), broker_up=self.topic.broker_up)
            self._tell_clocks(behind)
            ready, now_s = self.ready()[0], time.monotonic()
            hung, self._measured_at = now_s - self._measured_at >= HUNG_S, now_s
            if hung or not ready or sum(behind.values()) > UP_TO_DATE_MESSAGES:
                self._late_at = self._measured_at
            self.metrics.ready.set(ready)

    def _tell_clocks(self, held: Iterable[Partition]) -> None:
        """Log each machine whose clock went wrong, once."""
        off = {name: ahead for partition in held for name, ahead in partition.clocks.off(time.time()).items()}
        for machine in off.keys() - self._clocks_off:
            values = {"machine": machine, "ahead_s": round(off[machine], 1)}
            log.warning("stream.machine.clock", extra={"values": values})
        self._clocks_off = set(off)

    async def _watch_topic_forever(self) -> None:
        while not self.app.should_stop:
            await asyncio.sleep(self.settings.broker_check_s)
            await self.topic.look()

    # ---- the process

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether this worker is ready, and the state of each condition."""
        hung_s = time.monotonic() - self._measured_at
        details: dict[str, Any] = {
            "redis": bool(self.health.ok),
            "broker": self.topic.broker_up,
            "topic": bool(self.topic.topic_id),
            "assigned": len(self.holdings.owned),
            "loaded": len(self.holdings.held),
            "rebalancing": bool(self.app.rebalancing),
            "clock": not self.clock.behind,
            "clock_ahead_s": round(self.clock_ahead_s, 3),
            "caught_up_s": round(self._measured_at - self._late_at) if hung_s < HUNG_S else 0,
        }
        yes = details["redis"] and details["broker"] and details["topic"] and self.holdings.complete
        return yes, details

    def tell_clock(self, ahead_s: float) -> None:
        """Record how far this host's clock is ahead of that of Redis; the worker continues nevertheless."""
        self.clock_ahead_s = ahead_s
        self.metrics.clock_ahead.set(ahead_s)

    async def drain(self) -> None:
        """Write the folded state, before the process ends or another worker continues."""
        for partition in self.holdings.held:
            partition.finish()
        await self._flush()
