"""The Python client of the scorer, sync and asyncio: this file needs only ``redis`` and ``msgspec``.

    with Client("redis://127.0.0.1:6379/0") as scorer:
        answer = scorer.place(id="orders-7", cpu=2, memory="10G")
        if answer["machine"]:
            ...                                 # start the instance there, then
            scorer.confirm("orders-7")

A query is one JSON text on a Redis list, its answer another (``redis-cli`` can do the same). Every call has a deadline;
past it, or when the server is away until then, `WindwardError` is raised with gRPC's code name. "No machine fits" is an
answer, not an error: ``answer["machine"]`` is None and ``answer["reason"]`` says why.

A call is sent again under the same query id when the connection breaks; a scorer takes an instance whose id it knows as
the same placement, so nothing is reserved twice. Without an ``id`` of your own the query's id names the instance.

redis-py 8 gives up an idle blocking read after its ``socket_timeout`` of 5 s and retries ten times. Here every blocking
read lasts `POLL_S` at most, the socket waits longer than that, and retrying is this module's business.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import msgspec
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

__all__ = ["AsyncClient", "Client", "WindwardError"]

VERSION = 1
POLL_S = 2.0
"""The longest single blocking read."""
SOCKET_TIMEOUT_S = 4.0
"""How long a silent connection is believed."""
QUEUE_MAX = 10_000
"""More queries waiting than this: the client takes its own back at once."""
_RETRY_PAUSE_S = 0.05
_QUERY_ID = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")


class WindwardError(Exception):
    """A call that failed: ``code`` is gRPC's name, ``retryable`` says whether the same call may succeed later."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable


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
    result: Any = None
    error: _Error | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Reply).decode


class _Call:
    """One call: what is sent, where the answer comes, how long there is left."""

    def __init__(self, prefix: str, method: str, params: Mapping[str, Any], timeout_s: float, query_id: str) -> None:
        if not timeout_s > 0:
            raise WindwardError("INVALID_ARGUMENT", f"timeout_s: {timeout_s} is not more than 0")
        self.id = query_id or uuid.uuid4().hex
        if not _QUERY_ID.fullmatch(self.id):
            raise WindwardError("INVALID_ARGUMENT", f"query_id: {self.id!r} is not 1 to 128 of A-Z a-z 0-9 . _ : @ + -")
        self.queries = f"{prefix}:v1:queries"
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
        """Return what is sent to the server: the query, unless it is there already, and the wait for its answer."""
        wait = ("BLPOP", self.reply, wait_s)
        return [wait] if sent else [("LPUSH", self.queries, self.query), wait]

    def result(self, raw: bytes | str) -> Any:
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
            return WindwardError("UNAVAILABLE", f"no connection to {where}: {failure}", retryable=True)
        return WindwardError(
            "DEADLINE_EXCEEDED",
            f"no answer within {self.timeout_s:g} s: is a scorer running on {where} with the prefix "
            f"{self.queries.removesuffix(':v1:queries')!r}?",
            retryable=True,
        )

    def crowded(self, waiting: int) -> WindwardError:
        """Return the error of a queue that is too long to join."""
        return WindwardError("RESOURCE_EXHAUSTED", f"{waiting} queries are waiting for a scorer", retryable=True)


def _arguments(more: Mapping[str, Any]) -> dict[str, Any]:
    return {"socket_timeout": SOCKET_TIMEOUT_S, "socket_connect_timeout": 2.0, "retry": Retry(NoBackoff(), 0), **more}


def _check_url(url: str) -> None:
    scheme, given, _ = url.partition("://")
    scheme = scheme if given else ""  # else it may be a password
    if scheme not in ("redis", "rediss", "unix"):
        raise WindwardError(
            "INVALID_ARGUMENT", f"url: expected redis://, rediss:// or unix://, got scheme {scheme!r}; "
            "a sentinel or cluster is not supported: name one server, or a proxy that follows the master",
        )  # fmt: skip


