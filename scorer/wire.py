"""Shell: one connection, many commands in one write, their answers in order; the time of its server.

One write contains the answer to a query, the command that takes the next, and the read of the ledger's log. So a
decision costs one round trip. redis-py's pipeline does the same in three times the time a command (its retries,
callbacks and response checks). It would also retry commands that must not be repeated.
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis
from hiredis import pack_command
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.process.redis_url import connected

Command = tuple[str | bytes | int | float, ...]

ANSWER_S = 5.0
"""How long to wait for an answer, beyond a blocking command's own time."""

LOOK_S = 0.5
"""After so long without an answer the sentinels, if any, are asked for the present primary."""

IDLE_S = 0.5
"""A connection that was idle for so long is checked first: the server, or a proxy, may have closed it."""

AWAY = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError, OSError)
"""The errors of a server that cannot be reached: wait and try again."""


_NOT_NOW = re.compile(r"-?(MISCONF|NOREPLICAS|BUSY) |.*: -(READONLY|MISCONF|OOM) ")


def refuses_for_now(error: Exception) -> bool:
    """Return whether a server refuses for now: a failover is under way, or its disk or memory is full.

    >>> refuses_for_now(redis.ResponseError("MISCONF Errors writing to the AOF file")), refuses_for_now(OSError())
    (True, False)
    """
    kinds = (redis.ReadOnlyError, redis.OutOfMemoryError, exceptions.ClusterDownError, exceptions.TryAgainError)
    return isinstance(error, kinds) or (isinstance(error, redis.ResponseError) and bool(_NOT_NOW.match(str(error))))


def check_primary(connection: Any) -> None:
    """Raise one of `AWAY` for a connection to a server that is no longer the primary.

    A host without power, or a suspended process, closes no connection. Servers without sentinels are not checked.
    """
    if behind_sentinels(connection):
        now = connection.connection_pool.get_master_address()
        if now != (connection.host, connection.port):
            raise redis.ConnectionError(f"the primary is {now[0]}:{now[1]}, not {connection.host}:{connection.port}")


def behind_sentinels(connection: Any) -> bool:
    """Return whether the address of a connection's server comes from sentinels."""
    return hasattr(connection, "connection_pool")


