"""A workload from a recording of a live fleet (`ops.record`): the fleet, its instances, and what is missing.

Replayed is every instance that ran, from its placement to its end, with its request, rules and usage, but not its
profile, since profiles are compared. Instances that are live at the beginning are placed then. Machines are those of
the whole time, with operators' shares, reserves and labels; cordons and taints are ignored. Load of no instance stays
on its machine.

Not replayed are reservations that were released or expired before they were confirmed, and refused requests: their
usage is unknown. They are counted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path

import msgspec
import numpy as np

from ops.record.entry import Decision, Entry, Facts, Gap, RecordingError
from ops.record.folder import steps
from ops.replay.recorded.usage import Stretch, Used, fill
from ops.replay.workload import CELLS_MAX, MINUTE_S, Usage, Workload, WorkloadError
from schemas.messages.operator import effective, stored_operator_facts
from schemas.resources import CPU, RESOURCES
from schemas.tables.instance_table import SEPARATOR
from schemas.values.errors import shortened
from schemas.values.numbers import duration
from schemas.values.read_json import read_or
from scorer.ledger.record.instance import LIVE, Instance, as_request, read_record
from scorer.snapshot.arrays import Bools, Floats


@dataclass(eq=False)
class Life:
    """One reservation of an id, from its placement to its end."""

    record: Instance
    """The last."""
    begin_s: float
    end_s: float = inf
    ran: bool = False
    """It was confirmed."""
    where: list[tuple[float, str]] = field(default_factory=list)
    """Its machines, each with the time from which it was there."""


class Lives:
    """Takes entries in order."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, int], Life] = {}
        self._live: set[tuple[str, int]] = set()
        self.guessed = 0
        """Lives whose end was not recorded: a later whole state does not have them."""

    def take(self, entry: Entry) -> None:
        """Add the changes of an entry; raises ValueError for a damaged record."""
        for raw in entry.instances:
            self._take(read_record(raw), entry.at)
        if entry.full:
            listed = {(record.id, record.generation) for record in map(read_record, entry.instances)}
            for key in self._live - listed:
                self._of[key].end_s = entry.at
                self.guessed += 1
            self._live &= listed

    def _take(self, record: Instance, at: float) -> None:
        key = (record.id, record.generation)
        life = self._of.get(key)
        if life is None:
            began_s = record.reserved_at or record.started_at or at
            life = self._of[key] = Life(record, began_s, where=[(began_s, record.machine)])
        elif record.machine != life.where[-1][1]:
            life.where.append((record.started_at or at, record.machine))
        life.record = record
        life.ran |= record.state == "confirmed" or (record.state == "released" and record.started_at > 0)
        if record.state in LIVE:
            life.end_s = inf
            self._live.add(key)
        else:
            life.end_s = record.ended_at or at
            self._live.discard(key)

    def between(self, since_s: float, until_s: float) -> list[Life]:
        """Return the reservations that existed between two moments, in the order in which they began."""
        found = [life for life in self._of.values() if life.begin_s < until_s and life.end_s > since_s]
        return sorted(found, key=lambda life: (life.begin_s, life.record.id))


def named(lives: Iterable[Life]) -> list[str]:
    """Return a name for each reservation: its id; a later one of the same id has a number appended.

    >>> record = Instance(id="a", machine="m", state="confirmed", amounts=())
    >>> named([Life(record, 0.0), Life(record, 5.0)])
    ['a', 'a (2)']
    """
    seen: dict[str, int] = {}
    taken: set[str] = set()
    found = []
    for life in lives:
        name = life.record.id
        while name in taken:
            seen[life.record.id] = seen.get(life.record.id, 1) + 1
            name = f"{life.record.id} ({seen[life.record.id]})"
        taken.add(name)
        found.append(name)
    return found


FILL_MINUTES = 60
"""Minutes in which the windows fill with the instances placed at the beginning; shown apart."""


@dataclass(frozen=True, eq=False)
class RecordedFleet:
    """M machines, with operators' shares and reserves."""

    names: list[str]
    capacity: Floats
    """[R, M] allocatable: capacity times share less reserve; NaN where it is not known."""
    labels: list[dict[str, str]]
    unknown: int
    """Machines without a known number of cores: left out."""

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    def row(self, machine: str) -> int:
        """Return the row of a machine, -1 for one that is left out."""
        return self._rows.get(machine, -1)


