"""When a machine reads and when it publishes: ticks and intervals on the wall clock, shifted by the machine's phase.

Tick ``k`` is at ``k · reading_s + phase`` and its reading covers the time since the tick before. Interval ``i`` holds
the ticks after the end of the interval before, up to its own end ``i · interval_s + phase``: the sample's ``at``.

    phase      tick                                       tick
      │  1    2    3    4    5    6    7    8    9   10    │
    ──┼────┬────┬────┬────┬────┬────┬────┬────┬────┬───────┼──→
      └──────────────────── interval i ────────────────────┘ at

Ticks are numbers of the wall clock, so that a restarted agent continues the same slots. The waiting between two of them
and the time a rate is divided by are the monotonic clock's. So a clock that is set costs one reading.
"""

from dataclasses import dataclass
from zlib import crc32

_PHASES = 1000


def phase_s(machine: str, interval_s: float) -> float:
    """Return the machine's phase: when in the interval it publishes, the same in every process that knows its id.

        phase = interval · (crc32(id) mod 1000 + ½) / 1000

    The half keeps every phase off the ends of the interval, so that rounding never moves a sample to the next slot.

    >>> phase_s("db1.example", 10)
    7.755
    """
    return round(interval_s * (crc32(machine.encode()) % _PHASES + 0.5) / _PHASES, 6)


@dataclass(frozen=True)
class Schedule:
    """The ticks and intervals of one machine; ``interval_s`` is a whole multiple of ``reading_s``."""

    interval_s: float
    reading_s: float
    phase_s: float

    @property
    def readings(self) -> int:
        return max(round(self.interval_s / self.reading_s), 1)

    def tick(self, epoch_s: float) -> int:
        """Return the number of the tick nearest to ``epoch_s``, so that a wake-up may be a little early or late."""
        return round((epoch_s - self.phase_s) / self.reading_s)

    def until_next_tick_s(self, epoch_s: float) -> float:
        """Return how long to wait for the next tick: more than half a reading, at most one and a half."""
        return (self.tick(epoch_s) + 1) * self.reading_s + self.phase_s - epoch_s

    def interval(self, tick: int) -> int:
        return -(-tick // self.readings)

    def ends(self, tick: int) -> bool:
        """Return whether the reading taken at ``tick`` is the last of its interval."""
        return tick % self.readings == 0

    def end_of(self, interval: int) -> float:
        """Return the nominal end of an interval, epoch s: the ``at`` of its sample."""
        return round(interval * self.interval_s + self.phase_s, 6)
