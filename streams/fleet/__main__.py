"""``windward fleet``: publish many machines' load from one process until told to stop."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from schemas.logs import configure_logs
from schemas.settings import SettingsError, load_settings
from streams.agent.__main__ import check_connection_settings, stop_event
from streams.agent.backlog import Record
from streams.agent.counts import Counts
from streams.agent.publisher import Publisher, connect
from streams.agent.quiet import quieten
from streams.fleet.generator import Generator
from streams.fleet.messages import Messages
from streams.fleet.progress import Progress
from streams.fleet.recording import Recording, RecordingError, load_trace
from streams.fleet.replay import Block, Replay
from streams.fleet.settings import MACHINES, FleetSettings
from streams.fleet.source import Source

log = logging.getLogger("windward.fleet")

WAIT_S_MIN = 0.02
"""Machines whose intervals end this close together are published together."""

IN_FLIGHT_MOST = 20_000
BATCH_BYTES = 262_144


class Sink(Protocol):
    """Where the records go."""

    counts: Counts

    def publish(self, records: Sequence[Record]) -> None:
        """Take records over."""
        ...

    def wait_for_room(self, records: int, timeout_s: float) -> bool:
        """Wait until so many records fit."""
        ...

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until everything is delivered."""
        ...

    def close(self, deadline_s: float) -> int:
        """Stop; return how many records were given up."""
        ...


