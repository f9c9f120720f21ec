"""The Python client of the scorer, sync and asyncio.

This file is distributed alone, too: it holds the whole client, and needs only ``redis`` and ``msgspec``.

    with Client("redis://127.0.0.1:6379/0") as scorer:
        answer = scorer.place(id="orders-7", cpu=2, memory="10G")
        if answer.machine:
            ...                                 # start the instance there, then
            answer.confirm()                    # this reservation, never a later one of the same id

A query is one JSON text on a Redis list, its answer another (``redis-cli`` can do the same). Every call has a deadline;
past it, or when the server is away until then, `WindwardError` is raised with gRPC's code name. "No machine fits" is an
answer, not an error: ``answer.machine`` is None and ``answer.reason`` says why.

Each method returns the Struct of its result, with all its fields; ``answer["machine"]`` reads a field, too, and
``dict(answer)`` and ``msgspec.to_builtins(answer)`` convert it to plain data. `Client.call` calls any method, also one
that is newer than this file, and returns the result as plain data.

`Client.events` says what happens to instances: it reads the ledger's change log, without a scorer.

A call is sent again under the same query id when the connection breaks, and is carried out once. When what it reserved
has ended meanwhile the answer is the error ABORTED; a new call places anew. Without an ``id`` of your own the query's
id names the instance. Each reservation of an id has its ``generation``, which `Placement` sends with each call.

redis-py 8 ends an idle blocking read after its ``socket_timeout`` of 5 s and retries ten times. Here every blocking
read lasts `POLL_S` at most, the socket's timeout is longer, and only this module retries.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Required, TypedDict, TypeVar, Unpack
from urllib.parse import unquote, urlsplit

import msgspec

if TYPE_CHECKING:  # commands do without redis-py, whose import takes longer than the rest of a command
    import redis

__all__ = [
    "AsyncClient",
    "AsyncEvents",
    "AsyncPlaced",
    "AsyncPlacement",
    "Candidate",
    "Client",
    "ConfirmResult",
    "CordonResult",
    "DrainLine",
    "DrainResult",
    "Event",
    "Events",
    "HealthResult",
    "InstanceRow",
    "InstanceUsage",
    "InstancesResult",
    "Line",
    "MachineRow",
    "MachinesResult",
    "PlaceResult",
    "Placed",
    "Placement",
    "PlanResult",
    "PlanStep",
    "RankResult",
    "RebalanceMove",
    "RebalanceResult",
    "Refusal",
    "ReleaseResult",
    "UpdateResult",
    "Verdict",
    "WindwardError",
]

VERSION = 1
POLL_S = 2.0
"""The longest single blocking read."""
SOCKET_TIMEOUT_S = 4.0
"""A connection without an answer for so long is given up: twice the longest read."""
QUEUE_MAX = 10_000
"""When more queries wait than this, the client takes its own back at once."""
_RETRY_PAUSE_S = 0.05
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_IDS_SINCE = 1_735_689_600
"""The second from which ids count: 2025."""
_FRESH_S = 1.0
_ENTRIES = 100
"""Entries of the ledger's log that are read together; one has up to 200 reservations."""
_FORMAT = "1"
"""The format of the ledger whose log can be read."""
OPERATORS = frozenset({"cordon", "drain", "plan", "rebalance", "uncordon"})
"""The methods for operators, which wait on a list of their own: Redis says who may push there."""
_NO_RIGHT = re.compile("(?i)no permissions|NOPERM")
_QUERY_ID = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")


class WindwardError(Exception):
    """A call that failed: ``code`` is gRPC's name, ``retryable`` says whether the same call may succeed later."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass it to another process whole: a pool of processes would else break at it."""
        return partial(type(self), retryable=self.retryable), (self.code, self.message)


class _Query(msgspec.Struct):
    v: int
    id: str
    method: str
    deadline: float
    params: Any


class _Error(msgspec.Struct):
    code: str
    message: str
    retryable: bool = False


class _Reply(msgspec.Struct):
    id: str
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Reply).decode


_Kind = TypeVar("_Kind")
_readers: dict[type, msgspec.json.Decoder[Any]] = {}
_making = threading.Lock()


def _read(kind: type[_Kind], result: msgspec.Raw) -> _Kind:
    """Return a result as its type; raise WindwardError.

    Decoders are made by one thread at a time: msgspec 0.22 ends the process (SIGSEGV) when two threads meet the same
    type for the first time.
    """
    reader: msgspec.json.Decoder[_Kind] | None = _readers.get(kind)
    if reader is None:
        with _making:
            reader = _readers.setdefault(kind, msgspec.json.Decoder(kind))
    try:
        return reader.decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WindwardError("INTERNAL", f"the answer cannot be read: {error}") from None


class Result(msgspec.Struct, kw_only=True):
    """The base of all results: a Struct whose fields can be read as the keys of a mapping, too."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.__struct_fields__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct_fields__)

    def __len__(self) -> int:
        return len(self.__struct_fields__)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field; ``default`` where there is none of that name."""
        return getattr(self, name) if name in self.__struct_fields__ else default

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return self.__struct_fields__

    def values(self) -> list[Any]:
        """Return the fields' values."""
        return [getattr(self, name) for name in self.__struct_fields__]

    def items(self) -> list[tuple[str, Any]]:
        """Return names with values."""
        return [(name, getattr(self, name)) for name in self.__struct_fields__]


# ---- made by `python -m schemas.client_results`: the keywords of the methods


class PreferenceFields(TypedDict, total=False):
    """Prefer machines that ``selector`` matches, by ``weight``."""

    selector: Required[str]
    weight: float


class AffinityFields(TypedDict, total=False):
    """Be near, or far from, instances whose labels match ``instances``, on machines of one ``topology`` label value."""

    instances: Required[Mapping[str, str]]
    topology: str


class TolerationFields(TypedDict, total=False):
    """Tolerate a taint: the key (empty: any), the value (None: any), the effect (None: any)."""

    key: str
    value: str | None
    effect: Literal["avoid", "refuse"] | None


class DrainingFields(TypedDict, total=False):
    """How a machine is being emptied: as by ``drain``, again until it is empty or no longer cordoned."""

    ttl_s: Required[float]
    """How long each move may take."""
    profile: str
    same: Sequence[str]
    force: bool


class RequestFields(TypedDict, total=False):
    """One instance, or ``count`` identical ones. Everything is optional: an empty request is best effort."""

    ports: Sequence[int]
    role: str
    cluster_masters: int
    """Masters the whole cluster has or will have."""
    labels: Mapping[str, str]
    cluster: str
    kind: str
    """What is learned from instances of the same kind."""
    cpu: float | str | None
    memory: float | str | None
    nic: float | str | None
    disk: float | str | None
    limits: Mapping[str, float | str]
    """Limits by resource name."""
    expected: Mapping[str, float | str]
    """Expected usage by resource name, where known."""
    maxmemory: float | str
    id: str
    """The deployer's id; repeating it repeats the answer."""
    first_id: str
    """In place of id: the first of count ids, which count up in base 32; the client gives one."""
    priority_class: Literal["batch", "free", "mid", "prod"]
    """Class."""
    data_labels: Sequence[str]
    """Images or data sets it uses."""
    machine: str
    selector: str
    prefer: Sequence[PreferenceFields]
    affinity: Sequence[AffinityFields]
    anti_affinity: Sequence[AffinityFields]
    tolerations: Sequence[TolerationFields]
    profile: str
    window_s: int
    """Window to score by; 0: as the profile says."""
    count: int
    top: int
    """How many machines the answer lists."""
    explain: bool
    dry_run: bool
    ttl_s: float
    """Lifetime of the reservation."""
    all_or_nothing: bool
    machines_max: int
    """At most so many different machines; 0: any."""
    machines_min: int
    """At least so many different machines."""