def fleet_of(facts: Mapping[str, Facts], operator: Mapping[str, bytes]) -> RecordedFleet:
    """Return the fleet; operators' rules that cannot be read are ignored.

    >>> found = fleet_of({"m": Facts({"cpu": 8.0}), "n": Facts()}, {"*": b'{"reserve":{"cpu":1}}', "m": b"["})
    >>> found.names, found.capacity[0].tolist(), found.unknown
    (['m'], [7.0], 1)
    """
    said = {name: one for name, raw in operator.items() if (one := stored_operator_facts(raw)) is not None}
    names, rows, labels = [], [], []
    for name in sorted(facts):
        rule = effective(said, name)
        capacity = {**facts[name].capacity, **rule.capacity}
        usable = [
            float(capacity.get(each, np.nan)) * float(rule.share.get(each, 1.0)) - float(rule.reserve.get(each, 0.0))
            for each in RESOURCES
        ]
        if 0 < usable[CPU] < np.inf:
            names.append(name)
            rows.append([amount if amount > 0 else np.nan for amount in usable])
            labels.append({**facts[name].labels, **rule.labels})
    capacities = np.array(rows).reshape(-1, len(RESOURCES)).T.copy()
    return RecordedFleet(names, capacities, labels, len(facts) - len(names))


@dataclass(frozen=True)
class _Span:
    """The time of a recording that is replayed."""

    folder: Path
    since_s: float
    until_s: float

    @property
    def origin_s(self) -> int:
        return int(self.since_s // MINUTE_S * MINUTE_S)

    @property
    def minutes(self) -> int:
        return int((self.until_s - self.origin_s) // MINUTE_S)

    def minute(self, at: float) -> int:
        """Return the minute that contains a moment, within the span."""
        return int(min(max(at - self.origin_s, 0.0), self.minutes * MINUTE_S) // MINUTE_S)

    def error(self, problem: str) -> WorkloadError:
        return WorkloadError(shortened(f"{self.folder.name}: {problem}"))


class _Said:
    """The contents of a span's entries: lives of instances, facts of machines, operators' rules, gaps, refusals."""

    def __init__(self, span: _Span) -> None:
        self.lives, self.facts = Lives(), dict[str, Facts]()
        self.operator: dict[str, bytes] = {}
        self.gaps: list[Gap] = []
        self.seen_s: list[float] = []
        self.refused = 0
        for entry in (step.entry for step in steps(span.folder, span.since_s, span.until_s)):
            if entry.at <= span.until_s:
                self.lives.take(entry)
                self.operator = self.operator if entry.operator is None else entry.operator
            for name, one in entry.facts.items():
                self.facts[name] = Facts(one.capacity or self.facts.get(name, Facts()).capacity, one.labels)
            self.seen_s.append(entry.at)
            self.gaps += [gap for gap in entry.gaps if gap.since < span.until_s and gap.until > span.since_s]
            asked = [one for one in entry.decisions if span.since_s <= _time_of(one) < span.until_s]
            self.refused += sum(map(_refused, asked))
        if not self.seen_s:
            raise span.error("nothing was recorded in the time asked for")


def read_recorded(folder: Path, since_s: float, until_s: float) -> tuple[Workload, list[str]]:
    """Return the workload of a recording between two moments, and a line on each kind of data that is missing.

    What is missing was filled in or left out. Raises WorkloadError.
    """
    span = _Span(folder, since_s, until_s)
    try:
        return _read(span)
    except RecordingError as error:
        raise WorkloadError(shortened(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise span.error(f"a record of the ledger cannot be read: {error}") from None


def _read(span: _Span) -> tuple[Workload, list[str]]:
    said, minutes = _Said(span), span.minutes
    fleet = fleet_of(said.facts, said.operator)
    found = said.lives.between(span.origin_s, span.origin_s + minutes * MINUTE_S)
    ran = [life for life in found if life.ran]
    if not fleet.names or not ran:
        what = "machines with a known number of cores" if not fleet.names else "instances that ran"
        raise span.error(f"there are no {what} in the time asked for")
    stretch = _stretch(ran, fleet, span)
    if max(stretch.cells, len(fleet.names) * minutes) > CELLS_MAX:
        raise span.error(f"{minutes} minutes of so many instances are too many: ask for a shorter time")
    used = _used(ran, stretch, fleet, span)
    asked = np.zeros((len(RESOURCES), len(ran)))
    for number, life in enumerate(ran):
        asked[: len(life.record.amounts), number] = [amount or 0.0 for amount in life.record.amounts]
    if not (np.isfinite(asked) & (asked >= 0)).all():
        raise span.error("an instance asks for an amount that is none")
    reported = [bool(np.isfinite(u).any() or np.isfinite(m).any()) for u, m in zip(used.usage, used.load, strict=True)]
    measured: Bools = np.isfinite(fleet.capacity).all(axis=1) & np.array(reported)
    measured[CPU] = True
    filled = fill(used.usage[measured], used.load[measured], asked[measured], stretch)
    values = np.full((len(RESOURCES), stretch.cells), np.nan, np.float32)
    values[measured] = filled.usage
    names = named(ran)
    pairs = zip(ran, names, strict=True)
    workload = Workload(
        name=span.folder.name or "recording",
        machines=fleet.names,
        capacity=fleet.capacity,
        instances=names,
        asked=asked,
        start=stretch.start,
        life=np.maximum(stretch.length, 1),
        usage=Usage.plain(values, stretch.base, stretch.length, -stretch.start % stretch.length),
        minutes=minutes,
        fill_minutes=FILL_MINUTES if minutes >= 3 * FILL_MINUTES else 0,
        origin_s=span.origin_s,
        machine_labels=fleet.labels,
        requests=[msgspec.structs.replace(as_request(life.record), id=name) for life, name in pairs],
        system=filled.system,
        placed_on=np.array([where[0][1] for where in stretch.where], np.int64),
    )
    unrecorded_s = max(min(said.seen_s) - span.since_s, 0.0) + max(span.until_s - max(said.seen_s), 0.0)
    count, moved, never_ran = len(ran), sum(len(life.where) > 1 for life in ran), len(found) - len(ran)
    of_machines, guessed = minutes * len(fleet.names), said.lives.guessed
    lacks = [
        (unrecorded_s >= MINUTE_S, f"{duration(unrecorded_s)} of the time asked for were not recorded"),
        (filled.shared, f"{filled.shared} of {count} instances have no usage: a share of what their machine used"),
        (filled.asked, f"{filled.asked} of {count} instances have no usage, nor their machine: what they ask for"),
        (filled.held, f"{filled.held} minutes of instances without a report: the value before holds"),
        (filled.unmeasured, f"{filled.unmeasured} of {of_machines} minutes of machines without a sample: likewise"),
        (guessed, f"{guessed} instances whose end was not recorded: when they were missed"),
        (never_ran, f"{never_ran} reservations that were never confirmed: left out"),
        (said.refused, f"{said.refused} instances were refused: left out, since their usage is unknown"),
        (moved, f"{moved} instances were moved: placed once here"),
        (fleet.unknown, f"{fleet.unknown} machines without a known number of cores: left out"),
    ]
    gaps = [
        f"gap: {gap.source}, {duration(gap.until - gap.since)}{f', {gap.lost} messages' * bool(gap.lost)}: {gap.why}"
        for gap in said.gaps
    ]
    return workload, [*(line for there, line in lacks if there), *gaps]


class _Answer(msgspec.Struct):
    missing: int = 0
    dry_run: bool = False


def _refused(decision: Decision) -> int:
    """Return the number of instances that a decision refused."""
    found = read_or(decision.answer, _Answer, _Answer())
    return 0 if found.dry_run else found.missing


def _time_of(decision: Decision) -> float:
    """Return a decision's time, epoch s; 0 for a stamp that is no time."""
    moment = decision.stamp.partition("-")[0]
    return int(moment) / 1000 if moment.isascii() and moment.isdecimal() and len(moment) < 16 else 0.0


def _stretch(ran: list[Life], fleet: RecordedFleet, span: _Span) -> Stretch:
    start = np.array([span.minute(life.begin_s) for life in ran], np.int64)
    end = np.array([span.minute(life.end_s + MINUTE_S / 2) for life in ran], np.int64)
    where = [[(span.minute(since), fleet.row(machine)) for since, machine in life.where] for life in ran]
    return Stretch(span.origin_s, start, np.maximum(end - start, 1), where)


def _used(ran: list[Life], stretch: Stretch, fleet: RecordedFleet, span: _Span) -> Used:
    used = Used(stretch, len(fleet.names), span.minutes, len(RESOURCES))
    lives_of: dict[str, list[int]] = {}
    for number, life in enumerate(ran):
        for machine in {machine for _, machine in life.where}:
            lives_of.setdefault(f"{machine}{SEPARATOR}{life.record.id}", []).append(number)
    for step in steps(span.folder, span.since_s, span.until_s):
        rows = set(step.usage.row.tolist())
        used.put_usage(step.usage, {row: lives_of.get(step.pairs[row], ()) for row in rows})
        used.put_load(step.load, np.array([fleet.row(name) for name in step.machines], np.int64))
    return used
