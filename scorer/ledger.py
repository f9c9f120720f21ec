"""Shell: the ledger's transitions, one Lua script each; the in-memory model in the tests has the same interface.

A script is ``ledger.lua`` (what they share) and the transition's own file. It is sent by its digest; a server that does
not know it yet gets the text. Nothing here is repeated by itself: who calls knows that each transition may be repeated.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import redis

from schemas.names import Names
from schemas.request import DECIMALS, Request
from schemas.resources import RESOURCES
from scorer.instance import Instance
from scorer.wire import Command, Wire

SCRIPTS = ("reserve", "confirm", "update", "release", "expire", "correct")
UNITS = tuple(10.0 ** DECIMALS[name] for name in RESOURCES)
"""Units of the ledger's sums in each resource's unit: cpu in millionths of a core, bytes, bytes/s. As in ledger.lua."""
AMOUNT_MAX = 2.0**50
"""The largest amount in those units: sums of some thousands stay whole."""
_COUNT_MAX = 2.0**53
NO_LIMIT = -1

_UNCHANGED: dict[str, Any] = {"machine": "", "state": "reserved"} | {
    # The very default objects: a default is left out of the JSON by identity, not by equality.
    own.name: own.default
    for own in msgspec.structs.fields(Instance)
    if own.name in ("version", "reserved_at", "started_at", "expires_at", "ended_at")
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Instance).decode
_sorted = msgspec.json.Encoder(order="deterministic").encode
_HERE = Path(__file__).parent


class Candidate(NamedTuple):
    """A machine that an instance may go to, as the scorer saw it. Limits in base units, NaN: none."""

    machine: str
    version: int
    """The machine's version; -1: not compared."""
    amounts: tuple[float, ...]
    """The most that all its instances together may have of each resource."""
    maxmemory: float = math.nan
    masters: float = math.nan
    """The most masters of the instance's cluster; the first is always allowed."""


class Wanted(NamedTuple):
    """An instance to reserve: its record (the script fills in state, machine and times) and where it may go."""

    instance: Instance
    ttl_s: float
    candidates: Sequence[Candidate]


class Change(NamedTuple):
    """An instance to update: the record it was decided on, the new one, and where it may go."""

    old: Instance
    new: Instance
    candidates: Sequence[Candidate]