class ConfirmFields(TypedDict, total=False):
    """The parameters of ``confirm``."""

    machine: str
    started_at: float
    generation: int | None
    move: int | None
    dry_run: bool


class UpdateFields(TypedDict, total=False):
    """The parameters of ``update``: the given fields change, the others stay. Each resource is a field."""

    cpu: float | str | None
    memory: float | str | None
    nic: float | str | None
    disk: float | str | None
    ports: Sequence[int] | None
    role: str | None
    cluster_masters: int | None
    labels: Mapping[str, str] | None
    machine: str | None
    move: bool
    ttl_s: float
    cancel_move: bool
    maxmemory: float | str | None
    limits: Mapping[str, float | str] | None
    expected: Mapping[str, float | str] | None
    swap_role_with: str
    selector: str | None
    prefer: Sequence[PreferenceFields] | None
    affinity: Sequence[AffinityFields] | None
    anti_affinity: Sequence[AffinityFields] | None
    tolerations: Sequence[TolerationFields] | None
    profile: str
    generation: int | None
    dry_run: bool


class ReleaseFields(TypedDict, total=False):
    """The parameters of ``release``."""

    machine: str
    generation: int | None
    dry_run: bool


class CapacityFields(RequestFields, total=False):
    """The parameters of ``capacity``: those of a request, whose ``count``, ``top`` and ``explain`` do nothing."""

    by: str


class CordonFields(TypedDict, total=False):
    """The parameters of ``cordon`` and ``uncordon``."""

    machines: Sequence[str]
    selector: str
    ahead: bool
    dry_run: bool
    drain: DrainingFields | None


class DrainFields(TypedDict, total=False):
    """The parameters of ``drain``."""

    machines: Sequence[str]
    selector: str
    consolidate: int
    profile: str
    same: Sequence[str]
    force: bool
    apply: bool
    ttl_s: float
    again: bool


class PlanFields(TypedDict, total=False):
    """The parameters of ``plan``."""

    instances: Required[Sequence[RequestFields]]
    profile: str
    prune: bool
    prune_labels: Mapping[str, str]
    release_last: bool
    records: bool


class RebalanceFields(TypedDict, total=False):
    """The parameters of ``rebalance``; the other settings are those of the profile's ``[rebalance]``."""

    profile: str
    moves_max: int | None
    same: Sequence[str] | None
    settings: Mapping[str, int | float | bool | str | Sequence[str] | Mapping[str, int | float]]
    every_s: float | None
    rounds: str


class MachinesFields(TypedDict, total=False):
    """The parameters of ``machines``."""

    names: Sequence[str]
    labels: Mapping[str, str]
    profile: str
    window_s: int
    after: str
    limit: int


class InstancesFields(TypedDict, total=False):
    """The parameters of ``instances``; all that are given must match."""

    id: str
    machine: str
    state: Literal["", "confirmed", "reserved"]
    cluster: str
    role: str
    kind: str
    labels: Mapping[str, str]
    after: str
    limit: int


class PlaceFields(RequestFields, total=False):
    """The keywords of ``place``."""

    instances: Sequence[RequestFields]
    """Unlike requests, one an instance."""


# ---- end of what is made


# ---- made by `python -m schemas.client_results`: `schemas.process.redis_url`, `schemas.rpc.results`


SENTINEL_S = 0.5
"""How long to wait for one sentinel; then the next is asked."""
SENTINEL_PORT = 26379
_CLIENT = re.compile(r"<redis\.\S*client\.Redis\(.*?\bhost=([^,)]+),port=(\d+).*?\)>\)>\)>")
"""How redis-py shows a sentinel, with all its arguments."""


class Sentinels(NamedTuple):
    """What a URL of a server behind sentinels says."""

    hosts: Sequence[tuple[str, int]]
    name: str
    """The name under which they watch the server."""
    server: str
    """The URL of the server as redis-py reads it, with ``localhost`` in place of the host."""


def sentinels_in(url: str) -> Sentinels | None:
    """Return what a URL says of sentinels; None for a URL of one server. Raises ValueError.

    >>> sentinels_in("redis+sentinel://a:1,b/main/2")
    Sentinels(hosts=[('a', 1), ('b', 26379)], name='main', server='redis://localhost/2')
    >>> sentinels_in("redis://a")
    """
    scheme, middle, rest = url.partition("+sentinel://")
    if not middle:
        return None
    authority, _, path = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    path, question, options = path.partition("?")
    name, _, database = path.partition("/")
    split = [urlsplit(f"//{host}") for host in hosts.split(",")]
    whole = name and "#" not in rest and all(one.hostname and not one.query for one in split)
    if scheme not in ("redis", "rediss") or not whole:
        raise ValueError("expected redis+sentinel://HOST:PORT,HOST:PORT/NAME/DATABASE")
    addresses = [(str(one.hostname), one.port or SENTINEL_PORT) for one in split]
    return Sentinels(addresses, unquote(name), f"{scheme}://{user}{at}localhost/{database}{question}{options}")


def connected(
    kind: Any, url: str, *, sentinel_username: str = "", sentinel_password: str = "", **arguments: Any
) -> Any:
    """Return ``kind.from_url(url, **arguments)`` of redis-py, sync or asyncio, of a server behind sentinels, too.

    Each connection asks them where the server is now; one is dropped when its server is no longer the primary. User and
    password of the sentinels may also be options of the URL. Raises ValueError for a URL that cannot be read.
    """
    found = sentinels_in(url)
    if found is None:
        return kind.from_url(url, **arguments)
    from importlib import import_module

    from redis.backoff import NoBackoff
    from redis.connection import parse_url

    package = kind.__module__.removesuffix(".client")
    given: dict[str, Any] = {"sentinel_username": sentinel_username, "sentinel_password": sentinel_password}
    given |= arguments | parse_url(found.server)  # type: ignore[no-untyped-call]
    own: dict[str, Any] = {part: given.pop(f"sentinel_{part}") or None for part in ("username", "password")}
    given["ssl"] = bool(given.pop("connection_class", None))
    del given["host"]
    own |= {name: value for name, value in given.items() if name.startswith("ssl")}
    own |= {"socket_timeout": SENTINEL_S, "socket_connect_timeout": SENTINEL_S, "protocol": 2}
    own["retry"] = import_module(f"{package}.retry").Retry(NoBackoff(), 0)
    sentinels = import_module(f"{package}.sentinel").Sentinel(found.hosts, sentinel_kwargs=own)
    return sentinels.master_for(found.name, redis_class=kind, **given)


def in_words(error: Exception) -> str:
    """Return an error of redis-py for people: a sentinel is its host and port."""
    return _CLIENT.sub(r"\1:\2", str(error))


class Refusal(Result, kw_only=True):
    """How many machines a filter refused, and why."""

    filter: str
    reason: str
    machines: int


class Candidate(Result, kw_only=True):
    """A machine with the terms of its score."""

    machine: str
    score: float | None
    risk: float | None = None
    scores: dict[str, dict[str, Any]]
    """By score: value, raw, weight, and the score's own details."""
    resources: dict[str, dict[str, float | None]]
    window_s: float | None
    coverage: float | None
    warming: bool
    age_s: float | None
    instances: int


class Verdict(Candidate, kw_only=True):
    """A machine with the verdict of every filter and score."""

    feasible: bool
    filters: list[dict[str, Any]]


