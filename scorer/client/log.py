"""The ledger's change log as events, without I/O; `schemas.messages.event` describes the log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from schemas.messages.event import Event
from schemas.values.read_json import reader
from scorer.client.call import POLL_S, RETRY_PAUSE_S, Away, Refused, Step, Steps, WindwardError, refused_by, unreached

_ENTRIES = 100
"""Entries of the ledger's log that are read together; one has up to 200 reservations."""
_FORMAT = "1"
"""The format of the ledger whose log can be read."""


class _Heading(msgspec.Struct):
    to: str
    until: float
    number: int = 0


class _Logged(msgspec.Struct):
    """The fields of a record of the ledger that its events repeat."""

    id: str
    machine: str
    state: str
    version: int
    generation: int = 0
    reserved_at: float = 0.0
    started_at: float = 0.0
    expires_at: float = 0.0
    ended_at: float = 0.0
    moving: _Heading | None = None
    priority_class: str = ""
    cluster: str = ""
    role: str = ""
    labels: dict[str, str] = {}
    ports: list[int] = []

    def event(self, said: Mapping[str, str], position: str) -> Event:
        """Return the event of an entry of the log. ``said``: the fields of the entry other than its records."""
        moving, renamed, target, ends_at = self.moving, said.get("renamed", ""), said.get("target", ""), 0.0
        if moving:
            target, ends_at = moving.to, moving.until
        elif self.state == "reserved":
            ends_at = self.expires_at
        known = {"reserved": "placed", "confirmed": "updated"}.get(self.state, self.state)
        return Event(
            event=said.get("event") or ("renamed" if renamed else known),
            at=float(said.get("at") or max(self.reserved_at, self.started_at, self.ended_at)),
            position=position, id=self.id, machine=self.machine, source=said.get("source", renamed), target=target,
            generation=self.generation, move=moving.number if moving else 0, state=self.state, expires_at=ends_at,
            why=said.get("why", ""), priority_class=self.priority_class, cluster=self.cluster, role=self.role,
            labels=self.labels, ports=self.ports,
        )  # fmt: skip


_logged = reader(_Logged)


class _Entry:
    """An entry of the ledger's log: the number of its last change, its records, and its other fields."""

    def __init__(self, entry: Sequence[Any]) -> None:
        name, *fields = (_text(one) for one in (entry[0], *entry[1]))
        self.last = int(name.partition("-")[0])
        pairs = list(zip(fields[::2], fields[1::2], strict=True))
        self.said = dict(pairs)
        try:
            self.records = [_logged(value) for field, value in pairs if field == "i"]
            self.at = max((one.event(self.said, "").at for one in self.records[:1]), default=0.0)
        except ValueError as error:  # msgspec's is one
            raise WindwardError("INTERNAL", f"change {self.last} of the ledger cannot be read: {error}") from None


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


