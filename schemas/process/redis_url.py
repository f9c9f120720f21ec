"""The URLs of a Redis server, and of one behind sentinels; redis-py knows the first kind only.

    redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME/DATABASE[?OPTION=VALUE]

User, password, database and options are those of the server. Its sentinels have a user and a password of their own.
``rediss+sentinel://`` is TLS to both.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from schemas.values.secret_file import rereading

SENTINEL_S = 0.5
"""The timeout for one sentinel, after which the next is tried."""
SENTINEL_PORT = 26379
_CLIENT = re.compile(r"<redis\.\S*client\.Redis\(.*?\bhost=([^,)]+),port=(\d+).*?\)>\)>\)>")
"""The text by which redis-py shows a sentinel, with all its arguments."""


class Sentinels(NamedTuple):
    hosts: Sequence[tuple[str, int]]
    name: str
    """The name under which they watch the server."""
    server: str
    """The URL of the server as redis-py reads it, with ``localhost`` in place of the host."""


def sentinels_in(url: str) -> Sentinels | None:
    """Return the parts of a URL with sentinels; None for a URL of one server. Raises ValueError.

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
    """Return ``kind.from_url(url, **arguments)`` of redis-py, sync or asyncio; the URL may name sentinels.

    Each connection asks them where the server is now; one is dropped when its server is no longer the primary. User and
    password of the sentinels may also be options of the URL. A password of a file is read again for each connection.
    Raises ValueError for a URL that cannot be read.
    """
    found = sentinels_in(url)
    if found is None:
        return rereading(kind.from_url(url, **arguments))
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
    for one in sentinels.sentinels:
        rereading(one)
    return rereading(sentinels.master_for(found.name, redis_class=kind, **given))


def in_words(error: Exception) -> str:
    """Return an error of redis-py as text for people; a sentinel appears as host and port."""
    return _CLIENT.sub(r"\1:\2", str(error))