class RankResult(Result, kw_only=True):
    """The result of ``rank``."""

    machine: str | None = None
    score: float | None = None
    profile: str = ""
    summary: str = ""
    feasible: int | None = None
    fleet: int | None = None
    request: dict[str, float] = {}
    expected: dict[str, float] = {}
    expected_from: dict[str, str] = {}
    """Where each expected usage comes from, in words."""
    learned: dict[str, Any] | None = None
    """Version and factors of the learned use, if the profile uses it."""
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    warnings: list[str] = []
    machines: list[Verdict] | None = None
    """With ``explain`` each machine; else null."""


class Line(Result, kw_only=True):
    """An instance that was placed."""

    id: str
    machine: str
    state: str
    reserved_at: float
    expires_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    version: int
    generation: int = 0
    """Which reservation of its id."""


class PlaceResult(RankResult, kw_only=True):
    """The result of ``place``: the terms of the ranking, a line for each instance, and that of a single one."""

    id: str | None = None
    state: str | None = None
    reserved_at: float | None = None
    expires_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    version: int | None = None
    generation: int | None = None
    placed: list[Line] = []
    asked: int = 0
    missing: int = 0
    reason: str = ""
    missing_reasons: dict[str, int] = {}
    missing_ids: list[str] = []
    repeated: int = 0
    conflicts: int = 0
    dry_run: bool = False


class Arrival(Result, kw_only=True):
    """What an instance is where it moves to, in place of the same fields of its record."""

    amounts: list[float]
    expected: list[float] = []
    limits: list[float] = []
    maxmemory: float = 0.0
    rules: dict[str, Any] | None = None


class Moving(Result, kw_only=True):
    """Where an instance moves to: it holds that machine, too, until the move is confirmed or ends by itself."""

    to: str
    since: float
    until: float
    number: int
    """Which move it is: `confirm` takes it as ``move``."""
    new: Arrival | None = None
    """What it is there, where the move changes amounts, limits, expected use or rules."""


class Record(Result, kw_only=True):
    """The stored record of an instance."""

    id: str
    machine: str
    state: str
    expected: list[float] = []
    limits: list[float] = []
    maxmemory: float = 0.0
    ports: list[int] = []
    cluster: str = ""
    role: str = ""
    cluster_masters: int = 0
    priority_class: str = "prod"
    labels: dict[str, str] = {}
    kind: str = ""
    reserved_at: float = 0.0
    started_at: float = 0.0
    expires_at: float = 0.0
    ended_at: float = 0.0
    version: int = 0
    generation: int = 0
    rules: dict[str, Any] | None = None
    """The rules of its request: selector, prefer, affinity, anti_affinity, tolerations, as given."""
    moving: Moving | None = None


class ConfirmResult(Record, kw_only=True):
    """The result of ``confirm``."""

    amounts: list[float]
    repeated: bool = False
    dry_run: bool = False


class ReleaseResult(ConfirmResult, kw_only=True):
    """The result of ``release``."""


class UpdateResult(ConfirmResult, kw_only=True):
    """The result of ``update``: the record, and the terms of the ranking that chose the machine of a move."""

    expected: list[float] | dict[str, float] = []  # type: ignore[assignment]
    """By resource after a move, else as in the record."""
    moved_from: str | None = None
    score: float | None = None
    profile: str = ""
    summary: str = ""
    feasible: int | None = None
    fleet: int | None = None
    request: dict[str, float] = {}
    expected_from: dict[str, str] = {}
    learned: dict[str, Any] | None = None
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    warnings: list[str] = []
    machines: list[Verdict] | None = None


class InstanceUsage(Result, kw_only=True):
    """What an instance uses, as its machine's agent measures it; resources that were never measured are left out."""

    at: float
    """End of the last report, epoch s."""
    since: float
    """End of the first report, epoch s."""
    count: int
    """Number of reports."""
    partial: bool
    """Whether it ran before the first report of its machine: its earlier usage is not known."""
    recent: dict[str, float]
    """Exponential mean of about the last 30 minutes, by resource."""
    daily: dict[str, float]
    """The same of about 24 hours."""
    variance: dict[str, float]
    """Variance of the reports' means around `daily`: cpu and memory."""
    day_peak: dict[str, float]
    """Highest mean of a report in the local day of ``at``: cpu and memory."""


class InstanceRow(Record, kw_only=True):
    """A row of ``instances``; each resource is a field."""

    cpu: float = 0.0
    memory: float = 0.0
    nic: float = 0.0
    disk: float = 0.0
    usage: InstanceUsage | None = None


class InstancesResult(Result, kw_only=True):
    """The result of ``instances``."""

    total: int
    instances: list[InstanceRow]
    more: bool


class CapacityResult(Result, kw_only=True):
    """The result of ``capacity``."""

    fit: int
    """Instances that would be placed, one after the other."""
    at_least: bool
    """Whether counting ended at a bound: more than these may fit."""
    machines_with_room: int
    limits: list[Refusal]
    """What keeps the machines from one more, most machines first."""
    by: dict[str, int] = {}
    """By the values of the label that was asked for, most first; "" for machines without it."""
    profile: str


class CordonResult(Result, kw_only=True):
    """The result of ``cordon`` and ``uncordon``."""

    rules: dict[str, dict[str, Any]]
    """By machine, the operators' rules that it has now; ``*``: those of every machine."""
    dry_run: bool = False


class DrainLine(Result, kw_only=True):
    """An instance of a machine that is drained."""

    id: str
    generation: int
    source: str
    amounts: dict[str, float]
    """What it has asked for, by resource."""
    target: str | None = None
    """Where it goes; null: it stays."""
    reason: str = ""
    """Why it stays."""
    until: float | None = None
    """Until when the target is reserved, epoch s; null: it is not."""
    move: int | None = None
    """Number of the move that was begun: ``confirm`` takes it."""


class Emptied(Result, kw_only=True):
    """A machine that would be empty, and what that costs."""

    machine: str
    memory: float
    """Bytes to copy."""
    instances: int


class Emptying(Result, kw_only=True):
    """What was chosen by ``consolidate``."""

    wanted: int
    tried: int
    """Machines that were tried."""
    left: dict[str, int]
    """How many machines were not tried, by why."""
    machines: list[Emptied]
    """The cheapest first."""


class DrainResult(Result, kw_only=True):
    """The result of ``drain``."""

    drained: list[str]
    cordoned: bool
    """Whether the machines were cordoned."""
    profile: str
    moves: list[DrainLine]
    """In the order in which they are made; each is planned with those before it."""
    moving: list[DrainLine]
    """Instances that were leaving already."""
    blocked: list[DrainLine]
    """Instances that stay."""
    machines: int = 0
    """Machines of the fleet that it was planned on."""
    instances: int = 0
    """Instances of that fleet."""
    emptying: Emptying | None = None
    """With ``consolidate`` what was chosen; else null."""


class PlanStep(Result, kw_only=True):
    """What is to be done with one instance."""

    action: str
    """``release``, ``change``, ``update``, ``move``, ``place``; ``refuse`` where it cannot be as it is wanted."""
    id: str
    source: str | None
    """Its machine; null for a new instance."""
    target: str | None
    """Its machine afterwards."""
    why: str
    generation: int
    changes: dict[str, Any]
    """The parameters of its ``update``, in base units."""
    record: dict[str, Any] | None = None
    """With ``records`` the record of the instance before the step; null for a new one."""


class PlanResult(Result, kw_only=True):
    """The result of ``plan``."""

    profile: str
    counts: dict[str, int]
    """Steps by action, and ``same``: instances that are as wanted."""
    others: int
    """Instances that are not named and are left alone."""
    steps: list[PlanStep]
    """In the order in which they are to be carried out: each sees those before it."""
    machines: int = 0
    """Machines of the fleet that it was planned on."""
    instances: int = 0
    """Instances of that fleet."""


