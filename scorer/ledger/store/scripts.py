"""Shell: the ledger of one prefix on one server: its reads, and its transitions, one Lua script each.

A script is sent by its digest; a server that does not know it yet gets the text. Nothing is retried here; every
transition may be repeated by its caller. The in-memory model in the tests has the same methods.

At each call a server creates every function of a script and every local that they share: some 0.1 us each. So a script
gets only those functions of ``lua/ledger.lua`` that it uses. A local with a name in capitals is a constant, replaced by
its value. Comments are left out.

The ledger has a format number. One of another format is neither read nor written: `UnknownFormat`.

With ``acknowledged_by`` a step of a query returns when so many replicas have it. WAIT waits for the last write of its
own connection, and a repeated step writes nothing. So a SET precedes it: all older writes are replicated first, from
any connection. Script, SET and WAIT are one round trip. WAITAOF, for the disks, takes 980 ms whatever
``appendfsync`` is, where WAIT takes 1 ms; a replica that syncs always has on disk what it acknowledges to WAIT.
"""

import hashlib
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import redis

from schemas.names import Names
from schemas.values.errors import shortened
from schemas.values.read_json import by_name, whole
from scorer.ledger.record.instance import (
    UNREADABLE,
    Instance,
    copy_with,
    read_record,
    record_or_none,
    record_tail,
    sound,
    with_arrival,
)
from scorer.ledger.record.limits import Measure, Scale, measures_in_script, mosts_in_script, scales_in_script
from scorer.ledger.record.transition import (
    ALL_OR_NONE,
    CHANGED,
    FORMAT,
    NO_QUERY,
    Call,
    Candidate,
    Change,
    Damaged,
    Difference,
    Held,
    NotAcknowledged,
    Outcome,
    Overtaken,
    Torn,
    Transition,
    UnknownFormat,
    Wanted,
)
from scorer.ledger.view.slots import MOST
from scorer.wire import Command, Wire

SCRIPTS = ("reserve", "confirm", "update", "release", "expire", "correct", "lease", "repair", "rename")
ALONE = ("lease",)
"""Scripts without the shared functions: they neither begin the ledger nor expire entries."""