class Log:
    """A reader of the ledger's change log, without I/O; `schemas.messages.event` says what is in the log.

    The events end with the newest there is, unless it follows. A server that is away for ``timeout_s`` is an error.
    """

    def __init__(
        self, prefix: str, where: str, since: float | None, after: str, *, follow: bool, timeout_s: float
    ) -> None:
        if after and since is not None:
            raise WindwardError("INVALID_ARGUMENT", "since and after: give one of them")
        epoch, _, change = after.rpartition("-")
        if after and not (epoch and change.isdecimal()):
            raise WindwardError("INVALID_ARGUMENT", f"after: {after[:100]!r} is not the position of an event")
        self._head, self._log = f"{prefix}:v1:{{ledger}}:head", f"{prefix}:v1:{{ledger}}:log"
        self._where, self._timeout_s = where, timeout_s
        self._follow, self._since = follow, since
        self._epoch, self._last = epoch, int(change or 0)
        """The epoch of the ledger, and the number of the last change that was read."""
        self._is_next = True
        """Whether a skipped number is a gap; False just after a gap that was found in another way and is reported."""
        self._kept: Any = None
        """The entry with the last change, as it was read."""
        self._unsure = False
        """Whether the connection was lost since: the server may be another one now, without that entry."""
        self.ended = False

    def start(self) -> Steps[list[Event]]:
        """Find the starting position; return the gap before it, if there is one."""
        found = yield from self._look()
        if found is None:
            raise WindwardError(
                "FAILED_PRECONDITION", f"{self._where} has no ledger: give the URL of the ledger's server"
            )
        epoch, change = found
        gap: list[Event] = []
        if self._epoch:
            gap = self._compare(epoch, change)
        else:
            self._epoch, self._last = epoch, change
            if self._since is not None or not self._follow:
                self._last = yield from self._before(self._since or 0.0, change)
        self._end = change
        self.ended = not self._follow and self._last >= change
        self._kept, self._unsure = (yield from self._ask([self._containing()]))[0], False
        return gap

    def more(self) -> Steps[list[Event]]:
        """Wait for changes; return their events, none if there is no change for `POLL_S`."""
        wait = ("BLOCK", round(1000 * POLL_S)) if self._follow else ()
        # the name as bytes: redis-py would make a mapping of each entry, in which `i` is there once
        read = (b"XREAD", "COUNT", _ENTRIES, *wait, "STREAMS", self._log, f"{self._last}-0")
        streams, head = yield from self._ask([read, self._heading()], POLL_S)
        found = self._read_head(head)
        if found is None:
            return []  # it was emptied; the next has another epoch
        if gap := self._compare(*found):
            return gap
        events: list[Event] = []
        if self._unsure:
            kept, self._unsure = (yield from self._ask([self._containing()]))[0], False
            if kept != self._kept:
                self._is_next = False
                events.append(self._gap("the server is another, or has lost the changes that were read last"))
        entries = next(iter(dict(streams).values())) if streams else []
        for entry in entries:
            events += self._events(_Entry(entry))
        if entries:
            self._kept = entries[-1:]
        self.ended = not self._follow and (self._last >= self._end or not entries)
        return events

    def _ask(self, commands: list[tuple[Any, ...]], wait_s: float = 0.0) -> Steps[list[Any]]:
        """Send commands until they are answered; return the answers."""
        give_up_at = time.monotonic() + self._timeout_s
        while True:
            try:
                return (yield Step(commands, wait_s))
            except Refused as error:
                raise refused_by(self._where, error) from None
            except Away as error:
                self._unsure = True
                if time.monotonic() > give_up_at:
                    raise unreached(self._where, error) from None
            yield Step([], RETRY_PAUSE_S)

    def _heading(self) -> tuple[Any, ...]:
        return ("HMGET", self._head, "format", "epoch", "change")

    def _look(self) -> Steps[tuple[str, int] | None]:
        return self._read_head((yield from self._ask([self._heading()]))[0])

    def _read_head(self, head: Sequence[Any]) -> tuple[str, int] | None:
        """Return the ledger's epoch and its last change; None where there is none."""
        kind, epoch, change = (None if one is None else _text(one) for one in head)
        if kind is None or epoch is None:
            return None
        if kind != _FORMAT:
            raise WindwardError("FAILED_PRECONDITION", f"the ledger has format {kind}, this client reads {_FORMAT}")
        if not (change or "0").isdecimal() or len(change or "") > 18:
            raise WindwardError("FAILED_PRECONDITION", f"the ledger's last change is {change!r}: windward ledger check")
        return epoch, int(change or 0)

    def _containing(self) -> tuple[Any, ...]:
        """Return the command that reads the entry with the last change."""
        return (b"XRANGE", self._log, f"{self._last}-0", "+", "COUNT", 1)

    def _before(self, since: float, change: int) -> Steps[int]:
        """Return the last change before a time, by bisection: numbers and times both rise."""
        low = 0
        while low < change:
            middle = (low + change) // 2
            (found,) = yield from self._ask([(b"XRANGE", self._log, f"{middle + 1}-0", "+", "COUNT", 1)])
            if found and (entry := _Entry(found[0])).at < since:
                low = entry.last
            else:
                change = middle
        return low

    def _compare(self, epoch: str, change: int) -> list[Event]:
        """Return a gap where the ledger is another than before, and continue with the present one."""
        if epoch != self._epoch:
            self._epoch, self._last, self._kept, self._is_next = epoch, 0, None, False
            return [self._gap("the ledger was begun anew")]
        if change < self._last:
            lost, self._last, self._kept = f"{change + 1} to {self._last}", change, None
            return [self._gap(f"the ledger has lost its end: changes {lost}")]
        return []

    def _events(self, entry: _Entry) -> Iterator[Event]:
        for record in entry.records:
            if record.version <= self._last:
                continue
            if self._is_next and record.version != self._last + 1:
                yield self._gap(f"changes {self._last + 1} to {record.version - 1} are no longer kept", entry.at)
            self._last, self._is_next = record.version, True
            yield record.event(entry.said, self.position)

    def _gap(self, why: str, at: float = 0.0) -> Event:
        return Event(event="gap", at=at or time.time(), position=self.position, why=why)

    @property
    def position(self) -> str:
        return f"{self._epoch}-{self._last}"