class RebalanceMove(Result, kw_only=True):
    """An instance that should move."""

    id: str
    generation: int
    source: str
    target: str | None
    """Null: it should leave, and finds no machine."""
    gain: float = 0.0
    """By how much the move lowers what the profile minimises."""
    cost: float = 0.0
    """What copying it costs, in the same unit."""
    copy_bytes: float = 0.0
    copy_s: float = 0.0
    reason: str
    overload: dict[str, list[float]] = {}
    """By ``source`` and ``target``: the expected overload before and after the move."""
    utilization: dict[str, dict[str, list[float | None]]] = {}
    """The same of the utilization, by resource; null where it is not known."""


class RebalanceResult(Result, kw_only=True):
    """The result of ``rebalance``."""

    rule: str
    objective: str
    profile: str
    machines: int = 0
    """Machines of the fleet that it was planned on."""
    instances: int = 0
    """Instances of that fleet."""
    at: float
    movable: int
    """Instances that might have been moved."""
    measured: int
    """Instances whose usage is measured."""
    moved_in_hour: int
    hour_max: int | None
    moves: list[RebalanceMove]
    """In the order in which they are to be made; each is planned with those before it."""
    totals: dict[str, list[float]]
    """Of the fleet, before and after the moves."""
    std: dict[str, list[float]]
    """Standard deviation of utilization by resource, before and after."""
    rounds: str = ""
    """With `every_s`: what to send with the next round."""


class MachineRow(Result, kw_only=True):
    """A row of ``machines``."""

    machine: str
    has_data: bool
    age_s: float | None
    window_s: float | None
    coverage: float | None
    warming: bool
    cordon: bool
    labels: dict[str, str]
    taints: list[dict[str, Any]]
    instances: int
    maxmemory: float | None
    resources: dict[str, dict[str, float | None]]
    classes: dict[str, dict[str, dict[str, float | None]]] = {}
    """By class and resource, where the profile counts by class: `promised`, `most`, `used`; and `counted`, the sum that
    is compared with `most`: free's has batch's in it."""


class MachinesResult(Result, kw_only=True):
    """The result of ``machines``."""

    total: int
    machines: list[MachineRow]
    more: bool


class HealthResult(Result, kw_only=True):
    """The result of ``health``."""

    ready: bool
    degraded: str = ""
    """What is wrong with the data, in words; "" when nothing is."""
    scorer: str
    version: str
    uptime_s: float
    clock_ahead_s: float = 0.0
    """How far the clock of its host is ahead of the Redis server's; below 0: behind."""
    machines: int
    machines_with_data: int
    newest_sample_age_s: float | None
    windows_s: list[int]
    instances: int
    ledger_change: int
    ledger_format: int = 0
    ledger_epoch: str = ""
    """By which ledgers are told apart: all scorers have the same."""
    ledger_refusal: str = ""
    ledger_check: dict[str, int] | None = None
    """What the last check of the ledger found, `at` when (epoch s); null where none is known."""
    ledger_unaccepted: str = ""
    """Why nothing is placed on a ledger that was emptied; "" when instances are placed."""
    ledger_unsafe: str = ""
    """What endangers the ledger on its server (no append-only file, eviction); "" when nothing is known to."""
    ledger_acknowledged_by: int = 0
    """How many replicas of the ledger's server have a change before it is answered."""
    profiles: list[str]
    profile: str


class Event(Result, kw_only=True):
    """What happened to an instance, with its record as it was after that."""

    v: int = 1
    event: str
    """One of `placed`, `confirmed`, `updated`, `moving`, `moved`, `stayed`, `renamed`, `released`, `expired`, `gap`."""
    at: float
    """When, by the clock of the ledger's server, epoch s; of a gap when it was found."""
    position: str
    """Where it is in the log; events after it are those that follow."""
    id: str = ""
    machine: str = ""
    """The machine that it is on, or was on when it ended."""
    source: str = ""
    """The machine that it was on before."""
    target: str = ""
    """The machine that it moves to, or was to move to."""
    generation: int = 0
    """Which reservation of its id."""
    move: int = 0
    """Which move, while it is moving."""
    state: str = ""
    expires_at: float = 0.0
    """When the reservation or the move ends by itself; 0: never."""
    why: str = ""
    priority_class: str = ""
    cluster: str = ""
    role: str = ""
    labels: dict[str, str] = {}
    ports: list[int] = []


# ---- end of what is made


class Away(Exception):
    """The server did not answer: a command may be sent again."""


class NotNow(Away):
    """The server refuses what it will do again: a failover is under way, or its disk or replicas fail."""


class Refused(Exception):
    """The server answered with an error."""


_NOT_NOW = re.compile(
    "-?(MISCONF|READONLY|NOREPLICAS|LOADING|BUSY|UNBLOCKED|MASTERDOWN|CLUSTERDOWN|TRYAGAIN) |.*: -(READONLY|MISCONF) "
)


def refusal(error: str) -> Away | Refused:
    """Return the exception for an error of the server.

    >>> refusal("NOREPLICAS Not enough good replicas to write."), refusal("NOPERM this user has no permissions")
    (NotNow('NOREPLICAS Not enough good replicas to write.'), Refused('NOPERM this user has no permissions'))
    """
    return NotNow(error) if _NOT_NOW.match(error) else Refused(error)


class _Step(NamedTuple):
    """Commands to send in one write, one of which may wait; without commands, a pause."""

    commands: list[tuple[Any, ...]]
    wait_s: float


def instance_id(now_s: float, drawn: bytes, place: int = 0) -> str:
    """Return an id of 14 characters: six of the second, by which ids sort, and eight of five drawn bytes (40 bits).

    The digits are of base 32, in the order of their characters: 0-9 and a-z without i, l, o, u. Six last until 2059.
    The ids of a list or a count go up by one from what was drawn, by their ``place``.

    >>> instance_id(1_790_000_000.0, bytes(5)), instance_id(1_790_000_000.0, bytes(5), 33)
    ('1ksdg000000000', '1ksdg000000011')
    """
    number = (((int(now_s) - _IDS_SINCE) % (1 << 30)) << 40) + int.from_bytes(drawn, "big") + place
    return "".join(_DIGITS[number >> shift & 31] for shift in range(65, -5, -5))


