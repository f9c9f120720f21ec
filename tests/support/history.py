"""Whether the ledger kept what clients were told: every answer against the change log, the ledger and its sums. Pure.

| fault | what it means |
|---|---|
| lost | an answer's change is not in the log, or another change has its number |
| doubled | a step took effect more often than clients asked for it |
| over | a machine held more than its limit, or a port was taken twice |
| wrong | a gap in the log, a step that no script takes, a ledger or sums that are not what the log adds up to |

A call without an answer may have acted or not: it counts as asked for, and nothing can be lost by it. An answer that
there is no machine promises nothing: another scorer that took the same query may reserve one until it expires.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import LIVE, Instance, as_held, in_units, machines_of
from tests.scorer.ledger.ledger_model import TRANSITIONS


class Told(NamedTuple):
    step: str
    """``place``, ``confirm``, ``update`` or ``release``."""
    id: str
    error: str = ""
    """The code of the error; then the rest says nothing."""
    state: str = ""
    """"" also when there was no machine."""
    machine: str = ""
    generation: int = 0
    version: int = 0
    """The number of the change that made the record in the answer."""
    move: tuple[str, int] | None = None
    """Where it moves to, and the number of the move."""
    at_s: float = 0.0
    """When the answer came, by the host's monotonic clock."""


def told(step, answer, at_s=0.0):
    """Return what an answer of the client says: one for each instance of a placement, or that there was no machine."""
    if step == "place" and not answer.placed:
        return [Told(step, answer.id or "", at_s=at_s)]
    return [
        Told(step, one.id, "", one.state, one.machine, one.generation, one.version, _move(one), at_s)
        for one in (answer.placed if step == "place" else [answer])
    ]


def _move(record):
    """Return where a record, or an answer, moves to, and the number of that move."""
    moving = getattr(record, "moving", None)
    return None if moving is None else (moving.to, moving.number)


