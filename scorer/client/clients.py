"""The two clients by redis-py, which is imported when it is used: their answers, and their readers of events.

The methods of both are written once, as the steps of a call (`Methods`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Unpack, overload
from urllib.parse import urlsplit

from schemas.messages.event import Event
from schemas.process.redis_url import connected, in_words, sentinels_in
from schemas.rpc.keywords import (
    CapacityFields,
    ConfirmFields,
    CordonFields,
    DrainFields,
    InstancesFields,
    MachinesFields,
    PlaceFields,
    PlanFields,
    RebalanceFields,
    ReleaseFields,
    RequestFields,
    RiskFields,
    UpdateFields,
)
from schemas.rpc.results import (
    CapacityResult,
    ConfirmResult,
    CordonResult,
    DrainResult,
    HealthResult,
    InstancesResult,
    Line,
    MachinesResult,
    PlaceResult,
    PlanResult,
    RankResult,
    RebalanceResult,
    ReleaseResult,
    RiskResult,
    UpdateResult,
)
from schemas.values.mapping import Result
from schemas.values.secret_file import SecretFile
from scorer.client.call import Away, Call, Kind, NotNow, Refused, Step, Steps, WindwardError, drive, read, refusal
from scorer.client.log import Log

Parameters = ParamSpec("Parameters")


class Method(Generic[Parameters, Kind]):
    """A method written as the steps of its call: `Here` runs them, `There` awaits them.

    Type checkers read `__get__`. At run time both classes have plain functions.
    """

    def __init__(self, steps: Callable[Concatenate[Any, Parameters], Steps[Kind]]) -> None:
        self._steps = steps

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: None, kind: type) -> Method[Parameters, Kind]: ...
        @overload
        def __get__(self, client: Here, kind: type) -> Callable[Parameters, Kind]: ...
        @overload
        def __get__(self, client: There, kind: type) -> Callable[Parameters, Coroutine[Any, Any, Kind]]: ...
        def __get__(self, client: Any, kind: type) -> Any: ...

    def here(self) -> Any:
        steps = self._steps

        @functools.wraps(steps)
        def taken(client: Here, *given: Any, **more: Any) -> Any:
            return client._take(steps(client, *given, **more))

        return _returning(taken)

    def there(self) -> Any:
        steps = self._steps

        @functools.wraps(steps)
        async def awaited(client: There, *given: Any, **more: Any) -> Any:
            return await client._take(steps(client, *given, **more))

        return _returning(awaited)


def _returning(function: Any) -> Any:
    """Return the function annotated with the result of its steps, as ``help`` prints it."""
    own = dict(function.__annotations__)
    own["return"] = own["return"].removeprefix("Steps[").removesuffix("]")
    function.__annotations__ = own
    return function


def where_of(url: str) -> str:
    """Return the server's name for messages: host and port, or the socket; other parts may hold a password.

    Raises WindwardError.
    """
    scheme, given, _ = url.partition("://")
    if not given or scheme not in ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"):
        raise WindwardError(
            "INVALID_ARGUMENT",
            "url: expected redis://, rediss://, unix:// or redis+sentinel://; "
            "a cluster is not supported: name one server, or one behind sentinels",
        )
    try:
        if found := sentinels_in(url):
            return f"{scheme}://{','.join(f'{host}:{port}' for host, port in found.hosts)}/{found.name}"
        parts = urlsplit(url)
        where = parts.path if scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except (ValueError, TypeError):
        raise WindwardError("INVALID_ARGUMENT", "url: not a URL that can be parsed") from None
    return f"{scheme}://{where}"


class Methods:
    """The server, prefix and timeout of a client, and its methods."""

    def __init__(self, url: str, prefix: str, timeout_s: float) -> None:
        self._where = where_of(url)
        self._prefix = prefix
        self._timeout_s = timeout_s

    @Method
    def call(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = None, query_id: str = ""
    ) -> Steps[Any]:
        """Return the result of one query as plain data.

        Raises WindwardError: the scorer's own, DEADLINE_EXCEEDED without an answer, UNAVAILABLE without a server,
        PERMISSION_DENIED and UNAUTHENTICATED where it refuses this user, RESOURCE_EXHAUSTED when too many queries wait.
        """
        return self._ask(object, method, params, timeout_s, query_id)

    @Method
    def rank(self, *, timeout_s: float | None = None, **request: Unpack[RequestFields]) -> Steps[RankResult]:
        """Rank the machines for a request; changes nothing."""
        return self._ask(RankResult, "rank", request, timeout_s)

    @Method
    def confirm(
        self, id: str, *, timeout_s: float | None = None, **more: Unpack[ConfirmFields]
    ) -> Steps[ConfirmResult]:
        """Report that a reserved instance runs."""
        return self._ask(ConfirmResult, "confirm", {"id": id, **more}, timeout_s)

    @Method
    def update(
        self, id: str, *, timeout_s: float | None = None, **changes: Unpack[UpdateFields]
    ) -> Steps[UpdateResult]:
        """Move, resize or change the role of a confirmed instance."""
        return self._ask(UpdateResult, "update", {"id": id, **changes}, timeout_s)

    @Method
    def release(
        self, id: str, *, timeout_s: float | None = None, **more: Unpack[ReleaseFields]
    ) -> Steps[ReleaseResult]:
        """End an instance or give a reservation back."""
        return self._ask(ReleaseResult, "release", {"id": id, **more}, timeout_s)

    @Method
    def capacity(self, *, timeout_s: float | None = None, **request: Unpack[CapacityFields]) -> Steps[CapacityResult]:
        """Count how many more instances of a kind fit; changes nothing.

        ``by``: a label, or ``machine``, to count by.
        """
        return self._ask(CapacityResult, "capacity", request, timeout_s)

    @Method
    def cordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> Steps[CordonResult]:
        """Keep further instances away from machines: ``machines`` (names or globs), ``selector``. For operators."""
        return self._ask(CordonResult, "cordon", which, timeout_s)

    @Method
    def uncordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> Steps[CordonResult]:
        """Let machines take instances again. For operators."""
        return self._ask(CordonResult, "uncordon", which, timeout_s)

    @Method
    def drain(self, *, timeout_s: float | None = None, **which: Unpack[DrainFields]) -> Steps[DrainResult]:
        """Plan where the instances of machines go; ``apply=True`` cordons and reserves. For operators.

        A planner plans a thousand instances in some two seconds: set the timeout accordingly.
        """
        return self._ask(DrainResult, "drain", which, timeout_s)

    @Method
    def plan(self, *, timeout_s: float | None = None, **wanted: Unpack[PlanFields]) -> Steps[PlanResult]:
        """Plan the steps from the ledger to the wanted ``instances``; changes nothing. For operators."""
        return self._ask(PlanResult, "plan", wanted, timeout_s)

    @Method
    def rebalance(self, *, timeout_s: float | None = None, **how: Unpack[RebalanceFields]) -> Steps[RebalanceResult]:
        """Plan which instances should move, and why; changes nothing. For operators."""
        return self._ask(RebalanceResult, "rebalance", how, timeout_s)

    @Method
    def instances(self, *, timeout_s: float | None = None, **query: Unpack[InstancesFields]) -> Steps[InstancesResult]:
        """List the ledger's instances."""
        return self._ask(InstancesResult, "instances", query, timeout_s)

    @Method
    def machines(self, *, timeout_s: float | None = None, **query: Unpack[MachinesFields]) -> Steps[MachinesResult]:
        """List the machines as the scorer sees them."""
        return self._ask(MachinesResult, "machines", query, timeout_s)

    @Method
    def risk(self, *, timeout_s: float | None = None, **query: Unpack[RiskFields]) -> Steps[RiskResult]:
        """Name the machines whose CPU load will soon be above a limit, the hottest first, and what heats each."""
        return self._ask(RiskResult, "risk", query, timeout_s)

    @Method
    def health(self, *, timeout_s: float | None = None) -> Steps[HealthResult]:
        """Return the health of one scorer."""
        return self._ask(HealthResult, "health", {}, timeout_s)

    def _ask(
        self, kind: type[Kind], method: str, params: Mapping[str, Any], timeout_s: float | None, query_id: str = ""
    ) -> Steps[Kind]:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        answer = yield from Call(self._prefix, method, params, timeout_s, query_id).steps(self._where)
        return read(kind, answer)

    def _log(self, since: float | None, after: str, follow: bool, timeout_s: float | None) -> Log:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        return Log(self._prefix, self._where, since, after, follow=follow, timeout_s=timeout_s)