def _named(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a placement with an id for each instance that was given none.

    The id is drawn here, before the query is first sent: sent again, it asks for the same instance.
    """
    given, now_s, drawn, place = params.get("instances", [params]), time.time(), os.urandom(5), 0
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, Mapping) for one in given):
        return params
    named = []
    for one in given:
        count = one.get("count", 1)
        field = "id" if count == 1 else "first_id"
        known = one.get("id") or one.get("first_id")
        named.append(one if known else {**one, field: instance_id(now_s, drawn, place)})
        place += count if isinstance(count, int) else 1
    return {**params, "instances": named} if "instances" in params else named[0]


def _for_now(refusal: WindwardError, before: WindwardError | None) -> WindwardError:
    """Return a refusal after which the query is sent again; raise any other, or what led to a passed deadline."""
    if refusal.code == "UNAVAILABLE" and refusal.retryable:
        return refusal
    raise before if before and refusal.code == "DEADLINE_EXCEEDED" else refusal


class _Call:
    """One call, without I/O: its steps, commands, reply key and deadline."""

    def __init__(self, prefix: str, method: str, params: Mapping[str, Any], timeout_s: float, query_id: str) -> None:
        if not timeout_s > 0:
            raise WindwardError("INVALID_ARGUMENT", f"timeout_s: {timeout_s} is not more than 0")
        self.id = query_id or os.urandom(16).hex()
        if not _QUERY_ID.fullmatch(self.id):
            raise WindwardError(
                "INVALID_ARGUMENT", f"query_id: {self.id[:200]!r} is not 1 to 128 of A-Z a-z 0-9 . _ : @ + -"
            )
        if method == "place" and not query_id:  # with an id of the caller's the answer to the same query is the same
            params = _named(params)
        self.prefix, self.method = prefix, method
        self.queries = f"{prefix}:v1:queries{':operators' * (method in OPERATORS)}"
        self.reply = f"{prefix}:v1:reply:{self.id}"
        self.timeout_s = timeout_s
        self.deadline_s = time.monotonic() + timeout_s
        try:
            self.query = _encode(_Query(VERSION, self.id, method, time.time() + timeout_s, dict(params)))
        except (TypeError, msgspec.EncodeError) as error:
            raise WindwardError("INVALID_ARGUMENT", f"params: {error}") from None

    def left_s(self) -> float:
        """Return the time until the deadline, never below zero."""
        return max(0.0, self.deadline_s - time.monotonic())

    def waits(self) -> Iterator[float]:
        """Yield the length of each blocking read until the deadline."""
        while left := self.left_s():
            yield max(0.001, min(left, POLL_S))

    def commands(self, sent: bool, wait_s: float) -> list[tuple[Any, ...]]:
        """Return the commands to send: the query, unless it was ``sent``, and the wait for its answer."""
        wait = ("BLPOP", self.reply, wait_s)
        return [wait] if sent else [("LPUSH", self.queries, self.query), wait]

    def steps(self, where: str) -> Generator[_Step, list[Any], msgspec.Raw]:
        """Yield each step, to be sent its answers or thrown its error; return the result or raise WindwardError.

        A query that cannot be answered now (UNAVAILABLE, retryable) is sent again until the deadline: it is the same
        query, so what it did meanwhile is what it answers.
        """
        sent, failure, unavailable = False, None, None
        for wait_s in self.waits():
            try:
                answers = yield _Step(self.commands(sent, wait_s), wait_s)
            except Refused as error:
                if method_refused := self.forbidden(error):
                    raise method_refused from None
                full = "used memory > 'maxmemory'" in str(error)
                raise WindwardError("UNAVAILABLE", f"{where}: {error}", retryable=full) from None
            except Away as error:
                sent, failure = False, error
            else:
                sent, failure = True, None
                if answers[-1] is not None:
                    try:
                        return self.result(answers[-1][1])
                    except WindwardError as error:
                        sent, unavailable = False, _for_now(error, unavailable)
                elif len(answers) > 1 and answers[0] > QUEUE_MAX:
                    break
            if not sent:
                yield _Step([], min(_RETRY_PAUSE_S, self.left_s()))
        crowd = 0
        if failure is None:
            with contextlib.suppress(Away, Refused):
                crowd = (yield _Step(self.take_back(), 0.0))[0]
        if crowd > QUEUE_MAX:
            raise self.crowded(crowd)
        raise unavailable if unavailable and not failure else self.overdue(where, failure)

    def forbidden(self, error: Exception) -> WindwardError | None:
        """Return the error of a method that is for operators, where the server does not let this user push it."""
        if self.method not in OPERATORS or not _NO_RIGHT.search(str(error)):
            return None
        return WindwardError(
            "PERMISSION_DENIED", f"{self.method} is for operators: this user may not push on {self.queries}: {error}"
        )

    def take_back(self) -> list[tuple[Any, ...]]:
        """Return the commands that read the length of the queue and remove the query from it."""
        return [("LLEN", self.queries), ("LREM", self.queries, 1, self.query)]

    def result(self, raw: bytes | str) -> msgspec.Raw:
        """Return the result in an answer, or raise its error."""
        try:
            reply = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WindwardError("INTERNAL", f"the answer cannot be read: {error}") from None
        if reply.ok:
            return reply.result
        refusal = reply.error or _Error("INTERNAL", "the answer is an error without a reason")
        raise WindwardError(refusal.code, refusal.message, retryable=refusal.retryable)

    def overdue(self, where: str, failure: Exception | None) -> WindwardError:
        """Return the error of a call that got no answer."""
        if failure is not None:
            return _unreached(where, failure)
        return WindwardError(
            "DEADLINE_EXCEEDED",
            f"no answer within {self.timeout_s:g} s: is a scorer running on {where} with the prefix {self.prefix!r}?",
            retryable=True,
        )

    def crowded(self, waiting: int) -> WindwardError:
        """Return the error of a call that was taken back since the queue is too long."""
        return WindwardError("RESOURCE_EXHAUSTED", f"{waiting} queries are waiting for a scorer", retryable=True)


class _Heading(msgspec.Struct):
    to: str
    until: float
    number: int = 0


class _Logged(msgspec.Struct):
    """What an event says of a record."""

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
        """Return the event of an entry of the log that says this beside the record."""
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


_logged = msgspec.json.Decoder(_Logged).decode


class _Entry:
    """An entry of the ledger's log: the number of its last change, its records, and what else it says."""

    def __init__(self, entry: Sequence[Any]) -> None:
        name, *fields = (_text(one) for one in (entry[0], *entry[1]))
        self.last = int(name.partition("-")[0])
        pairs = list(zip(fields[::2], fields[1::2], strict=True))
        self.said = dict(pairs)
        try:
            self.records = [_logged(value) for field, value in pairs if field == "i"]
        except msgspec.DecodeError as error:
            raise WindwardError("INTERNAL", f"change {self.last} of the ledger cannot be read: {error}") from None

    def at(self) -> float:
        """Return when it was written."""
        return self.records[0].event(self.said, "").at


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


class _Log:
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
        """The life of the ledger that was read, and the number of the last change that was."""
        self._is_next = True
        """Whether the change to come has the next number; not known where the ledger is another."""
        self._kept: Any = None
        """The entry with the last change, as it was read."""
        self._unsure = False
        """Whether the connection was lost: the server may be another, which does not have that entry."""
        self.ended = False

    def start(self) -> Generator[_Step, list[Any], list[Event]]:
        """Find the place to begin at; return the gap before it, if there is one."""
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

    def more(self) -> Generator[_Step, list[Any], list[Event]]:
        """Wait for changes; return their events, none after `POLL_S` without."""
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

    def _ask(self, commands: list[tuple[Any, ...]], wait_s: float = 0.0) -> Generator[_Step, list[Any], list[Any]]:
        """Send commands until they are answered; return the answers."""
        give_up_at = time.monotonic() + self._timeout_s
        while True:
            try:
                return (yield _Step(commands, wait_s))
            except Refused as error:
                raise WindwardError("UNAVAILABLE", f"{self._where}: {error}") from None
            except Away as error:
                self._unsure = True
                if time.monotonic() > give_up_at:
                    raise _unreached(self._where, error) from None
            yield _Step([], _RETRY_PAUSE_S)

    def _heading(self) -> tuple[Any, ...]:
        return ("HMGET", self._head, "format", "epoch", "change")

    def _look(self) -> Generator[_Step, list[Any], tuple[str, int] | None]:
        return self._read_head((yield from self._ask([self._heading()]))[0])

    def _read_head(self, head: Sequence[Any]) -> tuple[str, int] | None:
        """Return the ledger's epoch and its last change; None where there is none."""
        kind, epoch, change = (None if one is None else _text(one) for one in head)
        if kind is None or epoch is None:
            return None
        if kind != _FORMAT:
            raise WindwardError("FAILED_PRECONDITION", f"the ledger has format {kind}, this client reads {_FORMAT}")
        return epoch, int(change or 0)

    def _containing(self) -> tuple[Any, ...]:
        """Return the command that reads the entry with the last change."""
        return (b"XRANGE", self._log, f"{self._last}-0", "+", "COUNT", 1)

    def _before(self, since: float, change: int) -> Generator[_Step, list[Any], int]:
        """Return the last change before a time, by halves: numbers and times both rise."""
        low = 0
        while low < change:
            middle = (low + change) // 2
            (found,) = yield from self._ask([(b"XRANGE", self._log, f"{middle + 1}-0", "+", "COUNT", 1)])
            if found and (entry := _Entry(found[0])).at() < since:
                low = entry.last
            else:
                change = middle
        return low

    def _compare(self, epoch: str, change: int) -> list[Event]:
        """Return the gap where the ledger is not the one that was read, and go on with the one that is there."""
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
                yield self._gap(f"changes {self._last + 1} to {record.version - 1} are no longer kept", entry.at())
            self._last, self._is_next = record.version, True
            yield record.event(entry.said, self.position)

    def _gap(self, why: str, at: float = 0.0) -> Event:
        return Event(event="gap", at=at or time.time(), position=self.position, why=why)

    @property
    def position(self) -> str:
        """Where it is in the log."""
        return f"{self._epoch}-{self._last}"


def _unreached(where: str, failure: Exception) -> WindwardError:
    """Return the error of a server that did not answer."""
    what = where if isinstance(failure, NotNow) else f"no connection to {where}"
    return WindwardError("UNAVAILABLE", f"{what}: {failure}", retryable=True)


def drive(steps: Generator[_Step, list[Any], _Kind], do: Callable[[_Step], list[Any]]) -> _Kind:
    """Take the steps of a call; ``do`` returns the answers to a step's commands, or raises `Away` or `Refused`."""
    try:
        step = next(steps)
        while True:
            try:
                answers = do(step)
            except (Away, Refused) as error:
                step = steps.throw(error)
            else:
                step = steps.send(answers)
    except StopIteration as done:
        result: _Kind = done.value
        return result


def _packed(commands: Sequence[tuple[str | bytes | float, ...]]) -> bytes:
    r"""Return commands as the server reads them.

    >>> _packed([("LLEN", "queries")])
    b'*2\r\n$4\r\nLLEN\r\n$7\r\nqueries\r\n'
    """
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for given in command:
            part = given if isinstance(given, bytes) else str(given).encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(part), part))
    return b"".join(parts)