class Printer:
    """Prints the messages as JSON lines."""

    def __init__(self) -> None:
        self.counts = Counts()

    def publish(self, records: Sequence[Record]) -> None:
        """Print records."""
        sys.stdout.write("".join(record.value.decode() + "\n" for record in records))
        sys.stdout.flush()
        self.counts.delivered += len(records)

    def wait_for_room(self, records: int, timeout_s: float) -> bool:
        """There is always room."""
        return True

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Nothing waits."""
        return True

    def close(self, deadline_s: float) -> int:
        """Nothing is left."""
        return 0


class Fleet:
    """The loop over intervals; ``stop`` ends it at the next wait."""

    def __init__(
        self,
        settings: FleetSettings,
        replay: Replay,
        messages: Messages,
        sink: Sink,
        stop: threading.Event,
        over: Callable[[float], bool],
    ) -> None:
        self._settings = settings
        self._replay = replay
        self._messages = messages
        self._sink = sink
        self._stop = stop
        self._over = over
        self._facts_every = max(round(settings.facts_interval_s / settings.interval_s), 1)
        self._live_until_s: float | None = None
        self._handed_over = 0
        self._past_records: int | None = None
        """Records handed over before the present was reached; None while it is not."""
        self._progress: Progress | None = None

    def run(self, now_s: float) -> None:
        """Publish everybody's facts, the past, and then the present until there is a reason to stop."""
        last = self._replay.last_full(now_s)
        past = max(self._replay.intervals(self._settings.backfill_s), 1 if self._settings.once else 0)
        machines = sum(len(block.rows) for block in self._replay.blocks)
        if past:
            self._progress = Progress((past + 1) * machines, sys.stderr, time.monotonic())
        for block in self._replay.blocks:
            self._publish(self._messages.facts(block.rows.tolist(), now_s), wait=True)
        for seq, number in enumerate(itertools.count(last - past + 1)):
            if self._settings.once and number > last:
                return
            for block in self._replay.blocks:
                if not self._publish_block(number, block, seq):
                    return

    def finish_past(self, timeout_s: float) -> None:
        """Wait until the past is delivered, showing how far it is."""
        self._past_records = self._handed_over
        until_s = time.monotonic() + timeout_s
        while not self._sink.wait_until_empty(0.1) and not self._stop.is_set() and time.monotonic() < until_s:
            self._show_progress()
        self._show_progress()

    def _publish_block(self, number: int, block: Block, seq: int) -> bool:
        """Publish one interval of some machines, each when it has ended; return False when it is time to stop."""
        ends_s = self._replay.ends_s(number, block)
        records: list[Record | None] | None = None
        position = 0
        while position < len(ends_s):
            now_s = time.time()
            if self._stop.is_set() or self._over(ends_s[position]):
                return False
            past = now_s - ends_s[position] > self._settings.interval_s
            if not past and not self._keep_pace(now_s):
                return False
            if records is None:
                records = self._messages.samples(block.rows, ends_s, self._replay.columns(number, block), seq)
            ready = int(np.searchsorted(ends_s, now_s, "right"))
            if ready > position:
                chosen = [record for record in records[position:ready] if record is not None]
                facts = [row for row in block.rows[position:ready].tolist() if (number + row) % self._facts_every == 0]
                if facts and not past:
                    chosen += self._messages.facts(facts, now_s)
                self._publish(chosen, wait=past)
                position = ready
            else:
                self._show_progress()
                next_s = min(ends_s[position], self._live_until_s or ends_s[position])
                self._stop.wait(max(next_s - now_s, WAIT_S_MIN))
        return True

    def _publish(self, records: list[Record], *, wait: bool) -> None:
        """Hand records over; the past waits for room, the present pushes out the oldest."""
        while wait and not self._sink.wait_for_room(len(records), 0.1):
            self._show_progress()
            if self._stop.is_set():
                return
        self._sink.publish(records)
        self._handed_over += len(records)
        self._show_progress()

    def _keep_pace(self, now_s: float) -> bool:
        """Note that the present is reached; return False once it has lasted as long as asked."""
        if self._live_until_s is None:
            self._past_records = self._handed_over
            duration_s = self._settings.duration_s
            self._live_until_s = now_s + duration_s if duration_s else float("inf")
            if not self._settings.once:
                log.info("fleet.live")
        return now_s < self._live_until_s

    def _show_progress(self) -> None:
        """Show how much of the past is delivered, until all of it is; the present may have begun meanwhile."""
        if self._progress is None:
            return
        counts, now_s = self._sink.counts, time.monotonic()
        settled = counts.delivered + counts.dropped + counts.refused
        if self._past_records is not None and settled >= self._past_records:
            self._progress.finish(self._past_records, now_s)
            self._progress = None
        else:
            self._progress.update(counts.delivered, now_s)


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the fleet; return 0 after a clean stop, 1 when records were left undelivered."""
    settings = load_settings(FleetSettings, "fleet", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    quieten("kafka")
    check_connection_settings(settings)
    now_s = time.time()
    source = build_source(settings, now_s)
    replay = Replay(source, settings.interval_s, settings.reading_s)
    # A simulated agent has run since the first thing it tells of.
    boot = int(now_s - settings.backfill_s - 2 * settings.interval_s)
    messages = Messages(
        source.machines, boot, settings.interval_s, classes=settings.classes, extra_labels=settings.labels
    )
    sink = build_sink(settings)
    fleet = Fleet(settings, replay, messages, sink, stop_event(), source.over)
    values = {"machines": len(source.machines.names), "interval_s": settings.interval_s}
    log.info("fleet.started", extra={"values": values})
    fleet.run(now_s)
    if settings.once:
        fleet.finish_past(settings.flush_s)
    left = sink.close(settings.flush_s)
    counts = sink.counts
    values = {
        "delivered": counts.delivered,
        "dropped": counts.dropped,
        "refused": counts.refused,
        "undelivered": left,
    }
    log.log(logging.WARNING if left else logging.INFO, "fleet.stopped", extra={"values": values})
    return 1 if left and (settings.once or settings.duration_s) else 0


def build_source(settings: FleetSettings, now_s: float) -> Source:
    """Return what the settings ask for; raises SettingsError for a recording that cannot be replayed."""
    if settings.recording is None:
        prefix = "sim-" if settings.prefix_name is None else settings.prefix_name
        return Generator(settings.machines or MACHINES, settings.seed, prefix)
    try:
        return Recording(
            load_trace(Path(settings.recording), settings.recorded_defaults),
            # The oldest interval that is published begins where the recording is told to start.
            origin_s=now_s - settings.backfill_s - 2 * settings.interval_s,
            start_s=settings.start_s,
            speed=settings.speed,
            at_end=settings.at_end,
            count=settings.machines,
            prefix=settings.prefix_name or "",
        )
    except RecordingError as error:
        raise SettingsError(str(error)) from None


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


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