class Here(Methods):
    """Methods that return when the call is complete."""

    def _take(self, steps: Steps[Kind]) -> Kind:
        raise NotImplementedError


class There(Methods):
    """Methods that are awaited."""

    async def _take(self, steps: Steps[Kind]) -> Kind:
        raise NotImplementedError


for _name, _method in list(vars(Methods).items()):
    if isinstance(_method, Method):
        setattr(Here, _name, _method.here())
        setattr(There, _name, _method.there())


_FRESH_S = 1.0


SOCKET_TIMEOUT_S = 4.0
"""A connection without an answer for so long is given up: twice the longest read."""


def packed(commands: Sequence[tuple[str | bytes | float, ...]]) -> bytes:
    r"""Return commands as the server reads them; redis-py's own ``pack_commands`` takes twice the time.

    >>> packed([("LLEN", "queries")])
    b'*2\r\n$4\r\nLLEN\r\n$7\r\nqueries\r\n'
    """
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for given in command:
            part = given if isinstance(given, bytes) else str(given).encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(part), part))
    return b"".join(parts)


def failure_of(error: Any) -> Exception:
    """Return redis-py's error as `Refused` or `Away`; any other unchanged."""
    import redis

    if isinstance(error, (redis.ReadOnlyError, redis.exceptions.ClusterDownError, redis.exceptions.TryAgainError)):
        return NotNow(str(error))  # redis-py takes their word off the text
    if isinstance(error, (redis.AuthenticationError, redis.ResponseError)):
        return refusal(str(error))
    return Away(in_words(error)) if isinstance(error, (redis.ConnectionError, redis.TimeoutError)) else error


