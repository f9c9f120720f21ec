"""The loop over intervals: the past at once, the present in real time; the sinks of its records. Shell."""

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from streams.agent.producer import connect
from streams.agent.publisher import Publisher
from streams.agent.sampling.backlog import Record
from streams.agent.sampling.counts import Counts
from streams.load_generator.settings import FleetSettings
from streams.load_generator.source.instances import Instances, Reports
from streams.load_generator.source.messages import Messages
from streams.load_generator.source.source import Block, Float, Replay

IN_FLIGHT_MOST = 20_000
BATCH_BYTES = 262_144


class Printer:
    def __init__(self) -> None:
        self.counts = Counts()

    def publish(self, records: Sequence[Record]) -> None:
        sys.stdout.write("".join(record.value.decode() + "\n" for record in records))
        sys.stdout.flush()
        self.counts.delivered += len(records)

    def wait_for_room(self, records: int, timeout_s: float) -> bool:
        return True

    def close(self, deadline_s: float) -> int:
        return 0


Sink = Publisher | Printer


def build_sink(settings: FleetSettings) -> Sink:
    """Return the agent's own publisher, sized for a fleet, or the printer."""
    if settings.dry_run:
        return Printer()
    publisher = Publisher(
        partial(connect, settings, "windward-fleet", batch_bytes=BATCH_BYTES),
        settings.names.samples_topic,
        settings.backlog_records,
        in_flight_most=IN_FLIGHT_MOST,
    )
    publisher.start()
    return publisher


log = logging.getLogger("windward.fleet")

WAIT_S_MIN = 0.02
"""Machines whose intervals end this close together are published together."""


@dataclass(eq=False)
class Fleet:
    """The loop over intervals; ``stop`` ends it at the next wait."""

    settings: FleetSettings
    replay: Replay
    messages: Messages
    sink: Sink
    stop: threading.Event
    instances: Callable[[], Instances] | None = None

    def __post_init__(self) -> None:
        interval_s = self.settings.interval_s
        self._reports = Reports(max(round(self.settings.instances_interval_s / interval_s), 1), interval_s)
        self._facts_every = max(round(self.settings.facts_interval_s / interval_s), 1)
        self._live_until_s: float | None = None

    def run(self, now_s: float) -> None:
        """Publish the facts of all machines, the past, and then the present until the end or `stop`."""
        last = self.replay.last_full(now_s)
        past = max(self.replay.intervals(self.settings.backfill_s), 1 if self.settings.once else 0)
        for block in self.replay.blocks:
            self._publish(self.messages.facts(block.rows.tolist(), now_s), wait=True)
        for seq, number in enumerate(itertools.count(last - past + 1)):
            if self.settings.once and number > last:
                return
            for block in self.replay.blocks:
                if not self._publish_block(number, block, seq):
                    return

    def _publish_block(self, number: int, block: Block, seq: int) -> bool:
        """Publish one interval of some machines, each when its own ends; return False when it is time to stop."""
        ends_s = self.replay.ends_s(number, block)
        records: list[Record | None] | None = None
        position = 0
        while position < len(ends_s):
            now_s = time.time()
            if self.stop.is_set():
                return False
            past = now_s - ends_s[position] > self.settings.interval_s
            if not past and not self._keep_pace(now_s):
                return False
            if records is None:
                records = self._records(number, block, ends_s, seq)
            ready = int(np.searchsorted(ends_s, now_s, "right"))
            if ready > position:
                chosen = [record for record in records[position:ready] if record is not None]
                facts = [row for row in block.rows[position:ready].tolist() if (number + row) % self._facts_every == 0]
                if facts and not past:
                    chosen += self.messages.facts(facts, now_s)
                self._publish(chosen, wait=past)
                position = ready
            else:
                next_s = min(ends_s[position], self._live_until_s or ends_s[position])
                self.stop.wait(max(next_s - now_s, WAIT_S_MIN))
        return True

    def _records(self, number: int, block: Block, ends_s: Float, seq: int) -> list[Record | None]:
        columns = self.replay.columns(number, block)
        if self.instances is None:
            return self.messages.samples(block.rows, ends_s, columns, seq)
        capacity = self.replay.machines.capacity
        columns, reports = self._reports.added(self.instances(), capacity, number, block.rows, ends_s, columns)
        return self.messages.samples(block.rows, ends_s, columns, seq, reports)

    def _publish(self, records: list[Record], *, wait: bool) -> None:
        """Publish records; with ``wait`` wait for room, else drop the oldest of a full backlog."""
        while wait and not self.sink.wait_for_room(len(records), 0.1):
            if self.stop.is_set():
                return
        self.sink.publish(records)

    def _keep_pace(self, now_s: float) -> bool:
        """Record that the present is reached; return False after ``duration_s`` of it."""
        if self._live_until_s is None:
            duration_s = self.settings.duration_s
            self._live_until_s = now_s + duration_s if duration_s else float("inf")
            if not self.settings.once:
                log.info("fleet.live")
        return now_s < self._live_until_s
