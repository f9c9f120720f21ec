"""Shell: reading the ledger as it stands: records, rows, and what changed since.

A ledger of another format is an error, `UnknownFormat`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import redis

from schemas.names import Names
from schemas.values.errors import shortened
from scorer.ledger.record.instance import Instance, read_record
from scorer.ledger.record.transition import Call
from scorer.wire import Command, Wire

FORMAT = 1
"""The format that this release reads and writes, as in ledger.lua."""
_FORMAT = str(FORMAT).encode()

_UNREADABLE = (msgspec.DecodeError, ValueError, TypeError)
"""What `read_record` raises for bytes that are no record."""


class UnknownFormat(Exception):
    """The ledger has another format than this release knows: a newer one."""

    def __init__(self, key: str, found: str) -> None:
        super().__init__(
            f"the ledger {key!r} has format {found}, this release knows format {FORMAT}: "
            "run the newer release here, or give this one another --prefix or --ledger-url (docs/upgrading.md)"
        )


class Damaged(UnknownFormat):
    """Something in the ledger cannot be read."""

    def __init__(self, key: str, what: str) -> None:
        Exception.__init__(
            self,
            f"the ledger {key!r} is damaged: {shortened(what)}. Restore it from a copy of its server (docs/ledger.md)",
        )


class LedgerReader:
    """The keys of the ledger of one prefix on one server, and the reads from them."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self.wire = wire
        parts = (
            "head", "instances", "expiry", "machines", "counts", "clusters", "log", "ended", "queries", "leases",
            "leavers", "moving",
        )  # fmt: skip
        self._keys = tuple(names.ledger(part) for part in parts)
        self.head, self.instances, self.expiry, self.machines, self.counts, self.clusters = self._keys[:6]
        self.log, self.ended, self.queries, _, self._leavers, self.moving = self._keys[6:]
        self.checked = names.ledger("checked")
        """String: what the last check found, JSON (`scorer.background.checker.LastCheck`)."""

    def is_open(self) -> bool:
        """Return whether there is a ledger of this format, so that `open` has nothing to do. Only reads."""
        (number,) = self.wire.one("HMGET", self.head, "format")
        return bool(number == _FORMAT)

    def log_reads(self, change: int, most: int = 2000) -> list[Command]:
        """Return the commands that read the head and what changed after ``change``; `read_log` reads their answers."""
        return [
            ("HMGET", self.head, "format", "epoch", "change"),
            ("XRANGE", self.log, f"({change}-0", "+", "COUNT", most),
        ]

    def read_log(self, answers: Sequence[Any]) -> tuple[str, int, list[Instance]]:
        """Return epoch, number of the last change and the records after the asked one, oldest first.

        Raises UnknownFormat.
        """
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise redis.ConnectionError(f"ledger: {answer}")
        (number, epoch, change), entries = answers
        if number is not None and number != _FORMAT:
            raise UnknownFormat(self.head, shortened(number.decode(errors="replace")))
        try:
            return (epoch or b"").decode("ascii"), int(change or 0), self._read([entry[1][1] for entry in entries])
        except ValueError:
            raise Damaged(self.head, f"epoch {epoch!r}, change {change!r}") from None

    def _read(self, raws: Sequence[bytes]) -> list[Instance]:
        """Return some records; raises Damaged naming the first that cannot be read."""
        raws = list(raws)
        try:
            return [read_record(raw) for raw in raws]
        except _UNREADABLE:
            wrong = next(raw for raw in raws if not _is_record(raw))
            raise Damaged(self.instances, f"{wrong!r} is no record of an instance") from None

    def acted(self, step: str, instance_id: str, call: Call) -> bool:
        """Say whether a query has taken a step (a name of `SCRIPTS`) on an id before."""
        key = f"{self.queries}:{call.query}"
        return bool(call.query) and bool(self.wire.one("HEXISTS", key, f"{step} {instance_id}"))

    def find(self, instance_id: str) -> Instance | None:
        """Return the record of an id, live or ended, or None when it is unknown."""
        live, ended = self.wire.ask([("HGET", self.instances, instance_id), ("GET", f"{self.ended}:{instance_id}")])
        raw = live or ended
        if isinstance(raw, redis.ResponseError):
            raise raw
        return self._read([raw])[0] if raw else None

    def all_instances(self, batch: int = 2000) -> dict[str, Instance]:
        """Return every live record. Changes made meanwhile are in the log after the change that was read first."""
        records: dict[str, Instance] = {}
        for page in self._scan(batch):
            for record in self._read([raw for _, raw in page]):
                records[record.id] = record
        return records

    def leavers(self) -> list[Instance]:
        """Return the leavers that can be read, the oldest first; none for a Redis user that may not read them."""
        (found,) = self.wire.ask([("ZRANGEBYSCORE", self._leavers, "-inf", "+inf")])
        return [] if isinstance(found, redis.ResponseError) else [read_record(raw) for raw in found if _is_record(raw)]

    def _scan(self, batch: int = 2000) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Yield pages of ids with their records."""
        cursor = b"0"
        while True:
            cursor, flat = self.wire.one("HSCAN", self.instances, cursor, "COUNT", batch)
            yield zip(flat[::2], flat[1::2], strict=True)
            if cursor == b"0":
                return

    def rows(self, machines: Sequence[str], counts: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
        """Return the rows of machines, and counts, as stored; b"" for one that is not there."""
        found = self.wire.one("HMGET", self.machines, *machines) if machines else []
        counted = self.wire.one("HMGET", self.counts, *counts) if counts else []
        return [row or b"" for row in found], [count or b"" for count in counted]

    def cluster_rows(self, clusters: Sequence[str]) -> list[bytes]:
        """Return the rows of clusters as stored; b"" for one that is not there."""
        return [row or b"" for row in self.wire.one("HMGET", self.clusters, *clusters)]

    def cluster_names(self) -> list[str]:
        """Return the clusters that have a row."""
        return [name.decode() for name in self.wire.one("HKEYS", self.clusters)]

    def ends(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return when each reservation and each move ends by itself, by the sets that the scripts read; by id."""
        read = [("ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES") for key in (self.expiry, self.moving)]
        expiry, moving = self.wire.ask(read)
        return _scores(expiry), _scores(moving)

    def counted(self) -> dict[str, set[str]]:
        """Return the names of the counts of each machine, as ``port 6379``."""
        found: dict[str, set[str]] = {}
        cursor = b"0"
        while True:
            cursor, flat = self.wire.one("HSCAN", self.counts, cursor, "COUNT", 2000)
            for name in flat[::2]:
                machine, _, what = name.decode().partition(" ")
                found.setdefault(machine, set()).add(what)
            if cursor == b"0":
                return found

    def machine_versions(self) -> dict[str, int]:
        """Return the version of every machine that holds something."""
        flat = self.wire.one("HGETALL", self.machines)
        rows = list(zip(flat[::2], flat[1::2], strict=True))
        try:
            return {name.decode(): int(row.split(b" ", 1)[0]) for name, row in rows}
        except ValueError:
            wrong = next((name, row) for name, row in rows if not _is_row(name, row))
            raise Damaged(self.machines, f"the row of {wrong[0]!r} is {wrong[1]!r}") from None


def _is_record(raw: bytes) -> bool:
    try:
        read_record(raw)
    except _UNREADABLE:
        return False
    return True


def _is_row(name: bytes, row: bytes) -> bool:
    try:
        name.decode()
        int(row.split(b" ", 1)[0])
    except ValueError:
        return False
    return True


def _scores(flat: list[bytes]) -> dict[str, float]:
    return {name.decode(): float(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}