def arguments_of(more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of redis-py's client: one attempt within a deadline, and the caller's own arguments.

    Raises WindwardError for a ``password_file`` that cannot be read.
    """
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    if file := (more := dict(more)).pop("password_file", None):
        try:
            more["password"] = SecretFile.read(Path(file))
        except (OSError, ValueError) as error:
            raise WindwardError("INVALID_ARGUMENT", f"password_file: {error}") from None
    return {"socket_timeout": SOCKET_TIMEOUT_S, "socket_connect_timeout": 2.0, "retry": Retry(NoBackoff(), 0), **more}


def redis_of(kind: Any, url: str, arguments: Mapping[str, Any]) -> Any:
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
        """Call the client's method for this reservation only: with its id and, where known, its generation."""
        own: str | None = self["id"]
        if own is None:
            raise WindwardError("FAILED_PRECONDITION", "the answer has no single reservation; `placed` has all of them")
        generation = {"generation": self["generation"]} if self["generation"] else {}  # 0: of a dry run
        return getattr(self.__dict__["scorer"], method)(own, timeout_s=timeout_s, **generation, **more)


class _HeldHere(_Held, kw_only=True, dict=True):
    """`Client`'s methods for one reservation; they never act on a later one of the same id."""

    def confirm(self, *, timeout_s: float | None = None, **more: object) -> ConfirmResult:
        """Report that the instance runs; FAILED_PRECONDITION when the reservation has ended."""
        return self._own("confirm", timeout_s, more)  # type: ignore[no-any-return]

    def release(self, *, timeout_s: float | None = None, **more: object) -> ReleaseResult:
        """End the instance, or give the reservation back."""
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
    """One placed instance, with methods that act on its reservation."""


class AsyncPlaced(Line, _HeldThere, kw_only=True, dict=True):
    """The same of an `AsyncClient`."""


class Placement(PlaceResult, _HeldHere, kw_only=True, dict=True):
    """The answer of ``place``, with methods for a single reservation; ``placed`` has one entry for each instance."""

    placed: list[Placed] = []  # type: ignore[assignment]


class AsyncPlacement(PlaceResult, _HeldThere, kw_only=True, dict=True):
    """The answer of an `AsyncClient`: its methods are awaited."""

    placed: list[AsyncPlaced] = []  # type: ignore[assignment]


class Events:
    """What `Client.events` returns: an iterator."""

    def __init__(self, log: Log, do: Callable[[Step], list[Any]]) -> None:
        self._log, self._do = log, do
        self._found = deque(drive(log.start(), do))
        self.position = log.position
        """The position of the last event, or of the start: another iterator can continue ``after`` it."""

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

    def __init__(self, log: Log, take: Callable[[Steps[list[Event]]], Any]) -> None:
        self._log, self._take = log, take
        self._found: deque[Event] | None = None
        self.position = ""
        """The position of the last event, or of the start; "" before that."""

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        if self._found is None:
            self._found = deque(await self._take(self._log.start()))
            self.position = self._log.position
        while not self._found:
            if self._log.ended:
                raise StopAsyncIteration
            self._found += await self._take(self._log.more())
        event = self._found.popleft()
        self.position = event.position
        return event


class Client(Here):
    """A deployer's side of the RPC. Safe to share between threads; each call takes a connection of its own.

    ``url`` and the keyword arguments are those of ``redis.Redis.from_url`` (``username``, ``password``,
    ``ssl_ca_certs``, ...), or ``password_file``, which is read again for each new connection; ``timeout_s`` is the
    default deadline of a call. A server behind sentinels is
    ``redis+sentinel://HOST:PORT,HOST:PORT/NAME/DATABASE``; ``sentinel_username`` and ``sentinel_password`` are theirs.
    """

    def __init__(
        self, url: str = "redis://127.0.0.1:6379/0", prefix: str = "windward", timeout_s: float = 5.0, **more: Any
    ) -> None:
        super().__init__(url, prefix, timeout_s)
        import redis

        self._redis = redis_of(redis.Redis, url, arguments_of(more))
        self._idle: list[tuple[Any, float, int]] = []
        """Connections that are not in use, each with the moment of its last use and the process it belongs to."""

    def place(self, *, timeout_s: float | None = None, **request: Unpack[PlaceFields]) -> Placement:
        """Choose a machine and reserve it; the keywords are the request's fields (`schemas.rpc.request.Request`).

        Different requests are placed by ``place(instances=[{...}, {...}])``, the equal ones among them one after
        the other.
        """
        answer = self._take(self._ask(Placement, "place", request, timeout_s))
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

    def events(
        self, *, since: float | None = None, after: str = "", follow: bool = True, timeout_s: float | None = None
    ) -> Events:
        """Return what happens to instances, in order: from now on, ``since`` a time (epoch s), or ``after`` a position.

            for event in scorer.events():
                print(event.event, event.id, event.machine)

        Without ``follow`` it ends with the newest. Where events are missing there is one called ``gap``: list the
        instances anew. They are read from the ledger's server, so the client's URL must be that server's; no scorer is
        asked. A server that is away for ``timeout_s`` raises WindwardError, retryable: the iterator may be used again.
        """
        return Events(self._log(since, after, follow, timeout_s), self._do)

    def _take(self, steps: Steps[Kind]) -> Kind:
        return drive(steps, self._do)

    def _do(self, step: Step) -> list[Any]:
        if not step.commands:
            time.sleep(step.wait_s)
            return []
        import redis

        try:
            return self._send(step)
        except redis.RedisError as error:
            raise failure_of(error) from None

    def _send(self, step: Step) -> list[Any]:
        """Send commands in one write, return their answers. A pipeline of redis-py takes twice the time."""
        connection = self._connection()
        try:
            connection.send_packed_command([packed(step.commands)], check_health=False)
            answers = [connection.read_response(timeout=SOCKET_TIMEOUT_S) for _ in step.commands]
        except BaseException:
            connection.disconnect()  # an unread answer must not be mistaken for that of another call
            self._redis.connection_pool.release(connection)
            raise
        self._idle.append((connection, time.monotonic(), os.getpid()))
        return answers

    def _connection(self) -> Any:
        """Return a connection that a call used less than `_FRESH_S` ago, or one from the pool, which tests it.

        The pool takes 15 us. It is needed after `_FRESH_S`, since the server may close idle connections, and in a
        forked process, which must not share its parent's.
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


class AsyncClient(There):
    """The client for asyncio: every call is awaited; calls may run concurrently."""

    def __init__(
        self, url: str = "redis://127.0.0.1:6379/0", prefix: str = "windward", timeout_s: float = 5.0, **more: Any
    ) -> None:
        super().__init__(url, prefix, timeout_s)
        import redis.asyncio
        from redis.backoff import NoBackoff

        retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
        self._redis = redis_of(redis.asyncio.Redis, url, {**arguments_of(more), "retry": retry})

    async def place(self, *, timeout_s: float | None = None, **request: Unpack[PlaceFields]) -> AsyncPlacement:
        """As `Client.place`."""
        answer = await self._take(self._ask(AsyncPlacement, "place", request, timeout_s))
        answer._of(self)
        return answer

    @contextlib.asynccontextmanager
    async def placed(
        self, *, timeout_s: float | None = None, **request: Unpack[PlaceFields]
    ) -> AsyncIterator[AsyncPlacement]:
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

    def events(
        self, *, since: float | None = None, after: str = "", follow: bool = True, timeout_s: float | None = None
    ) -> AsyncEvents:
        """As `Client.events`, for ``async for``; without ``since`` it begins at the time of the first await."""
        return AsyncEvents(self._log(since, after, follow, timeout_s), self._take)

    async def _take(self, steps: Steps[Kind]) -> Kind:
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
            result: Kind = done.value
            return result

    async def _do(self, step: Step) -> list[Any]:
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
            failure = failure_of(error)
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
