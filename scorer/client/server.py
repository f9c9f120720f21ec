"""A server by redis-py: its arguments, its errors, its name in messages. redis-py is imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from schemas.process.redis_url import connected, in_words, sentinels_in
from schemas.values.secret_file import SecretFile
from scorer.client.call import Away, NotNow, WindwardError, refusal

if TYPE_CHECKING:  # commands do without redis-py, whose import takes longer than the rest of a command
    import redis

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


def failure_of(error: redis.RedisError) -> Exception:
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


def redis_of(kind: Any, url: str, arguments: Mapping[str, Any]) -> Any:
    """Return redis-py's client; raises WindwardError for a URL that it cannot read."""
    try:
        return connected(kind, url, **arguments)
    except ValueError:
        raise WindwardError("INVALID_ARGUMENT", "url: not a URL that can be parsed") from None
