"""One call without I/O: its steps, and the errors that a caller may throw into them."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from schemas.rpc.envelope import Query
from schemas.values.read_json import reader

POLL_S = 2.0
"""The longest single blocking read."""
QUEUE_MAX = 10_000
"""When more queries wait than this, the client takes its own back at once."""
RETRY_PAUSE_S = 0.05
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_IDS_SINCE = 1_735_689_600
"""The second from which ids count: 2025."""
OPERATORS = frozenset({"cordon", "drain", "plan", "rebalance", "uncordon"})
"""The methods for operators, which have a list of their own: Redis decides who may push to it."""
_DENIED = (
    ("PERMISSION_DENIED", re.compile("(?i)no permissions|NOPERM")),
    ("UNAUTHENTICATED", re.compile("(?i)WRONGPASS|NOAUTH|invalid username-password|authentication ?(required|error)")),
)
"""The server's errors for a user without a right, and for a wrong password."""
_QUERY_ID = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")


class WindwardError(Exception):
    """A call that failed: ``code`` is gRPC's name, ``retryable`` says whether the same call may succeed later."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all of its fields: without this, a pool of processes breaks at the error."""
        return partial(type(self), retryable=self.retryable), (self.code, self.message)


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
_decode = reader(_Reply)


Kind = TypeVar("Kind")
_readers: dict[Any, Callable[[msgspec.Raw], Any]] = {}
_making = threading.Lock()


def read(kind: type[Kind], result: msgspec.Raw) -> Kind:
    """Return a result as its type; raise WindwardError.

    Readers are made by one thread at a time: msgspec 0.22 ends the process (SIGSEGV) when two threads meet the same
    type for the first time.
    """
    if kind not in _readers:
        with _making:
            _readers.setdefault(kind, reader(kind))
    try:
        return _readers[kind](result)  # type: ignore[no-any-return]
    except msgspec.DecodeError as error:
        raise WindwardError("INTERNAL", f"the answer cannot be read: {error}") from None


class Away(Exception):
    """The server did not answer: a command may be sent again."""


class NotNow(Away):
    """The server refuses for now: a failover is under way, or its disk or replicas fail."""


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


def refused_by(where: str, error: Exception) -> WindwardError:
    """Return the error for a server that answers with a refusal.

    >>> [refused_by("a", Refused(said)).code for said in ("NOPERM no permissions", "WRONGPASS invalid", "WRONGTYPE")]
    ['PERMISSION_DENIED', 'UNAUTHENTICATED', 'UNAVAILABLE']
    """
    code = next((code for code, said in _DENIED if said.search(str(error))), "UNAVAILABLE")
    return WindwardError(code, f"{where}: {error}", retryable="used memory > 'maxmemory'" in str(error))


class Step(NamedTuple):
    """Commands to send in one write, one of which may wait; without commands, a pause."""

    commands: list[tuple[Any, ...]]
    wait_s: float


def instance_id(now_s: float, drawn: bytes, place: int = 0) -> str:
    """Return an id of 14 characters: six for the second, so that ids sort by time, and eight random ones (40 bits).

    The digits are of base 32, in the order of their characters: 0-9 and a-z without i, l, o, u. Six last until 2059.
    The ids of a list or a count increase by one from the random number, by their ``place``.

    >>> instance_id(1_790_000_000.0, bytes(5)), instance_id(1_790_000_000.0, bytes(5), 33)
    ('1ksdg000000000', '1ksdg000000011')
    """
    number = (((int(now_s) - _IDS_SINCE) % (1 << 30)) << 40) + int.from_bytes(drawn, "big") + place
    return "".join(_DIGITS[number >> shift & 31] for shift in range(65, -5, -5))


