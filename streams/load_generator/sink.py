"""The sinks of a fleet's records: the broker, by the agent's publisher, or standard output. Shell."""

import sys
from collections.abc import Sequence
from functools import partial

from streams.agent.producer import connect
from streams.agent.publisher import Publisher
from streams.agent.sampling.backlog import Record
from streams.agent.sampling.counts import Counts
from streams.load_generator.settings import FleetSettings

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

    def wait_until_empty(self, timeout_s: float) -> bool:
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