Kind = Literal[
    "placed", "known", "other", "conflict", "none",
    "done", "repeat", "ended", "elsewhere", "unknown", "reserved", "stale",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script did for one instance; its own header says which kinds it gives."""

    kind: Kind
    instance: Instance | None = None
    position: int = 0
    """Which candidate was taken."""
    reasons: str = ""
    """Why the candidates before it, or all of them, were not."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The outcomes, and all records the script changed, in order: the entries it wrote to the log."""

    epoch: str
    before: int
    changes: list[Instance]
    outcomes: list[Outcome] = field(default_factory=list)
    count: int = 0


def request_digest(request: Request) -> str:
    """Return what tells two requests under one id apart; how the answer is shown does not count.

    >>> request_digest(Request(cpu=1.0, top=3)) == request_digest(Request(cpu=1.0))
    True
    """
    plain = msgspec.structs.replace(request, top=5, explain=False, dry_run=False)
    return hashlib.blake2b(_sorted(plain), digest_size=9).hexdigest()


def in_units(position: int, amount: float) -> int:
    """Return an amount, or a limit, as the ledger counts it; NaN is no limit.

    >>> in_units(0, 3.9), in_units(1, 1.5e9), in_units(2, float("nan"))
    (3900000, 1500000000, -1)
    """
    if amount != amount:  # noqa: PLR0124 - NaN, at a third of the price of a call
        return NO_LIMIT
    counted = amount * UNITS[position] + 0.5
    return int(counted) if counted < _COUNT_MAX else int(_COUNT_MAX)


def too_large(amounts: Sequence[float], maxmemory: float) -> str:
    """Name the amount that the ledger cannot count exactly; "" when it can."""
    for position, amount in enumerate(amounts):
        if amount * UNITS[position] > AMOUNT_MAX:
            return RESOURCES[position]
    return "maxmemory" if maxmemory > AMOUNT_MAX else ""


def record_tail(instance: Instance) -> bytes:
    """Return the part of a record that the scripts pass on: its JSON without braces and the changing fields."""
    head, _, tail = _encode(msgspec.structs.replace(instance, **_UNCHANGED)).partition(
        b'"machine":"","state":"reserved",'
    )
    return head[1:] + tail[:-1]


def _limits(candidates: Sequence[Candidate]) -> bytes:
    return _encode(
        [
            (
                machine,
                version,
                *[in_units(position, limit) for position, limit in enumerate(amounts)],
                in_units(1, maxmemory),
                in_units(1, masters),
            )
            for machine, version, amounts, maxmemory, masters in candidates
        ]
    )


@cache
def script_text(name: str) -> str:
    """Return a transition's script."""
    return (_HERE / "ledger.lua").read_text() + (_HERE / f"{name}.lua").read_text()


class Ledger:
    """The ledger of one prefix on one server."""

    def __init__(
        self,
        wire: Wire,
        names: Names,
        *,
        log_length: int = 50_000,
        remember_s: float = 86_400.0,
        time_source: str = "redis.call('TIME')",
    ) -> None:
        self.wire = wire
        self._common = (log_length, max(1, round(remember_s)))
        parts = ("head", "instances", "expiry", "machines", "masters", "ports", "clusters", "log", "ended")
        self._keys = tuple(names.ledger(part) for part in parts)
        self.head, self.instances, self.expiry, self.machines, *_, self.log, self.ended = self._keys
        self._scripts = {name: script_text(name).replace("redis.call('TIME')", time_source) for name in SCRIPTS}
        self._digests = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._scripts.items()}  # noqa: S324

    def _run(
        self,
        script: str,
        dry_run: bool,
        *arguments: str | bytes | float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        call = (len(self._keys), *self._keys, int(dry_run), *self._common, *arguments)
        (result,) = self.wire.ask([("EVALSHA", self._digests[script], *call)], meanwhile=meanwhile)
        if isinstance(result, redis.exceptions.NoScriptError):
            (result,) = self.wire.ask([("EVAL", self._scripts[script], *call)])
        if isinstance(result, redis.ResponseError):
            raise result
        return result  # type: ignore[no-any-return]

    @staticmethod
    def _transition(result: list[Any], outcomes: list[Outcome]) -> Transition:
        return Transition(result[0].decode(), int(result[1]), [_decode(raw) for raw in result[2]], outcomes)

    def reserve(
        self,
        wanted: Sequence[Wanted],
        *,
        expected_change: int = -1,
        all_or_nothing: bool = False,
        dry_run: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Transition:
        """Reserve each instance on the first of its candidates that is as the scorer saw it and has room.

        ``meanwhile`` is called while the server works.
        """
        arguments: list[str | bytes | float] = [expected_change, int(all_or_nothing)]
        for one in wanted:
            instance = one.instance
            tail, limits = record_tail(instance), _limits(one.candidates)
            arguments += [instance.id, instance.request, repr(float(one.ttl_s)), tail, limits]
        result = self._run("reserve", dry_run, *arguments, meanwhile=meanwhile)
        outcomes = []
        for raw, *rest in result[3]:
            kind = raw.decode()
            if kind in ("placed", "known", "other"):
                position = rest[1] - 1 if kind == "placed" else 0
                reasons = rest[2].decode() if kind == "placed" else ""
                outcomes.append(Outcome(kind, _decode(rest[0]), position, reasons))
            else:
                outcomes.append(Outcome(kind, reasons=rest[0].decode() if rest else ""))
        return self._transition(result, outcomes)

    def confirm(
        self, instance_id: str, *, machine: str = "", started_at: float = 0.0, dry_run: bool = False
    ) -> Transition:
        """Turn a reservation into an instance that started at a moment (0: now)."""
        started = repr(started_at) if started_at else ""
        return self._one(self._run("confirm", dry_run, instance_id, machine, started))

    def release(self, instance_id: str, *, machine: str = "", dry_run: bool = False) -> Transition:
        """End an instance or give a reservation back."""
        return self._one(self._run("release", dry_run, instance_id, machine))

    def update(self, changes: Sequence[Change], *, dry_run: bool = False) -> Transition:
        """Move, resize or change the role of confirmed instances, all or none."""
        arguments: list[str | bytes | float] = [len(changes)]
        for change in changes:
            arguments += [change.old.id, change.old.version, record_tail(change.new), _limits(change.candidates)]
        return self._one(self._run("update", dry_run, *arguments))

    def expire(self, most: int = 1000) -> Transition:
        """Expire what is due; ``count`` says how many were."""
        result = self._run("expire", False, most)
        transition = self._transition(result, [])
        return Transition(transition.epoch, transition.before, transition.changes, [], int(result[3]))

    def correct(self, found: Sequence[Instance], gone: Sequence[str] = (), *, dry_run: bool = False) -> Transition:
        """Write what an inventory found, whatever the limits say, and end what it did not find."""
        arguments: list[str | bytes | float] = []
        for instance in found:
            arguments += ["set", instance.id, instance.machine, record_tail(instance)]
        for instance_id in gone:
            arguments += ["end", instance_id, "", ""]
        result = self._run("correct", dry_run, *arguments)
        return self._transition(result, [Outcome(kind.decode()) for kind in result[3]])

    def _one(self, result: list[Any]) -> Transition:
        raw, *rest = result[3]
        kind = raw.decode()
        if kind in ("done", "repeat", "ended", "elsewhere", "reserved"):
            return self._transition(result, [Outcome(kind, _decode(record)) for record in rest])
        return self._transition(result, [Outcome(kind, reasons=rest[0].decode() if rest else "")])

    # ---- reading

    def log_reads(self, change: int, most: int = 2000) -> list[Command]:
        """Return the commands that read the head and what changed after ``change``; `read_log` reads their answers."""
        return [("HMGET", self.head, "epoch", "change"), ("XRANGE", self.log, f"({change}-0", "+", "COUNT", most)]

    @staticmethod
    def read_log(answers: Sequence[Any]) -> tuple[str, int, list[Instance]]:
        """Return epoch, number of the last change and the records after the asked one, oldest first."""
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise redis.ConnectionError(f"ledger: {answer}")
        (epoch, change), entries = answers
        records = [_decode(entry[1][1]) for entry in entries]
        return (epoch or b"").decode(), int(change or 0), records

    def find(self, instance_id: str) -> Instance | None:
        """Return the record of an id, live or ended, or None when it is unknown."""
        live, ended = self.wire.ask([("HGET", self.instances, instance_id), ("GET", f"{self.ended}:{instance_id}")])
        raw = live or ended
        if isinstance(raw, redis.ResponseError):
            raise raw
        return _decode(raw) if raw else None

    def all_instances(self, batch: int = 2000) -> dict[str, Instance]:
        """Return every live record; what changes meanwhile is in the log after the change read before."""
        records: dict[str, Instance] = {}
        cursor = b"0"
        while True:
            cursor, flat = self.wire.one("HSCAN", self.instances, cursor, "COUNT", batch)
            for raw in flat[1::2]:
                record = _decode(raw)
                records[record.id] = record
            if cursor == b"0":
                return records

    def machine_versions(self) -> dict[str, int]:
        """Return the version of every machine that holds something."""
        flat = self.wire.one("HGETALL", self.machines)
        return {name.decode(): int(row.split(b" ", 1)[0]) for name, row in zip(flat[::2], flat[1::2], strict=True)}