def _named(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a placement, with an id for each instance that has none.

    The id is drawn here, before the query is first sent: a repeated query then names the same instance.
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


Steps = Generator[Step, list[Any], Kind]
"""A call in the form that `drive` runs: each step is sent the answers to its commands, or thrown its error."""


class Call:
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
            given = msgspec.Raw(_encode(dict(params)))
        except (TypeError, msgspec.EncodeError) as error:
            raise WindwardError("INVALID_ARGUMENT", f"params: {error}") from None
        self.query = _encode(Query(id=self.id, method=method, deadline=time.time() + timeout_s, params=given))

    def left_s(self) -> float:
        """Return the time until the deadline, never below zero."""
        return max(0.0, self.deadline_s - time.monotonic())

    def steps(self, where: str) -> Steps[msgspec.Raw]:
        """Yield each step; its answers are sent into the generator, its error is thrown. Return the result or raise.

        A query that cannot be answered now (UNAVAILABLE, retryable) is sent again until the deadline: it has the same
        id, so it acts once and returns the first result.
        """
        sent, failure, unavailable = False, None, None
        while left_s := self.left_s():
            wait_s = max(0.001, min(left_s, POLL_S))
            push = [] if sent else [("LPUSH", self.queries, self.query)]
            try:
                answers = yield Step([*push, ("BLPOP", self.reply, wait_s)], wait_s)
            except Refused as error:
                refused = refused_by(where, error)
                if self.method in OPERATORS and refused.code == "PERMISSION_DENIED":
                    who = f"{self.method} is for operators: this user may not push on {self.queries}"
                    refused = WindwardError(refused.code, f"{who}: {error}")
                raise refused from None
            except Away as error:
                sent, failure = False, error
            else:
                sent, failure = True, None
                if answers[-1] is not None:
                    try:
                        return self.result(answers[-1][1])
                    except WindwardError as error:
                        if error.code != "UNAVAILABLE" or not error.retryable:  # else it is sent again
                            raise unavailable if unavailable and error.code == "DEADLINE_EXCEEDED" else error from None
                        sent, unavailable = False, error
                elif len(answers) > 1 and answers[0] > QUEUE_MAX:
                    break
            if not sent:
                yield Step([], min(RETRY_PAUSE_S, self.left_s()))
        crowd = 0
        if failure is None:
            with contextlib.suppress(Away, Refused):
                crowd = (yield Step([("LLEN", self.queries), ("LREM", self.queries, 1, self.query)], 0.0))[0]
        if crowd > QUEUE_MAX:
            raise WindwardError("RESOURCE_EXHAUSTED", f"{crowd} queries are waiting for a scorer", retryable=True)
        raise unavailable if unavailable and not failure else self.overdue(where, failure)

    def result(self, raw: bytes | str) -> msgspec.Raw:
        """Return the result in an answer, or raise its error."""
        try:
            reply = _decode(raw)
        except msgspec.DecodeError as error:
            raise WindwardError("INTERNAL", f"the answer cannot be read: {error}") from None
        if reply.ok:
            return reply.result
        refusal = reply.error or _Error("INTERNAL", "the answer is an error without a reason")
        raise WindwardError(refusal.code, refusal.message, retryable=refusal.retryable)

    def overdue(self, where: str, failure: Exception | None) -> WindwardError:
        """Return the error of a call that got no answer."""
        if failure is not None:
            return unreached(where, failure)
        asked = f"is a scorer running on {where} with the prefix {self.prefix!r}?"
        return WindwardError("DEADLINE_EXCEEDED", f"no answer within {self.timeout_s:g} s: {asked}", retryable=True)


def unreached(where: str, failure: Exception) -> WindwardError:
    what = where if isinstance(failure, NotNow) else f"no connection to {where}"
    found = refused_by(what, failure)  # a sentinel's refusal is found while the server is looked for
    return WindwardError(found.code, found.message, retryable=found.code == "UNAVAILABLE")


def drive(steps: Steps[Kind], do: Callable[[Step], list[Any]]) -> Kind:
    """Run the steps of a call; ``do`` returns the answers to a step's commands, or raises `Away` or `Refused`."""
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
        result: Kind = done.value
        return result
