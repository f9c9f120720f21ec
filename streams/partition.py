"""One partition's state between Kafka and Redis: the ring, its table, and how far both go. Pure.

``next_offset`` is the truth: everything before it is taken, nothing from it on. A message below is known already, one
above means a hole to be fetched again; so delivery twice, or out of place, changes nothing.

Messages are taken as they come and folded together before the next write: one call of the fold costs half a
millisecond however few samples it is given, so folding every batch of every partition halved the throughput.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.sample import MachineFacts
from streams.batch import Refused, read_messages, to_batch
from streams.fold import fold, heard
from streams.ring import HOURS, NO_SLOT, Ring, S
from streams.table import Table


class Position(NamedTuple):
    """How far a state goes, in which topic."""

    topic_id: str
    offset: int


class Arrived(NamedTuple):
    """A message as it came off the log."""

    offset: int
    value: bytes | None
    recorded_at: float
    key: bytes | None


@dataclass
class Outcome:
    """What folding some messages came to: every message is in ``counts`` once."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[Arrived, Refused]] = field(default_factory=list)


class Partition:
    """The state of one partition in one worker."""

    def __init__(self, number: int, table: Table, ring: Ring | None = None) -> None:
        self.number = number
        self.ring = ring or Ring()
        self.table = table
        self.topic_id = ""
        self.next_offset = 0
        self.pending: list[Arrived] = []
        """Taken, not folded yet."""
        self.written: Position | None = None
        """What Redis held when this worker last read or wrote it; None: nothing."""
        self.facts: dict[str, bytes] = {}
        self.facts_version = 0
        self.recorded_at = 0.0
        """Broker time of the last message folded."""
        self.forget_written()

    def forget_written(self) -> None:
        """Have everything written again by the next flush."""
        self.positions = np.ones(S, np.bool_)
        self.hours: set[int] = set(range(HOURS))
        self.rows: list[NDArray[np.intp]] = [np.arange(len(self.ring))]
        self.changed_facts: set[str] = set(self.facts)
        self.gone_facts: set[str] = set()
        self.all_facts = True
        self.changed = True

    @property
    def position(self) -> Position:
        """How far what is folded goes."""
        return Position(self.topic_id, self.pending[0].offset if self.pending else self.next_offset)

    def take(self, arrived: Sequence[Arrived]) -> int | None:
        """Take the messages that come next, to be folded; return the offset of the first beyond a hole (None: none)."""
        for message in arrived:
            offset = message.offset
            if offset == self.next_offset:
                self.pending.append(message)
                self.next_offset += 1
            elif offset > self.next_offset:
                return offset
        return None

    @property
    def unwritten(self) -> bool:
        """Whether Redis lacks something this worker has."""
        return self.changed or bool(self.pending)

    def fold_pending(self) -> Outcome:
        """Fold what was taken."""
        arrived, self.pending = self.pending, []
        return self.fold(arrived)

    def fold(self, arrived: Sequence[Arrived]) -> Outcome:
        """Fold messages, whatever their offsets."""
        outcome = Outcome()
        if not arrived:
            return outcome
        recorded_at = [message.recorded_at for message in arrived]
        samples, places, facts, refused = read_messages(
            [message.value for message in arrived], recorded_at, self.ring.row
        )
        done = fold(
            self.ring,
            to_batch(samples, [recorded_at[place] for place in places]),
            self.table.zone.shift_minutes(recorded_at[-1]),
        )
        self.positions |= done.positions
        self.hours.update(hour % HOURS for hour in done.hours)
        self.rows.append(done.rows)
        for message in facts:
            self._note_facts(message)
        self.recorded_at = recorded_at[-1]
        self.changed = True
        outcome.counts.update(accepted=done.accepted, duplicate=done.duplicate, late=done.late, facts=len(facts))
        outcome.counts.update(f"rejected:{one.reason}" for one in refused)
        outcome.refused = [(arrived[one.index], one) for one in refused]
        return outcome

    def drop_silent(self, now_s: float, silent_s: float) -> int:
        """Drop machines without a sample for ``silent_s``, and facts as old of machines that have no windows.

        Return how many machines lost their windows.
        """
        kept = heard(self.ring, now_s, silent_s)
        gone = len(self.ring) - len(kept)
        if gone:
            self.ring.keep(kept)
            self.table.forget()
            self.forget_written()
        old = {
            machine
            for machine in self.facts.keys() - self.ring.row.keys()
            if msgspec.json.decode(self.facts[machine], type=MachineFacts).at < now_s - silent_s
        }
        if old:
            self.facts = {machine: value for machine, value in self.facts.items() if machine not in old}
            self.changed_facts -= old
            self.gone_facts |= old
            self.facts_version += 1
            self.changed = True
        return gone

    def refresh_table(self) -> None:
        """Compute the table rows of the machines that changed since the last call."""
        rows = np.unique(np.concatenate(self.rows)) if self.rows else np.empty(0, np.intp)
        self.rows = []
        self.table.update(self.ring, rows[self.ring.head[rows] > NO_SLOT])

    def _note_facts(self, message: MachineFacts) -> None:
        """Keep the newest facts of a machine; only a change of substance raises their version."""
        old = self.facts.get(message.machine)
        before = msgspec.json.decode(old, type=MachineFacts) if old else None
        if before and (before.boot, before.at) > (message.boot, message.at):
            return
        self.facts[message.machine] = msgspec.json.encode(message)
        self.changed_facts.add(message.machine)
        self.facts_version += not before or (before.capacity, before.labels) != (message.capacity, message.labels)