def _failure(error: redis.RedisError) -> Exception:
    """Return redis-py's error as `Refused` or `Away`; any other unchanged."""
    import redis

    if isinstance(error, (redis.ReadOnlyError, redis.exceptions.ClusterDownError, redis.exceptions.TryAgainError)):
        return NotNow(str(error))  # redis-py takes their word off the text
    if isinstance(error, (redis.AuthenticationError, redis.ResponseError)):
        return refusal(str(error))
    return Away(in_words(error)) if isinstance(error, (redis.ConnectionError, redis.TimeoutError)) else error


def _arguments(more: Mapping[str, Any]) -> dict[str, Any]:
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return {"socket_timeout": SOCKET_TIMEOUT_S, "socket_connect_timeout": 2.0, "retry": Retry(NoBackoff(), 0), **more}


def _where(url: str) -> str:
    """Return the server's name for messages: host and port, or the socket; other parts may hold a password.

    Raises WindwardError.
    """
    scheme, given, _ = url.partition("://")
    if not given or scheme not in ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"):
        raise WindwardError(
            "INVALID_ARGUMENT", "url: expected redis://, rediss://, unix:// or redis+sentinel://; "
            "a cluster is not supported: name one server, or one behind sentinels",
        )  # fmt: skip
    try:
        if found := sentinels_in(url):
            return f"{scheme}://{','.join(f'{host}:{port}' for host, port in found.hosts)}/{found.name}"
        parts = urlsplit(url)
        where = parts.path if scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except (ValueError, TypeError):
        raise WindwardError("INVALID_ARGUMENT", "url: not a URL that can be parsed") from None
    return f"{scheme}://{where}"


def _made(kind: Any, url: str, arguments: Mapping[str, Any]) -> Any:
    """Return redis-py's client; raises WindwardError for a URL that it cannot read."""
    try:
        return connected(kind, url, **arguments)
    except ValueError:
        raise WindwardError("INVALID_ARGUMENT", "url: not a URL that can be parsed") from None


class _Held(Result, kw_only=True, dict=True):
    """A result with reservations, and the client for further calls on them."""

    def _of(self, scorer: Any) -> None:
        for one in (self, *self["placed"]):
            one.__dict__["scorer"] = scorer

    def _own(self, method: str, timeout_s: float | None, more: Mapping[str, object]) -> Any:
        """Call the client's method for this reservation alone: the id and, where it is known, the generation."""
        own: str | None = self["id"]
        if own is None:
            raise WindwardError("FAILED_PRECONDITION", "the answer has no single reservation; `placed` has all of them")
        generation = {"generation": self["generation"]} if self["generation"] else {}  # 0: of a dry run
        return getattr(self.__dict__["scorer"], method)(own, timeout_s=timeout_s, **generation, **more)


class _HeldHere(_Held, kw_only=True, dict=True):
    """The calls on one reservation, never on a later one of the same id; those of `Client`."""

    def confirm(self, *, timeout_s: float | None = None, **more: object) -> ConfirmResult:
        """Say that it runs; FAILED_PRECONDITION when the reservation has ended."""
        return self._own("confirm", timeout_s, more)  # type: ignore[no-any-return]

    def release(self, *, timeout_s: float | None = None, **more: object) -> ReleaseResult:
        """End it, or give the reservation back."""
        return self._own("release", timeout_s, more)  # type: ignore[no-any-return]


class _HeldThere(_Held, kw_only=True, dict=True):
    """The calls of `_HeldHere`, awaited."""

    async def confirm(self, *, timeout_s: float | None = None, **more: object) -> ConfirmResult:
        """As `Placement.confirm`."""
        return await self._own("confirm", timeout_s, more)  # type: ignore[no-any-return]

    async def release(self, *, timeout_s: float | None = None, **more: object) -> ReleaseResult:
        """As `Placement.release`."""
        return await self._own("release", timeout_s, more)  # type: ignore[no-any-return]


class Placed(Line, _HeldHere, kw_only=True, dict=True):
    """One instance that was placed, and the calls on its reservation."""


class AsyncPlaced(Line, _HeldThere, kw_only=True, dict=True):
    """The same of an `AsyncClient`."""


class Placement(PlaceResult, _HeldHere, kw_only=True, dict=True):
    """The answer of ``place``, with the calls on a single reservation; ``placed`` has one for each instance."""

    placed: list[Placed] = []  # type: ignore[assignment]


class AsyncPlacement(PlaceResult, _HeldThere, kw_only=True, dict=True):
    """The same of an `AsyncClient`: the calls are awaited."""

    placed: list[AsyncPlaced] = []  # type: ignore[assignment]


class Events:
    """What `Client.events` returns: an iterator."""

    def __init__(self, log: _Log, do: Callable[[_Step], list[Any]]) -> None:
        self._log, self._do = log, do
        self._found = deque(drive(log.start(), do))
        self.position = log.position
        """That of the last event, or where it began: another iterator can go on ``after`` it."""

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        while not self._found:
            if self._log.ended:
                raise StopIteration
            self._found += drive(self._log.more(), self._do)
        event = self._found.popleft()
        self.position = event.position
        return event


class AsyncEvents:
    """The same of an `AsyncClient`."""

    def __init__(self, log: _Log, drive: Callable[[Generator[_Step, list[Any], list[Event]]], Any]) -> None:
        self._log, self._drive = log, drive
        self._found: deque[Event] | None = None
        self.position = ""
        """That of the last event, or where it began; "" before it has."""

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        if self._found is None:
            self._found = deque(await self._drive(self._log.start()))
            self.position = self._log.position
        while not self._found:
            if self._log.ended:
                raise StopAsyncIteration
            self._found += await self._drive(self._log.more())
        event = self._found.popleft()
        self.position = event.position
        return event


