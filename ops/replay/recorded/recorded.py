"""A workload from a recording of a live fleet (`ops.record`): the fleet, its instances, and what is missing.

Replayed is every instance that ran, from its placement to its end, with its request, rules and usage, but not its
profile, since profiles are compared. Instances that are live at the beginning are placed then. Machines are those of
the whole time, with operators' shares, reserves and labels; cordons and taints are ignored. Load of no instance stays
on its machine.

Not replayed are reservations that were released or expired before they were confirmed, and refused requests: their
usage is unknown. They are counted.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from ops.record.entry import Decision, Facts, Gap
from ops.record.frames import RecordingError
from ops.record.reading import steps
from ops.replay.recorded.fleet import fleet_of
from ops.replay.recorded.lives import Life, Lives, named
from ops.replay.recorded.missing import Missing
from ops.replay.recorded.usage import Stretch, Used, fill
from ops.replay.workload import CELLS_MAX, MINUTE_S, Usage, Workload, WorkloadError, check
from schemas.resources import CPU, PRIORITY_CLASSES, RESOURCES
from schemas.tables.instance_table import SEPARATOR
from schemas.values.errors import shortened
from scorer.ledger.record.as_request import as_request
from scorer.snapshot.arrays import Bools, Floats

FILL_MINUTES = 60
"""Minutes in which the windows fill with the instances placed at the beginning; shown apart."""


def read_recorded(folder: Path, since_s: float, until_s: float) -> tuple[Workload, Missing]:
    """Return the workload of a recording between two moments, and what is missing; raises WorkloadError."""
    try:
        return _read(folder, since_s, until_s)
    except RecordingError as error:
        raise WorkloadError(shortened(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise WorkloadError(shortened(f"{folder.name}: a record of the ledger cannot be read: {error}")) from None


def _read(folder: Path, since_s: float, until_s: float) -> tuple[Workload, Missing]:
    origin_s = int(since_s // MINUTE_S * MINUTE_S)
    minutes = int((until_s - origin_s) // MINUTE_S)
    lives, facts = Lives(), dict[str, Facts]()
    operator: dict[str, bytes] = {}
    gaps: list[Gap] = []
    seen_s: list[float] = []
    refused = 0
    for step in steps(folder, since_s, until_s):
        entry = step.entry
        if entry.at <= until_s:
            lives.take(entry)
            operator = operator if entry.operator is None else entry.operator
        facts |= {
            name: Facts(one.capacity or facts.get(name, Facts()).capacity, one.labels)
            for name, one in entry.facts.items()
        }
        seen_s.append(entry.at)
        gaps += [gap for gap in entry.gaps if gap.since < until_s and gap.until > since_s]
        refused += sum(_refused(one) for one in entry.decisions if since_s <= _time_of(one) < until_s)
    if not seen_s:
        raise WorkloadError(f"{folder.name}: nothing was recorded in the time asked for")
    fleet = fleet_of(facts, operator)
    machines = fleet.names
    found = lives.between(origin_s, origin_s + minutes * MINUTE_S)
    ran = [life for life in found if life.ran]
    if not machines or not ran:
        what = "machines with a known number of cores" if not machines else "instances that ran"
        raise WorkloadError(f"{folder.name}: there are no {what} in the time asked for")
    for life in ran:
        if life.record.priority_class not in PRIORITY_CLASSES:
            told = f"{life.record.id!r} has the priority class {life.record.priority_class!r}"
            raise WorkloadError(shortened(f"{folder.name}: {told}, which this release does not know"))
    row_of = {name: row for row, name in enumerate(machines)}
    stretch = _stretch(ran, row_of, origin_s, minutes)
    if max(stretch.cells, len(machines) * minutes) > CELLS_MAX:
        raise WorkloadError(
            f"{folder.name}: {minutes} minutes of so many instances are too many: ask for a shorter time"
        )
    used = _used(folder, (since_s, until_s), ran, stretch, row_of, minutes)
    asked = np.array([[amount or 0.0 for amount in _amounts(life)] for life in ran]).T
    measured = np.isfinite(fleet.capacity).all(axis=1) & _any(used.usage, used.load)
    measured[CPU] = True
    filled = fill(used.usage[measured], used.load[measured], asked[measured], stretch)
    workload = Workload(
        name=folder.name or "recording",
        machines=machines,
        capacity=fleet.capacity,
        instances=(names := named(ran)),
        asked=asked,
        start=stretch.start,
        life=np.maximum(stretch.length, 1),
        usage=_as_usage(filled.usage, measured, stretch),
        minutes=minutes,
        fill_minutes=FILL_MINUTES if minutes >= 3 * FILL_MINUTES else 0,
        origin_s=origin_s,
        machine_labels=fleet.labels,
        requests=[
            msgspec.structs.replace(as_request(life.record), id=name) for life, name in zip(ran, names, strict=True)
        ],
        system=filled.system,
        placed_on=np.array([where[0][1] for where in stretch.where], np.int64),
    )
    missing = Missing(
        gaps=tuple(gaps),
        filled=filled,
        never_ran=len(found) - len(ran),
        guessed_ends=lives.guessed,
        unknown_machines=fleet.unknown,
        moved=sum(len(life.where) > 1 for life in ran),
        refused=refused,
        unrecorded_s=max(min(seen_s) - since_s, 0.0) + max(until_s - max(seen_s), 0.0),
    )
    return check(workload, folder.name), missing


class _Answer(msgspec.Struct):
    missing: int = 0
    dry_run: bool = False


def _refused(decision: Decision) -> int:
    """Return the number of instances that a decision refused."""
    try:
        found = msgspec.json.decode(decision.answer, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    return 0 if found.dry_run else found.missing


def _time_of(decision: Decision) -> float:
    """Return a decision's time, epoch s; 0 for a stamp that is no time."""
    moment = decision.stamp.partition("-")[0]
    return int(moment) / 1000 if moment.isascii() and moment.isdecimal() and len(moment) < 16 else 0.0


