"""``windward fleet``: publish many machines' load from one process until told to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.process.redis_url import connected
from schemas.process.settings import SettingsError, load_settings
from streams.agent.__main__ import begin, stop_event
from streams.load_generator.loop import Fleet, build_sink
from streams.load_generator.settings import MACHINES, FleetSettings
from streams.load_generator.source.generator import Generator
from streams.load_generator.source.messages import Messages
from streams.load_generator.source.recording_file import Recording, RecordingError, load_trace
from streams.load_generator.source.source import Replay, Source

if TYPE_CHECKING:
    from streams.load_generator.ledger import LedgerWatch

log = logging.getLogger("windward.fleet")


SETTINGS = FleetSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the fleet; return 0 after a clean stop, 1 when records were left undelivered."""
    settings = load_settings(FleetSettings, "fleet", argv, environ)
    begin(settings)
    now_s = time.time()
    source = build_source(settings, now_s)
    replay = Replay(source, settings.interval_s, settings.reading_s)
    # A simulated agent has run since its first sample.
    boot = int(now_s - settings.backfill_s - 2 * settings.interval_s)
    messages = Messages(source.machines, boot, settings.interval_s, extra_labels=settings.labels)
    sink = build_sink(settings)
    ledger = watch(settings, source)
    fleet = Fleet(settings, replay, messages, sink, stop_event(), (lambda: ledger.latest) if ledger else None)
    values = {"machines": len(source.machines.names), "interval_s": settings.interval_s}
    log.info("fleet.started", extra={"values": values})
    fleet.run(now_s)
    if ledger:
        ledger.stop()
    left = sink.close(settings.flush_s)
    level = logging.WARNING if left else logging.INFO
    log.log(level, "fleet.stopped", extra={"values": sink.counts.results(left)})
    return 1 if left and (settings.once or settings.duration_s) else 0


def watch(settings: FleetSettings, source: Source) -> LedgerWatch | None:
    """Return a started thread that reads the running instances from a scorer; None without ``redis_url``."""
    if not settings.redis_url:
        return None
    import redis

    from streams.load_generator.ledger import ANSWER_S, LedgerWatch

    server = connected(redis.Redis, **settings.redis_arguments(), socket_timeout=2 * ANSWER_S)
    found = LedgerWatch(server, settings.names, source.machines)
    found.start()
    return found


def build_source(settings: FleetSettings, now_s: float) -> Source:
    """Return the source of the load; raises SettingsError for a recording that cannot be replayed."""
    if settings.recording is None:
        return Generator(settings.machines or MACHINES, settings.seed)
    try:
        return Recording(
            load_trace(Path(settings.recording), settings.recorded_defaults),
            # The oldest interval that is published begins where the recording is told to start.
            origin_s=now_s - settings.backfill_s - 2 * settings.interval_s,
            start_s=settings.start_s,
            speed=settings.speed,
            count=settings.machines,
        )
    except RecordingError as error:
        raise SettingsError(str(error)) from None