def _where(url: str) -> str:
    return re.sub(r"//[^@/]*@", "//", url)


class Client:
    """A deployer's side of the RPC. Safe to share between threads; each call takes a connection of its own.

    ``url`` and the keyword arguments are those of ``redis.Redis.from_url`` (``username``, ``password``,
    ``ssl_ca_certs``, ...); ``timeout_s`` is the deadline of a call that brings none.
    """

    def __init__(
        self, url: str = "redis://127.0.0.1:6379/0", prefix: str = "windward", timeout_s: float = 5.0, **more: Any
    ) -> None:
        _check_url(url)
        self._where = _where(url)
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._redis = redis.Redis.from_url(url, **_arguments(more))

    def call(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = None, query_id: str = ""
    ) -> Any:
        """Return the result of one query.

        Raises WindwardError: the scorer's own, DEADLINE_EXCEEDED without an answer, UNAVAILABLE without a server,
        RESOURCE_EXHAUSTED when too many queries wait already.
        """
        call = _Call(self._prefix, method, params, self._timeout_s if timeout_s is None else timeout_s, query_id)
        sent, failure = False, None
        for wait_s in call.waits():
            try:
                answers = self._send(call.commands(sent, wait_s), wait_s)
                sent, failure = True, None
                if answers[-1] is not None:
                    return call.result(answers[-1][1])
                if len(answers) > 1 and answers[0] > QUEUE_MAX:
                    break
            except (redis.AuthenticationError, redis.ResponseError) as error:
                raise WindwardError("UNAVAILABLE", f"{self._where}: {error}") from None
            except (redis.ConnectionError, redis.TimeoutError) as error:
                sent, failure = False, error
                time.sleep(min(_RETRY_PAUSE_S, call.left_s()))
        crowd = 0
        if failure is None:
            crowd = self._take_back(call)
        raise call.crowded(crowd) if crowd > QUEUE_MAX else call.overdue(self._where, failure)

    def _send(self, commands: list[tuple[Any, ...]], wait_s: float) -> list[Any]:
        """Send commands in one write, return their answers: what a pipeline does, at half its price."""
        pool = self._redis.connection_pool
        connection: Any = pool.get_connection()
        try:
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            return [connection.read_response(timeout=wait_s + SOCKET_TIMEOUT_S) for _ in commands]
        except BaseException:
            connection.disconnect()  # what is still unread must not be taken for another call's answer
            raise
        finally:
            pool.release(connection)

    def _take_back(self, call: _Call) -> int:
        """Remove a query nobody took, so that an unattended queue stays short; return the length it had."""
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.llen(call.queries)
                pipe.lrem(call.queries, 1, call.query)  # type: ignore[arg-type]
                return int(pipe.execute()[0])
        except redis.RedisError:
            return 0

    def place(self, *, timeout_s: float | None = None, **request: Any) -> Any:
        """Choose a machine and reserve it; the keywords are the request's fields (`schemas.request.Request`).

        A list of unlike requests is placed by ``place(instances=[{...}, {...}])``, each seeing the ones before.
        """
        return self.call("place", request, timeout_s=timeout_s)

    def rank(self, *, timeout_s: float | None = None, **request: Any) -> Any:
        """Rank the machines for a request; changes nothing."""
        return self.call("rank", request, timeout_s=timeout_s)

    def confirm(self, id: str, *, timeout_s: float | None = None, **more: Any) -> Any:  # noqa: A002
        """Say that a reserved instance runs."""
        return self.call("confirm", {"id": id, **more}, timeout_s=timeout_s)

    def update(self, id: str, *, timeout_s: float | None = None, **changes: Any) -> Any:  # noqa: A002
        """Move, resize or change the role of a confirmed instance."""
        return self.call("update", {"id": id, **changes}, timeout_s=timeout_s)

    def release(self, id: str, *, timeout_s: float | None = None, **more: Any) -> Any:  # noqa: A002
        """End an instance or give a reservation back."""
        return self.call("release", {"id": id, **more}, timeout_s=timeout_s)

    def instances(self, *, timeout_s: float | None = None, **query: Any) -> Any:
        """List the ledger's instances."""
        return self.call("instances", query, timeout_s=timeout_s)

    def machines(self, *, timeout_s: float | None = None, **query: Any) -> Any:
        """List the machines as the scorer sees them."""
        return self.call("machines", query, timeout_s=timeout_s)

    def health(self, *, timeout_s: float | None = None) -> Any:
        """Ask the scorer how it is."""
        return self.call("health", {}, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncClient:
    """The same for asyncio: every call is awaited; calls may run side by side."""

    def __init__(
        self, url: str = "redis://127.0.0.1:6379/0", prefix: str = "windward", timeout_s: float = 5.0, **more: Any
    ) -> None:
        _check_url(url)
        self._where = _where(url)
        self._prefix = prefix
        self._timeout_s = timeout_s
        retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
        self._redis = redis.asyncio.Redis.from_url(url, **{**_arguments(more), "retry": retry})

    async def call(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = None, query_id: str = ""
    ) -> Any:
        """Return the result of one query; the errors are those of `Client.call`."""
        call = _Call(self._prefix, method, params, self._timeout_s if timeout_s is None else timeout_s, query_id)
        sent, failure = False, None
        for wait_s in call.waits():
            try:
                async with self._redis.pipeline(transaction=False) as pipe:
                    for command in call.commands(sent, wait_s):
                        pipe.execute_command(*command)
                    answers = await pipe.execute()
                sent, failure = True, None
                if answers[-1] is not None:
                    return call.result(answers[-1][1])
                if len(answers) > 1 and answers[0] > QUEUE_MAX:
                    break
            except (redis.AuthenticationError, redis.ResponseError) as error:
                raise WindwardError("UNAVAILABLE", f"{self._where}: {error}") from None
            except (redis.ConnectionError, redis.TimeoutError) as error:
                sent, failure = False, error
                await asyncio.sleep(min(_RETRY_PAUSE_S, call.left_s()))
        crowd = 0
        if failure is None:
            crowd = await self._take_back(call)
        raise call.crowded(crowd) if crowd > QUEUE_MAX else call.overdue(self._where, failure)

    async def _take_back(self, call: _Call) -> int:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.llen(call.queries)
                pipe.lrem(call.queries, 1, call.query)  # type: ignore[arg-type]
                return int((await pipe.execute())[0])
        except redis.RedisError:
            return 0

    async def place(self, *, timeout_s: float | None = None, **request: Any) -> Any:
        """See `Client.place`."""
        return await self.call("place", request, timeout_s=timeout_s)

    async def rank(self, *, timeout_s: float | None = None, **request: Any) -> Any:
        """See `Client.rank`."""
        return await self.call("rank", request, timeout_s=timeout_s)

    async def confirm(self, id: str, *, timeout_s: float | None = None, **more: Any) -> Any:  # noqa: A002
        """See `Client.confirm`."""
        return await self.call("confirm", {"id": id, **more}, timeout_s=timeout_s)

    async def update(self, id: str, *, timeout_s: float | None = None, **changes: Any) -> Any:  # noqa: A002
        """See `Client.update`."""
        return await self.call("update", {"id": id, **changes}, timeout_s=timeout_s)

    async def release(self, id: str, *, timeout_s: float | None = None, **more: Any) -> Any:  # noqa: A002
        """See `Client.release`."""
        return await self.call("release", {"id": id, **more}, timeout_s=timeout_s)

    async def instances(self, *, timeout_s: float | None = None, **query: Any) -> Any:
        """See `Client.instances`."""
        return await self.call("instances", query, timeout_s=timeout_s)

    async def machines(self, *, timeout_s: float | None = None, **query: Any) -> Any:
        """See `Client.machines`."""
        return await self.call("machines", query, timeout_s=timeout_s)

    async def health(self, *, timeout_s: float | None = None) -> Any:
        """See `Client.health`."""
        return await self.call("health", {}, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()