def _stretch(ran: list[Life], row_of: dict[str, int], origin_s: float, minutes: int) -> Stretch:
    def minute(at: float) -> int:
        return int(min(max(at - origin_s, 0.0), minutes * MINUTE_S) // MINUTE_S)

    start = np.array([minute(life.begin_s) for life in ran], np.int64)
    end = np.array([minute(life.end_s + MINUTE_S / 2) for life in ran], np.int64)
    where = [[(minute(since), row_of.get(machine, -1)) for since, machine in life.where] for life in ran]
    return Stretch(origin_s, start, np.maximum(end - start, 1), where)


def _used(
    folder: Path,
    between: tuple[float, float],
    ran: list[Life],
    stretch: Stretch,
    row_of: dict[str, int],
    minutes: int,
) -> Used:
    used = Used(stretch, len(row_of), minutes, len(RESOURCES))
    lives_of: dict[str, list[int]] = {}
    for number, life in enumerate(ran):
        for machine in {machine for _, machine in life.where}:
            lives_of.setdefault(f"{machine}{SEPARATOR}{life.record.id}", []).append(number)
    for step in steps(folder, *between):
        rows = set(step.usage.row.tolist())
        used.put_usage(step.usage, {row: lives_of.get(step.pairs[row], ()) for row in rows})
        used.put_load(step.load, np.array([row_of.get(name, -1) for name in step.machines], np.int64))
    return used


def _amounts(life: Life) -> tuple[float | None, ...]:
    return (*life.record.amounts, *[None] * (len(RESOURCES) - len(life.record.amounts)))


def _any(usage: Floats, load: Floats) -> Bools:
    """Return [R]: whether any instance or machine reported the resource."""
    return np.array([bool(np.isfinite(u).any() or np.isfinite(m).any()) for u, m in zip(usage, load, strict=True)])


def _as_usage(usage: Floats, measured: Bools, stretch: Stretch) -> Usage:
    values = np.full((len(RESOURCES), stretch.cells), np.nan, np.float32)
    values[measured] = usage
    count = len(stretch.start)
    return Usage(
        values=values,
        base=stretch.base,
        length=stretch.length,
        shift=-stretch.start % stretch.length,
        scale=np.ones((len(RESOURCES), count)),
        most=np.full((len(RESOURCES), count), np.inf),
    )