class Wire:
    """A connection that opens when it is first used and closes on the first failure."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._client = connected(
            redis.Redis,
            **{"socket_timeout": ANSWER_S, "socket_connect_timeout": 2.0, **arguments},
            protocol=2,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )
        self._connection: Any = None
        self._unread = 0
        self._held: list[Command] = []
        self._used_at_s = 0.0
        self.refused: list[redis.ResponseError] = []
        """Errors in the answers to posted commands, since the list was last cleared."""

    def ask(
        self, commands: Sequence[Command], block_s: float = 0.0, meanwhile: Callable[[], None] | None = None
    ) -> list[Any]:
        """Send the commands together; return their answers, an error as a ``redis.ResponseError`` in its place.

        ``meanwhile`` is called while the server works; it must not use this connection.

        Raises one of `AWAY` when the connection fails; then it is unknown which commands were done.
        """
        self.begin(commands)
        return self.finish(len(commands), block_s + ANSWER_S, meanwhile)

    def hold(self, commands: Sequence[Command]) -> None:
        """Keep the commands and send them in front of those of the next `ask` or `post`; their answers are dropped.

        `close` drops the commands that are not sent yet.
        """
        self._held += commands

    def post(self, commands: Sequence[Command]) -> None:
        """Send the commands without waiting; the next `ask` reads and drops their answers.

        Raises one of `AWAY` when the connection fails.
        """
        self.begin(commands)
        self._unread += len(commands)

    def begin(self, commands: Sequence[Command]) -> None:
        """Send the commands; `finish` returns their answers. Raises one of `AWAY` when the connection fails."""
        try:
            self._send(commands)
        except BaseException:
            self.close()
            raise

    def finish(self, count: int, timeout_s: float, meanwhile: Callable[[], None] | None = None) -> list[Any]:
        """Return the answers to so many commands as `ask` does, each after this time at most; raises as `begin`."""
        try:
            if meanwhile is not None:
                meanwhile()
            self._read_posted(self._connection)
            return [self._read(self._connection, timeout_s) for _ in range(count)]
        except BaseException:
            self.close()
            raise

    def _send(self, commands: Sequence[Command]) -> Any:
        now_s, held, self._held = time.monotonic(), self._held, []
        if self._connection is not None and now_s - self._used_at_s > IDLE_S:
            self._leave_closed(self._connection)
        self._used_at_s, connection = now_s, self._connection
        if connection is None:
            connection = self._connection = self._client.connection_pool.get_connection()
        pack: Any = pack_command
        connection.send_packed_command([b"".join(map(pack, [*held, *commands]))], check_health=False)
        self._unread += len(held)
        return connection

    def _read_posted(self, connection: Any) -> None:
        while self._unread:
            answer = self._read(connection, ANSWER_S)
            self._unread -= 1
            if isinstance(answer, redis.ResponseError):
                self.refused.append(answer)

    def _leave_closed(self, connection: Any) -> None:
        """Close a connection that the other side has closed, so that the next command opens a new one."""
        self._read_posted(connection)
        try:
            closed = bool(connection.can_read(0))
        except (redis.RedisError, OSError):
            closed = True
        if closed:
            self.close()

    @staticmethod
    def _read(connection: Any, timeout_s: float) -> Any:
        try:
            while timeout_s > LOOK_S and behind_sentinels(connection):
                try:
                    return connection.read_response(timeout=LOOK_S, disconnect_on_error=False)
                except redis.TimeoutError:
                    check_primary(connection)
                    timeout_s -= LOOK_S
            return connection.read_response(timeout=timeout_s)
        except redis.BusyLoadingError:
            raise
        except redis.ResponseError as error:
            return error

    def all(self, *commands: Command) -> list[Any]:
        """Send the commands together; return their answers, raise the first error among them."""
        answers = self.ask(commands)
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return answers

    def one(self, *command: str | bytes | float) -> Any:
        """Send one command; return its answer, raise its error."""
        return self.all(command)[0]

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        if self._connection is not None:
            self._connection.disconnect()
            self._client.connection_pool.release(self._connection)
            self._connection = None
        self._unread, self._held = 0, []


_READING_S = 0.25
"""A reading that took longer is not used: this process, or the network, stood still."""


class ServerClock:
    """Returns the server's time when called, epoch seconds; this host's until the first reading.

    All deadlines refer to it, since this host's clock may be wrong. It is read with each heartbeat. In between it
    advances by this host's monotonic clock, so setting the wall clock has no effect. A reading is dated by the arrival
    of its answer, so a time from `ServerClock` is never ahead of the server.
    """

    def __init__(self, local: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._local = local
        self._monotonic = monotonic
        self._offset_s = local() - monotonic()
        self._read_at = 0.0
        self.ahead_s = 0.0
        """How far this host's clock was ahead of the server's at the last reading; below 0: behind."""
        self._ledger_ahead_s = 0.0

    def __call__(self) -> float:
        return self._monotonic() + self._offset_s

    def read(self, wire: Wire) -> float:
        """Read the server's clock; return its time."""
        asked_at = self._monotonic()
        server_s = server_time(wire)
        answered_at = self._monotonic()
        if answered_at - asked_at <= _READING_S or not self._read_at:
            self._read_at = answered_at
            self._offset_s = server_s - answered_at
            self.ahead_s = self._local() - server_s
        return server_s

    def read_ledger(self, wire: Wire) -> None:
        """Ask a ledger's own server."""
        self._ledger_ahead_s = server_time(wire) - self()

    def on_ledger(self, at_s: float) -> float:
        """Convert a time of the queries' server to the clock of the ledger's server; 0 stays 0.

        >>> ServerClock().on_ledger(7.0)
        7.0
        """
        return at_s and at_s + self._ledger_ahead_s


def server_time(wire: Wire) -> float:
    seconds, micros = wire.one("TIME")
    return int(seconds) + int(micros) / 1e6