@dataclass
class Verdict:
    """What broke, in words, and what the log says."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    changes: int = 0
    acknowledged: int = 0
    """Answers that name a change."""
    fullest: float = 0.0
    """The largest share of a limit that was ever taken."""

    @property
    def faults(self):
        kinds = ("lost", "doubled", "over", "wrong")
        return [f"{kind}: {fault}" for kind in kinds for fault in getattr(self, kind)]


def judge(history, said, live, limits, differences=(), now_s=0.0):
    """Replay the log and compare it with what was said.

    ``history``: every change of the log, oldest first. ``live``: the ledger's instances after the last of them.
    ``limits``: of each machine, in the order of `schemas.resources`; empty: not compared.
    ``differences``: what a check of the ledger's sums found. ``now_s``: when what was due was ended; 0: it was not.
    """
    verdict = Verdict(changes=len(history), wrong=[f"the ledger's sums: {one}" for one in differences])
    done = Counter[tuple[str, str]]()
    fleet, last = _Fleet(limits, verdict), dict[str, Instance]()
    for number, (before, after) in enumerate(steps(history), 1):
        if after.version != number:
            verdict.wrong.append(f"change {number} is missing")
            break
        if fault := _fault(before, after):
            verdict.wrong.append(f"change {number}: {fault}")
        done[effect(before, after), after.id] += 1
        last[after.id] = after
        fleet.change(before, after)
    asked = Counter[tuple[str, str]]()
    for one in said:
        asked[one.step, one.id] += 1
        verdict.acknowledged += bool(one.version)
        if one.version and (fault := _unlike(one, history)):
            verdict.lost.append(fault)
    named = {name for _, name in asked}
    for (step, name), times in done.items():
        if step and name in named and times > asked[step, name]:
            verdict.doubled.append(f"{step} {name}: asked for {asked[step, name]} times, done {times} times")
    verdict.wrong += _unlike_log(last, live) + _overdue(live, now_s)
    return verdict


def steps(history):
    """Yield each change with the record of the same id before it."""
    seen = {}
    for record in history:
        yield seen.get(record.id), record
        seen[record.id] = record


def effect(before, after):
    """Return which call makes this step; "" for what ends by itself (a cancelled move looks the same)."""
    if before is None or before.generation != after.generation:
        return "place"
    if after.state == "expired":
        return ""
    if after.state == "released":
        return "release"
    if before.moving is not None and after.moving is None:
        return "confirm" if after.machine == before.moving.to else ""
    return "confirm" if before.state == "reserved" else "update"


def _fault(before, after):
    """Return why no script takes this step; "" where one does."""
    if before is None:
        return "" if after.state == "reserved" else f"{after.id} began as {after.state}"
    if not _allowed(before, after):
        return f"{after.id} went from {before.state} to {after.state}"
    if before.state in LIVE and before.generation != after.generation:
        return f"{after.id} has another generation"
    if before.moving is not None and after.state in LIVE:
        arrived = after.moving is None and after.machine == before.moving.to
        stayed = after.machine == before.machine and after.moving in (None, before.moving)
        return "" if arrived or stayed else f"{after.id} was moving to {before.moving.to} and came to {after.machine}"
    if after.moving is not None and after.machine != before.machine:
        return f"{after.id} began to move and was elsewhere at once"
    return ""


def _allowed(before, after):
    if after.state == "expired":
        return before.state == "reserved"
    allowed = ("reserve", "confirm", "update", "release")
    return any(TRANSITIONS[before.state, step] == after.state for step in allowed)


def _unlike(one, history):
    """Return how an answer differs from the change that it names; "" where it does not."""
    words = f"{one.step} {one.id} on {one.machine}, {one.state}, generation {one.generation}, change {one.version}"
    if one.version > len(history):
        return f"{words}: the log ends with {len(history)}"
    found = history[one.version - 1]
    logged = (found.id, found.state, found.machine, found.generation, _move(found))
    if logged == (one.id, one.state, one.machine, one.generation, one.move):
        return ""
    return f"{words}: that change is {found.id} on {found.machine}, {found.state}, generation {found.generation}"


def _unlike_log(last, live):
    """Return where the ledger has not what the log ends with."""
    ends = {name: one.version for name, one in last.items() if one.state in LIVE}
    has = {name: one.version for name, one in live.items()}
    return [
        f"{name}: the log ends with change {ends.get(name)}, the ledger has {has.get(name)}"
        for name in sorted(ends.keys() | has.keys())
        if ends.get(name) != has.get(name)
    ]


def _overdue(live, now_s):
    """Return what should have ended by itself."""
    found = [name for name, one in live.items() if one.state == "reserved" and one.expires_at < now_s]
    found += [name for name, one in live.items() if one.moving is not None and one.moving.until < now_s]
    return [f"{name} should have ended by itself" for name in found]


class _Fleet:
    """What every machine holds at one moment of the history."""

    def __init__(self, limits, verdict):
        self._limits = {name: in_units(name, limit) for name, limit in zip(RESOURCES, limits, strict=False)}
        self._sums = Counter()
        self._ports = {}
        self._verdict = verdict

    def change(self, before, after):
        """Take one record's place; note what the next one breaks."""
        if before is not None and before.state in LIVE:
            self._take_away(before)
        if after.state in LIVE:
            self._add(after)

    def _add(self, record):
        for machine in machines_of(record):
            for name, amount in zip(RESOURCES, as_held(record, machine).amounts, strict=True):
                if (limit := self._limits.get(name)) is None:
                    continue
                self._sums[machine, name] += in_units(name, amount)
                share = self._sums[machine, name] / limit
                self._verdict.fullest = max(self._verdict.fullest, share)
                if share > 1:
                    self._verdict.over.append(f"change {record.version}: {machine} over its {name}")
            for port in record.ports:
                if self._ports.setdefault((machine, port), record.id) != record.id:
                    self._verdict.over.append(f"change {record.version}: port {port} of {machine} taken twice")

    def _take_away(self, record):
        for machine in machines_of(record):
            for name, amount in zip(RESOURCES, as_held(record, machine).amounts, strict=True):
                self._sums[machine, name] -= in_units(name, amount)
            for port in record.ports:
                self._ports.pop((machine, port), None)
