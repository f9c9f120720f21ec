"""Shell: one connection, many commands in one write, their answers in order.

The scorer puts the answer to one query, the taking of the next and the read of the ledger's log into a single write, so
that a decision costs one round trip; redis-py's pipeline does the same at three times the price a command (its retries,
callbacks and response checks), and would retry what must not be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

Command = tuple[str | bytes | int | float, ...]

ANSWER_S = 5.0
"""How long a server may be silent beyond a blocking command's own time."""

AWAY = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError, OSError)
"""The server cannot be reached, or not yet: wait and try again."""


class Wire:
    """A connection that opens when it is first used and closes on the first failure."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._client = redis.Redis.from_url(
            **arguments,
            protocol=2,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=2.0,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            single_connection_client=False,
        )
        self._connection: Any = None

    def ask(self, commands: Sequence[Command], block_s: float = 0.0) -> list[Any]:
        """Send the commands together; return their answers, an error as a ``redis.ResponseError`` in its place.

        Raises one of `AWAY` when the connection fails; then nobody knows which commands were done.
        """
        connection = self._connection
        if connection is None:
            connection = self._connection = self._client.connection_pool.get_connection()
        answers: list[Any] = []
        try:
            connection.send_packed_command([b"".join(connection.pack_commands(commands))], check_health=False)
            for _ in commands:
                try:
                    answers.append(connection.read_response(timeout=block_s + ANSWER_S))
                except redis.BusyLoadingError:
                    raise
                except redis.ResponseError as error:
                    answers.append(error)
        except BaseException:
            self.close()
            raise
        return answers

    def one(self, *command: str | bytes | float) -> Any:
        """Send one command; return its answer, raise its error."""
        (answer,) = self.ask([command])
        if isinstance(answer, redis.ResponseError):
            raise answer
        return answer

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        if self._connection is not None:
            self._connection.disconnect()
            self._client.connection_pool.release(self._connection)
            self._connection = None
