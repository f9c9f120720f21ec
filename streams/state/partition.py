"""One partition's state between Kafka and Redis: the ring, its table, and their offset. Pure.

``next_offset`` is the position: all messages before it were taken, and none from it on. A message below it is skipped;
one above it shows a hole, which is fetched again. So repeated or misplaced delivery changes nothing.

Messages are taken as they come and folded together before the next write. One call of the fold costs half a
millisecond, however few samples it is given. Folding every batch of every partition halved the throughput.

A write is a *base* or *changes*. A base has the whole state, from which a worker resumes, and the window table. Changes
have the rows of the window table that changed since the base, and facts. A worker that resumes reads the log from the
base on, and writes nothing before it is as far as the changes were: so no window goes back in time.

A base is due when the changes written since the last one have as many bytes as that one, after `BASE_S` at the latest.
Where machines send evenly this writes the fewest bytes. With B bytes of a base, and g bytes a second by which each of
17 writes a second grows, a base every T seconds costs ``B / T + 17 g T / 2`` a second. That is least where both terms
are equal: at T = 1.2 s if each machine sends every 10 s. Measured at 20,000 machines: 0.09 of the bytes that whole
tables have.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import MachineFacts
from schemas.values.read_json import read_as
from streams.fold.admission import OFFLINE, RECORD_AHEAD_S, RECORD_TIME_MAX_S, Admission
from streams.fold.batch import Arrived, Outcome, Refused, read_messages, to_batch
from streams.fold.fact_changes import FactChanges
from streams.fold.fold import DAY_S, fold, heard
from streams.fold.instance_usage import Applied, InstanceUsage
from streams.fold.refusals import MEAN_MOST, no_room, refuse_excess, refuse_machines, refuse_names, refuse_readings
from streams.fold.ring import HOURS, NO_SLOT, Ring, S
from streams.fold.table import Table, Update, update_together
from streams.state.clocks import Clocks
from streams.state.manifest import Manifest
from streams.state.resume import LostHours, uncover

TAKEN_MOST = 100
TAKEN_S = 900.0
"""At most so many disputed names are reported, each for so long after its last refusal."""

END_OF_LOG = 2**62
"""Beyond every offset."""

BASE_S = 5.0
"""Longest time from a base to the next: a worker reads so much of the log again after another was killed."""


class Position(NamedTuple):
    """The position of a state: the offset, and the topic."""

    topic_id: str
    offset: int


class Written(NamedTuple):
    """The last write: its position and its number. Numbers of a partition's writes rise."""

    topic_id: str
    offset: int
    number: int


@dataclass
class Base:
    position: Position
    at_s: float
    bytes: int
    """Bytes of the values that every base has: the window table and the vitals."""
    number: int
    """The number of the write."""
    changes_bytes: int = 0
    """Bytes of all writes of changes since."""