class Server:
    """The server, prefix and timeout of a client."""

    def __init__(self, url: str, prefix: str, timeout_s: float) -> None:
        self._where = _where(url)
        self._prefix = prefix
        self._timeout_s = timeout_s

    def _steps(
        self, method: str, params: Mapping[str, Any], timeout_s: float | None, query_id: str
    ) -> Generator[_Step, list[Any], msgspec.Raw]:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        return _Call(self._prefix, method, params, timeout_s, query_id).steps(self._where)

    def _log(self, since: float | None, after: str, follow: bool, timeout_s: float | None) -> _Log:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        return _Log(self._prefix, self._where, since, after, follow=follow, timeout_s=timeout_s)


class Client(Server):
    """A deployer's side of the RPC. Safe to share between threads; each call takes a connection of its own.

    ``url`` and the keyword arguments are those of ``redis.Redis.from_url`` (``username``, ``password``,
    ``ssl_ca_certs``, ...); ``timeout_s`` is the default deadline of a call. A server behind sentinels is
    ``redis+sentinel://HOST:PORT,HOST:PORT/NAME/DATABASE``; ``sentinel_username`` and ``sentinel_password`` are theirs.
    """

    def __init__(
        self, url: str = "redis://127.0.0.1:6379/0", prefix: str = "windward", timeout_s: float = 5.0, **more: Any
    ) -> None:
        super().__init__(url, prefix, timeout_s)
        import redis

        self._redis = _made(redis.Redis, url, _arguments(more))
        self._idle: list[tuple[Any, float, int]] = []
        """Connections that are not in use, each with the moment of its last use and the process it belongs to."""

    def call(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = None, query_id: str = ""
    ) -> Any:
        """Return the result of one query as plain data.

        Raises WindwardError: the scorer's own, DEADLINE_EXCEEDED without an answer, UNAVAILABLE without a server,
        RESOURCE_EXHAUSTED when too many queries wait already.
        """
        return _read(object, self._result(method, params, timeout_s, query_id))

    def place(self, *, timeout_s: float | None = None, **request: Unpack[PlaceFields]) -> Placement:
        """Choose a machine and reserve it; the keywords are the request's fields (`schemas.rpc.request.Request`).

        A list of unlike requests is placed by ``place(instances=[{...}, {...}])``, alike ones one after the other.
        """
        answer = self._ask(Placement, "place", request, timeout_s)
        answer._of(self)
        return answer

    @contextlib.contextmanager
    def placed(self, *, timeout_s: float | None = None, **request: Unpack[PlaceFields]) -> Iterator[Placement]:
        """Place, and at the end of the ``with`` confirm what was placed, or release it when the block raised.

            with scorer.placed(id="orders-7", cpu=2, memory="10G") as placement:
                if placement.machine:
                    start_on(placement.machine)

        An error of releasing is noted on the block's own error, which is raised again. ``machine`` is None, and nothing
        is confirmed, when no machine fits.
        """
        answer = self.place(timeout_s=timeout_s, **request)
        try:
            yield answer
        except BaseException as error:
            for one in answer.placed:
                try:
                    one.release()
                except WindwardError as failure:
                    error.add_note(f"{one.id} on {one.machine} was not released: {failure}")
            raise
        for one in answer.placed:
            one.confirm()

    def rank(self, *, timeout_s: float | None = None, **request: Unpack[RequestFields]) -> RankResult:
        """Rank the machines for a request; changes nothing."""
        return self._ask(RankResult, "rank", request, timeout_s)

    def confirm(self, id: str, *, timeout_s: float | None = None, **more: Unpack[ConfirmFields]) -> ConfirmResult:  # noqa: A002
        """Say that a reserved instance runs."""
        return self._ask(ConfirmResult, "confirm", {"id": id, **more}, timeout_s)

    def update(self, id: str, *, timeout_s: float | None = None, **changes: Unpack[UpdateFields]) -> UpdateResult:  # noqa: A002
        """Move, resize or change the role of a confirmed instance."""
        return self._ask(UpdateResult, "update", {"id": id, **changes}, timeout_s)

    def release(self, id: str, *, timeout_s: float | None = None, **more: Unpack[ReleaseFields]) -> ReleaseResult:  # noqa: A002
        """End an instance or give a reservation back."""
        return self._ask(ReleaseResult, "release", {"id": id, **more}, timeout_s)

    def capacity(self, *, timeout_s: float | None = None, **request: Unpack[CapacityFields]) -> CapacityResult:
        """Count how many more instances of a kind fit; changes nothing. ``by`` counts by a label, or by ``machine``."""
        return self._ask(CapacityResult, "capacity", request, timeout_s)

    def cordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> CordonResult:
        """Keep further instances away from machines: ``machines`` (names or globs), ``selector``. For operators."""
        return self._ask(CordonResult, "cordon", which, timeout_s)

    def uncordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> CordonResult:
        """Let machines take instances again. For operators."""
        return self._ask(CordonResult, "uncordon", which, timeout_s)

    def drain(self, *, timeout_s: float | None = None, **which: Unpack[DrainFields]) -> DrainResult:
        """Say where all instances of machines would go; ``apply=True`` cordons and reserves. For operators.

        The scorer plans a thousand instances in some two seconds, more while it places: give it the time.
        """
        return self._ask(DrainResult, "drain", which, timeout_s)

    def plan(self, *, timeout_s: float | None = None, **wanted: Unpack[PlanFields]) -> PlanResult:
        """Say what would make the ledger have the wanted ``instances``; changes nothing. For operators."""
        return self._ask(PlanResult, "plan", wanted, timeout_s)

    def rebalance(self, *, timeout_s: float | None = None, **how: Unpack[RebalanceFields]) -> RebalanceResult:
        """Say which instances should move, and why; changes nothing. For operators."""
        return self._ask(RebalanceResult, "rebalance", how, timeout_s)

    def instances(self, *, timeout_s: float | None = None, **query: Unpack[InstancesFields]) -> InstancesResult:
        """List the ledger's instances."""
        return self._ask(InstancesResult, "instances", query, timeout_s)

    def machines(self, *, timeout_s: float | None = None, **query: Unpack[MachinesFields]) -> MachinesResult:
        """List the machines as the scorer sees them."""
        return self._ask(MachinesResult, "machines", query, timeout_s)

    def health(self, *, timeout_s: float | None = None) -> HealthResult:
        """Return the health of one scorer."""
        return self._ask(HealthResult, "health", {}, timeout_s)

    def events(
        self, *, since: float | None = None, after: str = "", follow: bool = True, timeout_s: float | None = None
    ) -> Events:
        """Return what happens to instances, in order: from now on, ``since`` a time (epoch s), or ``after`` a position.

            for event in scorer.events():
                print(event.event, event.id, event.machine)

        Without ``follow`` it ends with the newest. Where events are missing there is one called ``gap``: list the
        instances anew. They are read from the ledger's server, which the client must be one of; no scorer is asked. A
        server that is away for ``timeout_s`` raises WindwardError, retryable: the iterator may be asked again.
        """
        return Events(self._log(since, after, follow, timeout_s), self._do)

    def _ask(self, kind: type[_Kind], method: str, params: Mapping[str, Any], timeout_s: float | None) -> _Kind:
        return _read(kind, self._result(method, params, timeout_s, ""))

    def _result(self, method: str, params: Mapping[str, Any], timeout_s: float | None, query_id: str) -> msgspec.Raw:
        return drive(self._steps(method, params, timeout_s, query_id), self._do)

    def _do(self, step: _Step) -> list[Any]:
        if not step.commands:
            time.sleep(step.wait_s)
            return []
        import redis

        try:
            return self._send(step)
        except redis.RedisError as error:
            raise _failure(error) from None

    def _send(self, step: _Step) -> list[Any]:
        """Send commands in one write, return their answers: as a pipeline does, in half its time."""
        connection = self._connection()
        try:
            connection.send_packed_command([_packed(step.commands)], check_health=False)
            answers = [connection.read_response(timeout=SOCKET_TIMEOUT_S) for _ in step.commands]
        except BaseException:
            connection.disconnect()  # an unread answer must not be mistaken for that of another call
            self._redis.connection_pool.release(connection)
            raise
        self._idle.append((connection, time.monotonic(), os.getpid()))
        return answers

    def _connection(self) -> Any:
        """Return a connection that a call used less than `_FRESH_S` ago, or one of the pool, which tests it.

        The pool takes 15 us. It is used after `_FRESH_S`, since the server may close idle connections, and in a forked
        process, which must not use its parent's connections.
        """
        pool = self._redis.connection_pool
        with contextlib.suppress(IndexError):
            while True:
                connection, used_at_s, process = self._idle.pop()  # in one step: other threads call, too
                if process == os.getpid() and time.monotonic() - used_at_s < _FRESH_S:
                    return connection
                pool.release(connection)
        return pool.get_connection()

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._redis.connection_pool.release(self._idle.pop()[0])
        self._redis.close()
        if sentinels := getattr(self._redis.connection_pool, "sentinel_manager", None):
            sentinels.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncClient(Server):
    """The same for asyncio: every call is awaited; calls may run side by side."""

    def __init__(
        self, url: str = "redis://127.0.0.1:6379/0", prefix: str = "windward", timeout_s: float = 5.0, **more: Any
    ) -> None:
        super().__init__(url, prefix, timeout_s)
        import redis.asyncio
        from redis.backoff import NoBackoff

        retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
        self._redis = _made(redis.asyncio.Redis, url, {**_arguments(more), "retry": retry})

    async def call(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = None, query_id: str = ""
    ) -> Any:
        """Return the result of one query as plain data; the errors are those of `Client.call`."""
        return _read(object, await self._result(method, params, timeout_s, query_id))

    async def place(self, *, timeout_s: float | None = None, **request: Unpack[PlaceFields]) -> AsyncPlacement:
        """As `Client.place`."""
        answer = await self._ask(AsyncPlacement, "place", request, timeout_s)
        answer._of(self)
        return answer

    @contextlib.asynccontextmanager
    async def placed(
        self, *, timeout_s: float | None = None, **request: Unpack[PlaceFields]
    ) -> AsyncIterator[AsyncPlacement]:
        """As `Client.placed`, with ``async with``."""
        answer = await self.place(timeout_s=timeout_s, **request)
        try:
            yield answer
        except BaseException as error:
            for one in answer.placed:
                try:
                    await one.release()
                except WindwardError as failure:
                    error.add_note(f"{one.id} on {one.machine} was not released: {failure}")
            raise
        for one in answer.placed:
            await one.confirm()

    async def rank(self, *, timeout_s: float | None = None, **request: Unpack[RequestFields]) -> RankResult:
        """As `Client.rank`."""
        return await self._ask(RankResult, "rank", request, timeout_s)

    async def confirm(self, id: str, *, timeout_s: float | None = None, **more: Unpack[ConfirmFields]) -> ConfirmResult:  # noqa: A002
        """As `Client.confirm`."""
        return await self._ask(ConfirmResult, "confirm", {"id": id, **more}, timeout_s)

    async def update(self, id: str, *, timeout_s: float | None = None, **changes: Unpack[UpdateFields]) -> UpdateResult:  # noqa: A002
        """As `Client.update`."""
        return await self._ask(UpdateResult, "update", {"id": id, **changes}, timeout_s)

    async def release(self, id: str, *, timeout_s: float | None = None, **more: Unpack[ReleaseFields]) -> ReleaseResult:  # noqa: A002
        """As `Client.release`."""
        return await self._ask(ReleaseResult, "release", {"id": id, **more}, timeout_s)

    async def capacity(self, *, timeout_s: float | None = None, **request: Unpack[CapacityFields]) -> CapacityResult:
        """As `Client.capacity`."""
        return await self._ask(CapacityResult, "capacity", request, timeout_s)

    async def cordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> CordonResult:
        """As `Client.cordon`."""
        return await self._ask(CordonResult, "cordon", which, timeout_s)

    async def uncordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> CordonResult:
        """As `Client.uncordon`."""
        return await self._ask(CordonResult, "uncordon", which, timeout_s)

    async def drain(self, *, timeout_s: float | None = None, **which: Unpack[DrainFields]) -> DrainResult:
        """As `Client.drain`."""
        return await self._ask(DrainResult, "drain", which, timeout_s)

    async def plan(self, *, timeout_s: float | None = None, **wanted: Unpack[PlanFields]) -> PlanResult:
        """As `Client.plan`."""
        return await self._ask(PlanResult, "plan", wanted, timeout_s)

    async def rebalance(self, *, timeout_s: float | None = None, **how: Unpack[RebalanceFields]) -> RebalanceResult:
        """As `Client.rebalance`."""
        return await self._ask(RebalanceResult, "rebalance", how, timeout_s)

    async def instances(self, *, timeout_s: float | None = None, **query: Unpack[InstancesFields]) -> InstancesResult:
        """As `Client.instances`."""
        return await self._ask(InstancesResult, "instances", query, timeout_s)

    async def machines(self, *, timeout_s: float | None = None, **query: Unpack[MachinesFields]) -> MachinesResult:
        """As `Client.machines`."""
        return await self._ask(MachinesResult, "machines", query, timeout_s)

    async def health(self, *, timeout_s: float | None = None) -> HealthResult:
        """As `Client.health`."""
        return await self._ask(HealthResult, "health", {}, timeout_s)

    def events(
        self, *, since: float | None = None, after: str = "", follow: bool = True, timeout_s: float | None = None
    ) -> AsyncEvents:
        """As `Client.events`, for ``async for``; "now" is when the first is waited for."""
        return AsyncEvents(self._log(since, after, follow, timeout_s), self._drive)

    async def _ask(self, kind: type[_Kind], method: str, params: Mapping[str, Any], timeout_s: float | None) -> _Kind:
        return _read(kind, await self._result(method, params, timeout_s, ""))

    async def _result(
        self, method: str, params: Mapping[str, Any], timeout_s: float | None, query_id: str
    ) -> msgspec.Raw:
        return await self._drive(self._steps(method, params, timeout_s, query_id))

    async def _drive(self, steps: Generator[_Step, list[Any], _Kind]) -> _Kind:
        try:
            step = next(steps)
            while True:
                try:
                    answers = await self._do(step)
                except (Away, Refused) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answers)
        except StopIteration as done:
            result: _Kind = done.value
            return result

    async def _do(self, step: _Step) -> list[Any]:
        import asyncio

        import redis

        if not step.commands:
            await asyncio.sleep(step.wait_s)
            return []
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for command in step.commands:
                    pipe.execute_command(*command)
                answers: list[Any] = await pipe.execute()
                return answers
        except redis.RedisError as error:
            failure = _failure(error)
            if isinstance(failure, NotNow):  # the name may lead to another server by now
                await self._redis.connection_pool.disconnect(inuse_connections=False)
            raise failure from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
        if sentinels := getattr(self._redis.connection_pool, "sentinel_manager", None):
            await sentinels.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()