_LUA = Path(__file__).parent / "lua"
_COMMENT = re.compile(r"--\[\[.*?\]\]|(?<!\S)--.*?$", re.DOTALL | re.MULTILINE)
_CONSTANT = re.compile(r"^local ([A-Z_]+) = (.+)\n", re.MULTILINE)
_FUNCTION = re.compile(r"^local function (\w+).*?^end\n", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\b[A-Z_]{2,}\b")


@cache
def script_text(name: str, **constants: str) -> str:
    """Return a transition's script; ``constants`` replace the constants of ``ledger.lua`` with these names."""
    shared, own = _without_comments("ledger"), _without_comments(name)
    values = {**dict(_CONSTANT.findall(shared + own)), "SCRIPT": f"'{name}'", **constants}
    shared, own = (_CONSTANT.sub("", part) for part in (shared, own))
    text = own if name in ALONE else _with_functions(shared, own)
    text = _NAME.sub(lambda found: values.get(found[0], found[0]), text)
    return re.sub(r"\n\s*\n", "\n", text).lstrip()


@cache
def _without_comments(name: str) -> str:
    """Return a file's code."""
    return _COMMENT.sub("", (_LUA / f"{name}.lua").read_text())


def _with_functions(shared: str, own: str) -> str:
    """Return a script after the shared functions that it needs, directly or not, each before its first use."""
    parts, words, end = [own], set(_WORD.findall(own)), len(shared)
    for found in reversed(list(_FUNCTION.finditer(shared))):
        between = shared[found.end() : end]
        used = [between, found[0]] if found[1] in words.union(_WORD.findall(between)) else [between]
        parts += used
        words.update(*map(_WORD.findall, used))
        end = found.start()
    return "".join(reversed([*parts, shared[:end]]))


_FORMAT = str(FORMAT).encode()
_RECORD = b"i"
"""The field of the log that has a record."""
PAGE = 2_000
"""How many records or rows are read at once."""
ENDED_MAX = 1_000_000
"""How many ended instances are kept by default."""

_ACKNOWLEDGED = ("reserve", "confirm", "release", "update")
"""The scripts that act for a query."""
WAIT_S = 0.5
"""The timeout for replicas. After a timeout no query waits for them for as long, since other queries need answers."""

_TORN = re.compile(r"LEDGERTORN (.*?)( script: |$)|(The ID specified in XADD) ")
"""A script's error for what it cannot read, or the server's for a log that is ahead of the last change."""
Arguments = list[str | bytes | float]
_unpacked = msgspec.msgpack.Decoder().decode


def drawn_number() -> int:
    """Return a random number from 1 to 2**53 - 1, which every reader of JSON keeps exact."""
    return int.from_bytes(os.urandom(7)) >> 3 or 1


_packed = msgspec.msgpack.Encoder().encode


def in_call(call: Call) -> tuple[str, str]:
    """Return the query's id and deadline."""
    return call.query, repr(float(call.deadline))


def given(generation: int | None) -> str:
    """Return a generation as the scripts read it: "" for None, the live generation, whichever it is."""
    return "" if generation is None else str(generation)


class Offers:
    """Candidates in the form of ledger.lua: limited measures, and machines with their limits."""

    def __init__(self) -> None:
        self.measures: list[list[str | int]] = []
        self.candidates: list[tuple[str | int, ...]] = []
        self._of: Instance | None = None
        self._on: list[Measure] | None = None
        self._scales: list[Scale] = []

    def number(self, instance: Instance, candidate: Candidate) -> int:
        """Add a candidate of an instance; return its number."""
        machine, version, limits = candidate
        on = [limit[0] for limit in limits]
        if instance is not self._of or on != self._on:
            measures = measures_in_script(instance, limits)
            self._of, self._on, self._scales = instance, on, scales_in_script(measures)
            self.measures.append([field for measure in measures for field in _in_script(measure)])
        self.candidates.append((machine, version, len(self.measures), *mosts_in_script(limits, self._scales)))
        return len(self.candidates)


def candidates_in_script(instance: Instance, candidates: Sequence[Candidate]) -> bytes:
    offers = Offers()
    for one in candidates:
        offers.number(instance, one)
    return _packed((offers.measures, offers.candidates))


class Batch:
    """Instances to reserve, packed for the script: a shared instance, candidate or call is sent once."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self.tails: list[str] = []
        """The record's tail of each kind, without id and request."""
        self.kind_of: list[int] = []
        """The kind of each instance, from 1."""
        self._kinds: list[tuple[float, str]] = []
        offers = Offers()
        calls: dict[Call, int] = {}
        kinds: dict[tuple[int, float], int] = {}
        numbers: dict[tuple[int, int], int] = {}
        """The number of an instance's candidates, by their addresses: all of them are still in ``wanted``."""
        requests: dict[str, int] = {}
        ids: list[str] = []
        request_of: list[int] = []
        call_of: list[int] = []
        offered: list[int | list[int]] = []
        for one in wanted:
            instance, ttl_s, candidates, call, _, _ = one
            own_id, digest = one.own
            ids.append(own_id)
            request_of.append(requests.setdefault(digest, len(requests) + 1))
            kind = kinds.get((id(instance), ttl_s)) or kinds.setdefault(
                (id(instance), ttl_s), self._kind(instance, ttl_s)
            )
            self.kind_of.append(kind)
            call_of.append(calls.setdefault(call, len(calls) + 1))
            own = []
            for candidate in candidates:
                key = id(instance), id(candidate)
                number = numbers.get(key)
                if number is None:
                    number = numbers[key] = offers.number(instance, candidate)
                own.append(number)
            offered.append(own[0] if len(own) == 1 else own)
        shared = (self._kinds, list(requests), list(calls), offers.measures, offers.candidates)
        self.packed = _packed((ids, self.kind_of, request_of, call_of, offered, *shared))

    def reserved(self, kind: int, reserved_at: float, expires_at: float) -> Instance:
        """Return the record of an instance of this kind, without id, request, machine and version."""
        record = read_record(f'{{"id":"","machine":"","state":"reserved",{self.tails[kind - 1]}}}')
        return copy_with(record, reserved_at=reserved_at, expires_at=expires_at)

    def _kind(self, instance: Instance, ttl_s: float) -> int:
        self.tails.append(record_tail(instance, own=False).decode())
        self._kinds.append((float(ttl_s), self.tails[-1]))
        return len(self._kinds)


def _in_script(measure: tuple[str | int, ...]) -> tuple[str | int, str | int, str | int]:
    """Return the instance's contribution to a measure, its name, and its scope: 0 for all classes, 1 for a count.

    >>> _in_script((500, "total", "cpu", "batch", "free")), _in_script((1, "count", "port 6379"))
    ((500, 'cpu', 'batch free'), (1, 'port 6379', 1))
    """
    added, kind, name, *classes = measure
    return added, name, 1 if kind == "count" else " ".join(map(str, classes)) or 0


def reasons_in_words(words: str, candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the script's reasons in words, one for each candidate that it tried, in order.

    >>> from scorer.ledger.record.limits import Limit, total
    >>> there = Candidate("a", 1, [Limit(total("cpu"), 1.0, "cpu full"), Limit(total("nic"), 1.0, "nic full")])
    >>> reasons_in_words("changed,2,1", [there, there, there, there])
    ('changed', 'nic full', 'cpu full')
    """
    if not words:
        return ()
    if words == ALL_OR_NONE:
        return (ALL_OR_NONE,)
    return tuple(
        reason if reason == CHANGED else one.limits[int(reason) - 1].reason
        for reason, one in zip(words.split(","), candidates, strict=False)
    )


class Ledger:
    def __init__(
        self,
        wire: Wire,
        names: Names,
        *,
        log_length: int = 50_000,
        remember_s: float = 86_400.0,
        leavers_most: int = MOST,
        ended_max: int = ENDED_MAX,
        acknowledged_by: int = 0,
        time_source: str = "redis.call('TIME')",
        draw: Callable[[], int] = drawn_number,
    ) -> None:
        self.wire = wire
        self._draw = draw
        self._acknowledged_by = acknowledged_by
        self._unwaited_until_s = 0.0
        parts = "head instances expiry machines counts clusters log ended queries leases leavers moving"
        self._keys = tuple(names.ledger(part) for part in parts.split())
        self.head, self.instances, self.expiry, self.machines, self.counts, self.clusters = self._keys[:6]
        self.log, self.ended, self.queries, self._leases, self._leavers, self.moving = self._keys[6:]
        self.checked = names.ledger("checked")
        """String: the result of the last check, JSON (`scorer.background.checker.LastCheck`)."""
        self._waited = names.ledger("waited")
        """String: written before each WAIT; its value has no meaning."""
        self._common = (log_length, max(1, round(remember_s)))
        self.leavers_most = leavers_most
        """How many leavers are kept."""
        constants = {"CLOCK": time_source, "LEAVERS_MOST": str(leavers_most), "ENDED_MOST": str(ended_max)}
        self._scripts = {name: script_text(name, **constants) for name in SCRIPTS}
        self._digests = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._scripts.items()}  # noqa: S324

    def _run(
        self,
        script: str,
        dry_run: bool,
        *arguments: str | bytes | float,
        meanwhile: Callable[[], None] | None = None,
        drawn: int = 0,
    ) -> list[Any]:
        number = drawn or self._draw()
        call = (len(self._keys), *self._keys, int(dry_run), *self._common, number, *arguments)
        wait = self._wait() if self._acknowledged_by and script in _ACKNOWLEDGED and not dry_run else ()
        result = self._call(script, *call, wait=wait, meanwhile=meanwhile)
        try:
            return _unpacked(result)  # type: ignore[no-any-return]
        except ValueError:
            raise Torn(self.head, "what a script has read is no text") from None

    def _call(
        self,
        script: str,
        *call: str | bytes | float,
        wait: Sequence[Command] = (),
        meanwhile: Callable[[], None] | None = None,
    ) -> Any:
        """Run a script with this number of keys, keys and arguments; return the server's result."""
        result, *waited = self.wire.ask([("EVALSHA", self._digests[script], *call), *wait], meanwhile=meanwhile)
        if isinstance(result, redis.exceptions.NoScriptError):
            result, *waited = self.wire.ask([("EVAL", self._scripts[script], *call), *wait])
        if isinstance(result, redis.ResponseError):
            word, _, found = str(result).partition(" ")
            if torn := _TORN.search(str(result)):
                what = f"{torn[1]} cannot be read" if torn[1] else "its log is ahead of its last change"
                raise Torn(self.instances, what)
            raise UnknownFormat(self.head, found) if word == "LEDGERFORMAT" else result
        if wait:
            self._require(waited[-1])
        return result

    def _wait(self) -> list[Command]:
        wait_s = WAIT_S if time.monotonic() >= self._unwaited_until_s else 0.001
        return [("SET", self._waited, ""), ("WAIT", self._acknowledged_by, round(wait_s * 1000))]

    def _require(self, acknowledged: Any) -> None:
        """Raise NotAcknowledged when too few replicas have a change, or when the answer is an error."""
        if isinstance(acknowledged, int) and acknowledged >= self._acknowledged_by:
            self._unwaited_until_s = 0.0
            return
        if time.monotonic() >= self._unwaited_until_s:
            self._unwaited_until_s = time.monotonic() + WAIT_S
        found = f"{acknowledged} have" if isinstance(acknowledged, int) else str(acknowledged)
        raise NotAcknowledged(f"a change is answered when {self._acknowledged_by} replicas have it: {found}")

    def open(self) -> None:
        """Begin the ledger where there is none, as any script does; raises UnknownFormat."""
        self._run("expire", False, 0)

    # ---- reading

    def is_open(self) -> bool:
        """Return whether there is a ledger of this format, so that `open` has nothing to do. Only reads."""
        (number,) = self.wire.one("HMGET", self.head, "format")
        return bool(number == _FORMAT)

    def mend_head(self) -> list[Difference]:
        """Write the number of the log's last change, or a new epoch, where the head's cannot be read; return which."""
        reads = ("XREVRANGE", self.log, "+", "-", "COUNT", 1), ("HMGET", self.head, "change", "epoch"), ("TIME",)
        newest, (change, epoch), (now_s, _) = self.wire.all(*reads)
        last = newest[0][0].partition(b"-")[0] if newest else b"0"
        number = change and change.isdigit() and len(change) < len(str(2**53)) and int(change) >= int(last)
        right = {"change": (number or not newest, last), "epoch": (not epoch or epoch.isascii(), now_s)}
        wrong = {name: value for name, (is_right, value) in right.items() if not is_right}
        for name, value in wrong.items():
            self.wire.one("HSET", self.head, name, value)
        return [Difference("head", name, f"is {value.decode()} now", b"") for name, value in wrong.items()]

    def log_reads(self, change: int, most: int = 2000) -> list[Command]:
        """Return the commands that read the head and the changes after ``change``; `read_log` reads their answers."""
        return [
            ("HMGET", self.head, "format", "epoch", "change"),
            ("XRANGE", self.log, f"({change}-0", "+", "COUNT", most),
        ]

    def read_log(self, answers: Sequence[Any]) -> tuple[str, int, list[Instance]]:
        """Return epoch, number of the last change and the records after ``change`` of `log_reads`, oldest first.

        They end before a torn record, as if the log had a gap there. Raises UnknownFormat.
        """
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise redis.ConnectionError(f"ledger: {answer}")
        (number, epoch, change), entries = answers
        if number is not None and number != _FORMAT:
            raise UnknownFormat(self.head, shortened(number.decode(errors="replace")))
        try:
            records = [one for one in takewhile(bool, map(record_or_none, records_in(entries))) if one]
            return (epoch or b"").decode("ascii"), int(change or 0), records
        except ValueError:
            raise Damaged(self.head, f"epoch {epoch!r}, change {change!r}") from None

    def _read(self, raws: Sequence[bytes]) -> list[Instance]:
        """Return some records; raises Damaged naming the first that cannot be read."""
        try:
            return [read_record(raw) for raw in raws]
        except UNREADABLE:
            wrong = next(raw for raw in raws if record_or_none(raw) is None)
            raise Damaged(self.instances, f"{wrong!r} is no record of an instance") from None

    def server_time_s(self) -> float:
        """Return the server's time, epoch seconds: the clock of the times in records."""
        seconds, microseconds = self.wire.one("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def acted(self, step: str, instance_id: str, call: Call) -> bool:
        """Return whether a query has already taken a step (a name of `SCRIPTS`) on an id."""
        key = f"{self.queries}:{call.query}"
        return bool(call.query) and bool(self.wire.one("HEXISTS", key, f"{step} {instance_id}"))

    def find(self, instance_id: str) -> Instance | None:
        """Return the record of an id, live or ended, or None when it is unknown."""
        live, ended = self.wire.all(("HGET", self.instances, instance_id), ("GET", f"{self.ended}:{instance_id}"))
        return self._read([live or ended])[0] if live or ended else None

    def all_instances(self, *, around: bool = False) -> dict[str, Instance]:
        """Return every live record; ``around``: without those that cannot be read.

        Changes made meanwhile are in the log after the change that was read first.
        """
        return {record.id: record for page in self.pages({} if around else None) for record in page}

    def pages(self, torn: dict[str, bytes] | None = None) -> Iterator[list[Instance]]:
        """Yield every live record in pages; one may be repeated. A page is read while the server finds the next.

        ``torn``: gets the records that cannot be read, by id; None: they raise Damaged.
        """

        def read(page: list[bytes]) -> list[Instance]:
            if torn is None:
                return self._read(page[1::2])
            found = [(name, raw, sound(name, raw)) for name, raw in zip(page[::2], page[1::2], strict=True)]
            torn.update((name.decode(errors="replace"), raw) for name, raw, record in found if record is None)
            return [record for *_, record in found if record is not None]

        if torn is not None:
            torn.clear()
        cursor, flat = b"0", list[bytes]()
        while True:
            records: list[Instance] = []
            page = ("HSCAN", self.instances, cursor, "COUNT", PAGE)
            (found,) = self.wire.ask([page], meanwhile=lambda: records.extend(read(flat)))  # noqa: B023 - now
            if isinstance(found, redis.ResponseError):
                raise found
            yield records
            cursor, flat = found
            if cursor == b"0":
                yield read(flat)
                return

    def leavers(self) -> list[Instance]:
        """Return the leavers that can be read, the oldest first; none for a Redis user that may not read them."""
        (found,) = self.wire.ask([("ZRANGEBYSCORE", self._leavers, "-inf", "+inf")])
        return [] if isinstance(found, redis.ResponseError) else list(filter(None, map(record_or_none, found)))

    def live(self, ids: Sequence[str]) -> dict[str, Instance]:
        """Return the live records of some ids; a record that is due to expire may be among them."""
        found = self.wire.one("HMGET", self.instances, *ids) if ids else []
        return {record.id: record for record in self._read([raw for raw in found if raw])}

    def in_log(self, torn: Container[str]) -> dict[str, bytes]:
        """Return the newest entry in the log for each of some ids; none for one that it does not have."""
        found, after = dict[str, bytes](), "-"
        while entries := self.wire.one("XRANGE", self.log, after, "+", "COUNT", PAGE):
            after = "(" + entries[-1][0].decode()
            for raw in records_in(entries):
                if (one := record_or_none(raw)) and one.id in torn and sound(one.id.encode(), raw):
                    found[one.id] = raw
        return found

    def rows(self, machines: Sequence[str], counts: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
        """Return the stored rows of machines, and the stored counts; b"" for a missing one."""
        found = self.wire.one("HMGET", self.machines, *map(_bytes, machines)) if machines else []
        counted = self.wire.one("HMGET", self.counts, *map(_bytes, counts)) if counts else []
        return [row or b"" for row in found], [count or b"" for count in counted]

    def cluster_rows(self, clusters: Sequence[str]) -> list[bytes]:
        """Return the stored rows of clusters; b"" for a missing one."""
        return [row or b"" for row in self.wire.one("HMGET", self.clusters, *map(_bytes, clusters))]

    def cluster_names(self) -> list[str]:
        return [_name(name) for name in self.wire.one("HKEYS", self.clusters)]

    def ends(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return when each reservation and each move expires, from the sets that the scripts read; by id."""
        expiry, moving = (
            by_name(self.wire.one("ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES"))
            for key in (self.expiry, self.moving)
        )
        return {name: float(at) for name, at in expiry.items()}, {name: float(at) for name, at in moving.items()}

    def counted(self) -> dict[str, set[str]]:
        """Return the names of the counts of each machine, as ``port 6379``."""
        found, cursor, page = defaultdict[str, set[str]](set), b"", list[bytes]()
        while cursor != b"0":
            cursor, page = self.wire.one("HSCAN", self.counts, cursor or 0, "COUNT", PAGE)
            for name in page[::2]:
                machine, _, what = _name(name).partition(" ")
                found[machine].add(what)
        return found

    def machine_versions(self, *, around: bool = False) -> dict[str, int]:
        """Return the version of every machine that holds something; ``around``: 0 for one that cannot be read."""
        flat = self.wire.one("HGETALL", self.machines)
        found = dict[str, int]()
        for name, row in zip(flat[::2], flat[1::2], strict=True):
            version = whole(row.split(b" ", 1)[0])
            if not around and (version is None or not name.isascii()):
                raise Damaged(self.machines, f"the row of {name!r} is {row!r}")
            found[_name(name)] = version or 0
        return found

    # ---- transitions

    def reserve(
        self,
        wanted: Sequence[Wanted],
        *,
        expected_change: int = -1,
        all_or_nothing: bool = False,
        dry_run: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Transition:
        """Reserve each instance on its first candidate that has room and is unchanged since the scorer read it.

        ``meanwhile`` is called while the server works.
        """
        batch = Batch(wanted)
        asked = (expected_change, int(all_or_nothing), batch.packed)
        drawn = self._draw()
        result = self._run("reserve", dry_run, *asked, meanwhile=meanwhile, drawn=drawn)
        reserved_at, expire_at, found = result[3]
        changes = self._changes(result)
        outcomes: list[Outcome] = []
        alike: dict[int, Instance] = {}
        for one, kind, what in zip(wanted, batch.kind_of, found, strict=True):
            first, *rest = (what,) if isinstance(what, int) else what
            if isinstance(first, int):
                if kind not in alike:
                    alike[kind] = batch.reserved(kind, float(reserved_at), float(expire_at[kind - 1]))
                version, generation = (0, 0) if dry_run else (result[1] + len(changes) + 1, drawn)
                machine = one.candidates[first - 1].machine
                own_id, digest = one.own
                record = msgspec.structs.replace(
                    alike[kind], id=own_id, request=digest, machine=machine, version=version, generation=generation
                )
                if not dry_run:
                    changes.append(record)
                reasons = reasons_in_words(rest[0], one.candidates) if rest else ()
                outcomes.append(Outcome("placed", record, first - 1, reasons))
            elif first in ("known", "other"):
                outcomes.append(Outcome(first, self._record(rest[0], changes)))
            else:
                outcomes.append(Outcome(first, reasons=reasons_in_words(rest[0], one.candidates) if rest else ()))
        return Transition(result[0], result[1], changes, outcomes)

    def confirm(
        self,
        instance_id: str,
        *,
        machine: str = "",
        started_at: float = 0.0,
        generation: int | None = None,
        move: int | None = None,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """Turn a reservation into an instance that started at ``started_at``, epoch seconds (0: now).

        An instance that is moving to ``machine`` is then on it, and has left its source. ``move``: the number of the
        move to confirm, None: any.
        """
        started = repr(started_at) if started_at else ""
        arguments = (instance_id, machine, started, given(generation), *in_call(call), given(move))
        return self._one(self._run("confirm", dry_run, *arguments))

    def release(
        self,
        instance_id: str,
        *,
        machine: str = "",
        generation: int | None = None,
        failed: bool = False,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """End an instance or give a reservation back; ``failed``: it could not be started on its machine."""
        arguments = (instance_id, machine, given(generation), *in_call(call), int(failed))
        return self._one(self._run("release", dry_run, *arguments))

    def update(
        self,
        changes: Sequence[Change],
        *,
        generation: int | None = None,
        expected_change: int = -1,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """Move, resize or change the role of confirmed instances, all or none; ``generation`` is the first one's.

        They are moved at once. A moving instance stays so: each of its candidates, both its machines, must have room.
        """
        arguments: Arguments = [*in_call(call), given(generation), expected_change, "change", 0]
        for change in changes:
            tail, there, moving = b"", b"", change.old.moving
            if change.new is not change.old:
                tail = record_tail(change.new)
                if moving is not None and moving.new is not None:
                    there = record_tail(with_arrival(copy_with(change.new, moving=moving)))
            candidates = candidates_in_script(change.new, change.candidates)
            arguments += [change.old.id, change.old.version, tail, there, candidates]
        return self._update(changes, dry_run, *arguments)

    def begin_move(
        self,
        old: Instance,
        candidates: Sequence[Candidate],
        lasts_s: float,
        *,
        new: Instance | None = None,
        generation: int | None = None,
        expected_change: int = -1,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """Begin a move: until `confirm`, or for ``lasts_s``, an instance also holds the first candidate with room.

        ``old``: the record as it was read; the outcome is ``stale`` when it has changed since.
        ``new``: the record on the target, when the move changes amounts, limits, expected use or rules.
        """
        there = b"" if new is None else record_tail(new)
        asked = (*in_call(call), given(generation), expected_change, "begin", repr(max(lasts_s, 1e-6)))
        begun = (old.id, old.version, b"", there, candidates_in_script(new or old, candidates))
        return self._update([Change(old, old, candidates)], dry_run, *asked, *begun)

    def cancel_move(
        self, old: Instance, *, generation: int | None = None, call: Call = NO_QUERY, dry_run: bool = False
    ) -> Transition:
        """End a move: the instance stays where it is, and the target is freed."""
        asked = (*in_call(call), given(generation), -1, "cancel", 0)
        return self._update([Change(old, old, [])], dry_run, *asked, old.id, old.version, b"", b"", b"")

    def _update(self, changes: Sequence[Change], dry_run: bool, *arguments: str | bytes | float) -> Transition:
        result = self._run("update", dry_run, *arguments)
        if result[3][0] == "conflict":
            _, number, reasons, *first = result[3]
            candidates = changes[int(number) - 1].candidates[int(first[0]) - 1 if first else 0 :]
            outcome = Outcome("conflict", reasons=reasons_in_words(reasons, candidates))
            return Transition(result[0], result[1], self._changes(result), [outcome])
        return self._one(result)

    def expire(self, most: int = 1000) -> Transition:
        """Expire at most ``most`` reservations and moves that are due; ``count`` of the result is their number."""
        result = self._run("expire", False, most)
        return Transition(result[0], result[1], self._changes(result), count=result[3])

    def correct(
        self,
        found: Sequence[Instance],
        gone: Sequence[str] = (),
        *,
        true_starts: bool = False,
        generations: bool = False,
        lease: Held | None = None,
        cluster: str = "",
        dry_run: bool = False,
    ) -> Transition:
        """Write the instances of an inventory without comparing limits, and end the instances ``gone``.

        ``true_starts``: the inventory knows when they started (0: not of this one). ``generations``: instances that are
        not live get the generations in their records. Raises Overtaken, and writes nothing, when ``lease`` has passed
        to another. ``cluster``: that of Kubernetes whose pods they are; a live instance without its label is another's,
        and stays: the outcome is ``other``.
        """
        arguments: Arguments = [*(lease or ("", 0)), cluster]
        for one in found:
            started = repr(one.started_at) if true_starts and one.started_at else ""
            generation = one.generation if generations and one.generation else ""
            arguments += ["set", one.id, one.machine, record_tail(one), started, generation]
        for instance_id in gone:
            arguments += ["end", instance_id, "", "", "", ""]
        result = self._run("correct", dry_run, *arguments)
        if result[3] == "fenced":
            raise Overtaken("another has taken the lease")
        return Transition(result[0], result[1], self._changes(result), [Outcome(kind) for kind in result[3]])

    def lease(self, name: str, holder: str, lasts_s: float) -> int | None:
        """Take or renew a lease, or give it up (0 s); return its number, None where another holds it."""
        (number,) = self.wire.one("HMGET", self.head, "format")
        if number not in (None, _FORMAT):
            raise UnknownFormat(self.head, shortened(number.decode(errors="replace")))
        kind, what = self._call("lease", 1, self._leases, name, holder, lasts_s)
        return int(what) if kind == b"held" else None

    def repair(self, number: int, wrong: Difference) -> str:
        """Replace the sums of a machine or cluster, or write an instance again (repair.lua); return the result."""
        some = ("", 0) if wrong.instance is None else (wrong.instance.id, wrong.instance.version)
        arguments: Arguments = [number, wrong.kind, _bytes(wrong.name), wrong.row, wrong.sums, wrong.members, *some]
        for what, raw, count in wrong.counts:
            arguments += [_bytes(what), raw, count]
        return self._run("repair", False, *arguments)[3]  # type: ignore[no-any-return]

    def rename(self, old: str, new: str, version: int, ids: Sequence[str]) -> bool:
        """Give a machine another name in the records of all instances that are on it or move to it.

        Returns False, and changes nothing, when the machine differs from ``version`` and ``ids``.
        ``version``: of the row as it was read before its instances, 0 without one.
        """
        return bool(self._run("rename", False, old, new, version, *ids)[3] == "done")

    def _one(self, result: list[Any]) -> Transition:
        (kind, *rest), changes = result[3], self._changes(result)
        if kind in ("unknown", "stale", "gone", "late"):
            rest = [None]
        return Transition(result[0], result[1], changes, [Outcome(kind, self._record(one, changes)) for one in rest])

    def _changes(self, result: list[Any]) -> list[Instance]:
        return [self._in_answer(text) for text in result[2]]

    def _record(self, shown: int | str | None, changes: Sequence[Instance]) -> Instance | None:
        """Return a result's record: a change by its number, or a record's text; None without one."""
        return None if shown is None else changes[shown - 1] if isinstance(shown, int) else self._in_answer(shown)

    def _in_answer(self, text: str) -> Instance:
        try:
            return read_record(text)
        except UNREADABLE:
            raise Torn(self.instances, f"{text!r} is no record of an instance") from None


def records_in(entries: Sequence[Any]) -> list[bytes]:
    """Return the records in entries of the log, in the order of their changes."""
    return [fields[at] for _, fields in entries for at in range(1, len(fields), 2) if fields[at - 1] == _RECORD]


def _name(raw: bytes) -> str:
    """Return a name that may be no text, so that `_bytes` returns it."""
    return raw.decode(errors="surrogateescape")


def _bytes(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


class Lease:
    """A lease for what only one daemon may do at a time, with a fencing number.

        lease = Lease(ledger, "check", scorer, 60.0)
        if (number := lease.take()) is not None:
            ...                        # every script that writes is given the number, and refuses an older one

    ``holder`` names the process that asks, ``lasts_s`` is how long it holds unless renewed, by the server's clock. A
    holder that was frozen or cut off does not know that it lost the lease. Its number is older than that of the next
    holder, and so the scripts refuse its writes (`is_fenced` in ledger.lua). Chosen over a lock alone, which does not
    stop such a holder.
    """

    def __init__(self, ledger: Ledger, name: str, holder: str, lasts_s: float) -> None:
        self.ledger, self.name, self.lasts_s = ledger, name, lasts_s
        self._holder = holder

    def take(self) -> int | None:
        """Take the lease, or renew it; return its number, None while another holds it."""
        return self.ledger.lease(self.name, self._holder, self.lasts_s)

    def give_up(self) -> None:
        """Give the lease up; without effect when another process holds it."""
        self.ledger.lease(self.name, self._holder, 0.0)