class Partition:
    def __init__(self, number: int, table: Table, ring: Ring | None = None, admission: Admission = OFFLINE) -> None:
        self.number = number
        self.admission = admission
        self.ring = ring or Ring()
        self.table = table
        self.usage = InstanceUsage(admission.instances_max)
        self.usage_sum = 0
        """Checksum of the usage by instance that is stored; 0: none is."""
        self.usage_written_at = 0.0
        self.topic_id = ""
        self.next_offset = 0
        self.pending: list[Arrived] = []
        """Messages taken and not folded yet."""
        self.written: Written | None = None
        """The write that Redis held when this worker last read or wrote it; None: none."""
        self.write_number = 0
        """Number of the last write that was prepared."""
        self.base: Base | None = None
        """The base that Redis holds; None: one is due."""
        self.resume_until = 0
        """Nothing is written before this offset: the windows in Redis go so far."""
        self.facts: dict[str, bytes] = {}
        self.facts_version = 0
        """Raised when scorers should read the facts again."""
        self._fact_changes = FactChanges()
        self.recorded_at = 0.0
        """Record time of the last message folded."""
        self.taken: dict[str, tuple[str, float]] = {}
        """By machine, the host whose messages were last refused, as another owns the name, and their record time."""
        self.clocks = Clocks()
        self.manifest = Manifest()
        self.lost_positions = np.zeros(S, np.bool_)
        """Positions whose stored value was lost, while they are rebuilt."""
        self.lost_hours: LostHours | None = None
        """The lost hours of the peaks."""
        self.lost: Counter[str] = Counter()
        """By kind of `streams.state.resume.KINDS`, how many stored values were lost when this was loaded."""
        self.rebuilt_at: int | None = None
        """The offset at which a rebuild ends; None: nothing is being rebuilt."""
        self.forget_written()

    def forget_written(self) -> None:
        """Let the next flush write everything again."""
        self.positions = np.ones(S, np.bool_)
        self.hours: set[int] = set(range(HOURS))
        self.rows: list[NDArray[np.intp]] = [np.arange(len(self.ring))]
        self.changed_facts: set[str] = set(self.facts)
        self.gone_facts: set[str] = set()
        self.all_facts = True
        self.changed = True
        self.usage.changed = self.usage_due = True
        self.base = None

    def base_due(self, now_s: float) -> bool:
        """Return whether the next write must be a base."""
        base = self.base
        return (
            base is None
            or base.position.topic_id != self.topic_id
            or base.position.offset > self.position.offset
            or base.changes_bytes >= base.bytes
            or abs(now_s - base.at_s) >= BASE_S  # also when Redis' clock was set back
            or (self.usage_due and self.usage.changed)
        )

    def write_due(self, now_s: float) -> bool:
        """Return whether a write is due: of changes, or after a while of a base that includes them."""
        waiting = self.base is not None and self.base.changes_bytes > 0
        return self.unwritten or (waiting and self.base_due(now_s))

    @property
    def resuming(self) -> bool:
        """Whether the windows in Redis are of a later state of this log, up to which it is read again."""
        return self.position.offset < self.resume_until

    @property
    def position(self) -> Position:
        return Position(self.topic_id, self.pending[0].offset if self.pending else self.next_offset)

    def take(self, arrived: Sequence[Arrived]) -> int | None:
        """Take the next messages, to be folded; return the offset of the first one beyond a hole (None: no hole)."""
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
        """Whether this worker has changes that Redis lacks."""
        return self.changed or bool(self.pending)

    def fold_pending(self, now_s: float | None = None) -> Outcome:
        """Fold the taken messages; ``now_s`` as for `fold`."""
        arrived, self.pending = self.pending, []
        return self.fold(arrived, now_s)

    def fold(self, arrived: Sequence[Arrived], now_s: float | None = None) -> Outcome:
        """Fold messages, whatever their offsets.

        Records whose time is too far ahead of ``now_s`` are refused; None: the time is not checked.
        """
        outcome = Outcome()
        if not arrived:
            return outcome
        recorded_at = [message.recorded_at for message in arrived]
        latest = RECORD_TIME_MAX_S if now_s is None else now_s + RECORD_AHEAD_S
        samples, places, facts, refused = read_messages(
            [message.value for message in arrived],
            recorded_at,
            self.ring.row,
            [message.key for message in arrived],
            self.admission,
            latest,
        )
        batch = to_batch(samples, [recorded_at[place] for place in places])
        batch, places = refuse_readings(batch, places, self.admission, refused)
        batch, places = refuse_excess(batch, places, refused)
        batch, places = refuse_machines(batch, places, self.ring, self.admission, refused)
        batch, disputed = refuse_names(batch, places, facts, self.ring, recorded_at, refused)
        for machine, key, time_s in disputed:
            if machine in self.taken or len(self.taken) < TAKEN_MOST:
                self.taken[machine] = (key, time_s)
        for one in refused:
            if one.ahead:
                self.clocks.note_one(*one.ahead, recorded_at[one.index])
        if len(batch):
            self.clocks.note(batch.machines, batch.at - batch.recorded_at, batch.recorded_at)
            self.recorded_at = float(batch.recorded_at[-1])
            done = fold(self.ring, batch, self._shift_minutes)
            if self.lost_hours:
                self.lost_hours.fold(batch, self._shift_minutes)
            self.positions |= done.positions
            self.hours.update(hour % HOURS for hour in done.hours)
            self.rows.append(done.rows)
            outcome.counts.update(accepted=done.accepted, duplicate=done.duplicate, late=done.late)
            reports = [(batch.machines[place], report) for place, report in batch.reports]
            most = batch.capacity[[place for place, _ in batch.reports]] * MEAN_MOST
            outcome.usage = self.usage.apply(reports, self.table.zone.day_numbers, most) if reports else Applied()
        left = [place for place, message in facts.items() if not self._note_facts(message, recorded_at[place])]
        self.facts_version += self._fact_changes.due(recorded_at[-1])
        refused += [Refused(place, "machines", no_room(self.admission)) for place in left]
        self.changed = True
        refused.sort(key=lambda one: one.index)
        outcome.ahead = sum(1 for one in refused if recorded_at[one.index] > latest)
        outcome.counts.update(facts=len(facts) - len(left))
        outcome.counts.update(f"rejected:{one.reason}" for one in refused)
        outcome.refused = [(arrived[one.index], one) for one in refused]
        return outcome

    def taken_lately(self, now_s: float) -> dict[str, tuple[str, float]]:
        """Return the entries of ``taken`` of the last `TAKEN_S`, and drop the others."""
        self.taken = {name: one for name, one in self.taken.items() if one[1] > now_s - TAKEN_S}
        return self.taken

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all machines except those in these rows, and let everything be written again."""
        self.ring.keep(rows)
        self.table.forget()
        self.forget_written()

    def drop_facts(self, machines: set[str]) -> None:
        if machines:
            self.facts = {machine: value for machine, value in self.facts.items() if machine not in machines}
            self.changed_facts -= machines
            self.gone_facts |= machines
            self._fact_changes.drop(machines)
            self.facts_version += 1
            self.changed = True

    @property
    def _shift_minutes(self) -> int:
        return self.table.zone.shift_minutes(self.recorded_at)

    def rebuild(self, lost_positions: NDArray[np.bool_], lost_hours: set[int]) -> None:
        """Read the log again from its start: lost slots are folded again, the others stay unchanged."""
        self.lost_positions, self.rebuilt_at = lost_positions, self.next_offset or END_OF_LOG
        self.resume_until = 0
        self.lost_hours = LostHours(lost_hours, self.ring, self._shift_minutes) if lost_hours else None
        self.next_offset = 0
        self.forget_written()

    def end_rebuild(self) -> int:
        """End a rebuild; return the number of lost positions that stayed empty."""
        hours, self.lost_hours = self.lost_hours, None
        if hours:
            hours.restore(self.ring, self._shift_minutes)
            self.hours.update(hours.places)
        uncovered = uncover(self.ring, self.lost_positions)
        self.lost_positions, self.rebuilt_at = np.zeros(S, np.bool_), None
        if uncovered or hours:
            self.rows.append(np.arange(len(self.ring)))
            self.changed, self.base = True, None
        return uncovered

    def finish(self) -> None:
        """Let the next flush write a base with the usage by instance, for the worker that continues."""
        self.usage_due = True
        self.changed = self.changed or self.usage.changed or (self.base is not None and self.base.changes_bytes > 0)
        self.base = None

    def read_anew(self, topic_id: str) -> None:
        """Read this topic from its start, and fold it into the same state."""
        self.topic_id, self.next_offset, self.resume_until = topic_id, 0, 0

    def refresh_table(self, now_s: float = 0.0) -> None:
        """Compute the table rows of the machines that changed since the last call, for a write with a new number."""
        self.table.update(*self._next_update(now_s)[1:])

    @property
    def refreshed(self) -> bool:
        return not self.rows and self.written is not None and self.write_number > self.written.number

    def _next_update(self, now_s: float) -> Update:
        """Return which rows the next write needs, and give it its number.

        Numbers follow the clock in ms, so that a worker without stored state uses none twice.
        """
        self.write_number = max(self.write_number + 1, int(now_s * 1000))
        rows = np.unique(np.concatenate(self.rows)) if self.rows else np.empty(0, np.intp)
        self.rows = []
        return Update(self.table, self.ring, rows[self.ring.head[rows] > NO_SLOT], self.write_number)

    def _note_facts(self, message: MachineFacts, recorded_at: float) -> bool:
        """Keep the newest facts of a machine; only a changed capacity or label raises their version, within seconds.

        Return False for a new machine without room.

        Facts with a later ``at`` are newer: one message with a late ``boot`` must not suppress later facts. An ``at``
        is never later than its record, so newer facts are accepted within seconds after a clock was set back.
        """
        old = self.facts.get(message.machine)
        if old is None and message.machine not in self.ring.row and len(self.facts) >= self.admission.machines_max:
            return False
        before = read_as(old, MachineFacts) if old else None
        if before and (before.at, before.boot) > (message.at, message.boot):
            return True
        self.facts[message.machine] = msgspec.json.encode(message)
        self.changed_facts.add(message.machine)
        if before is None:
            self.facts_version += 1
        elif (before.capacity, before.labels) != (message.capacity, message.labels):
            self.facts_version += self._fact_changes.tell(message.machine, recorded_at)
        return True


TOGETHER_ROWS = 32
"""Partitions with fewer changed rows are refreshed together: for more, a computation of their own costs little beside
them. A row is copied for it, 30 kB: for 64 partitions at most 60 MB."""


def refresh_tables(partitions: Iterable[Partition], now_s: float) -> None:
    """Refresh the tables of the partitions with few changed rows, all in one computation."""
    few = [one for one in partitions if one.rows and sum(map(len, one.rows)) < TOGETHER_ROWS]
    update_together([one._next_update(now_s) for one in few])


FEW_SLOTS = 2
"""A machine with no more filled slots than this counts as new."""


def make_room(partition: Partition) -> int:
    """Drop machines with few samples from a full partition, the longest silent first; return how many.

    Invented ids usually send one sample each. A tenth of the places is freed, so that a new machine can send more than
    `FEW_SLOTS` samples before it would be dropped. Machines with more samples stay.
    """
    used = len(partition.ring)
    if used < partition.admission.machines_max:
        return 0
    few = np.flatnonzero((partition.ring.n[:used] > 0).any(axis=1).sum(axis=1) <= FEW_SLOTS)
    oldest = few[np.argsort(partition.ring.at[few], kind="stable")][: used - partition.admission.machines_max * 9 // 10]
    if len(oldest):
        partition.keep(np.setdiff1d(np.arange(used), oldest))
    return len(oldest)


def drop_silent(partition: Partition, now_s: float, silent_s: float) -> int:
    """Drop machines without a sample for ``silent_s``, and facts as old of machines that have no windows.

    Drop also samples more than a day ahead, taken while this worker's clock was wrong: they would never become stale,
    and later samples of the machine would count as late. Return how many machines lost their windows.
    """
    partition.ring.trim()
    partition.changed = partition.usage.drop_silent(now_s - silent_s) > 0 or partition.changed
    kept = heard(partition.ring, now_s, silent_s)
    gone = len(partition.ring) - len(kept)
    if gone:
        partition.keep(kept)
    said = {m: read_as(value, MachineFacts).at for m, value in partition.facts.items()}
    old = {
        machine
        for machine, at in said.items()
        if at > now_s + DAY_S or (machine not in partition.ring.row and at < now_s - silent_s)
    }
    partition.drop_facts(old)
    return gone


def forget(partition: Partition, forgotten: Mapping[str, float]) -> list[str]:
    """Drop machines without any message after the time at which they were forgotten; return the dropped ones.

    Their samples may still be in the log: when it is read again they reappear until the next call.
    """
    ring = partition.ring
    partition.changed = partition.usage.forget(forgotten) > 0 or partition.changed
    known = {machine: row for machine in forgotten if (row := ring.row.get(machine)) is not None}
    rows = {row for machine, row in known.items() if ring.at[row] <= forgotten[machine]}
    if rows:
        partition.keep(np.array([row for row in range(len(ring)) if row not in rows], np.intp))
    said = {
        machine
        for machine in forgotten.keys() & partition.facts.keys()
        if read_as(partition.facts[machine], MachineFacts).at <= forgotten[machine]
    }
    partition.drop_facts(said)
    return sorted({machine for machine, row in known.items() if row in rows} | said)
