"""URLs of a server behind sentinels, and what is connected to for them; no server is asked."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio

from schemas.process.redis_url import connected, in_words, sentinels_in
from tests.rows import each_row

FORMS = [
    ("redis+sentinel://a:1/main", [("a", 1)], "main", "redis://localhost/"),
    ("redis+sentinel://a,b:2,c/main/3", [("a", 26379), ("b", 2), ("c", 26379)], "main", "redis://localhost/3"),
    ("rediss+sentinel://u@a/my%2Fmain/0", [("a", 26379)], "my/main", "rediss://u@localhost/0"),
    ("redis+sentinel://[::1]:1,[::2]/m/0", [("::1", 1), ("::2", 26379)], "m", "redis://localhost/0"),
    ("redis+sentinel://u:p%40w@a,b/m/1?protocol=3", [("a", 26379), ("b", 26379)], "m",
     "redis://u:p%40w@localhost/1?protocol=3"),
]  # fmt: skip
WRONG = [
    "redis+sentinel://", "redis+sentinel://a", "redis+sentinel://a:1/", "redis+sentinel://a:1//0",
    "redis+sentinel:///main", "redis+sentinel://a,,b/main", "redis+sentinel://a:x/main", "redis+sentinel://[::1/main",
    "redis+sentinel://a?b=1/main", "redis+sentinel://a#b/main", "unix+sentinel://a/main", "redis+sentinel://a:0x1/m",
    "redis+sentinel://a/m#b",
]  # fmt: skip


@pytest.mark.parametrize(("url", "hosts", "name", "server"), FORMS)
def test_what_a_url_says_of_sentinels(url: str, hosts: list[tuple[str, int]], name: str, server: str) -> None:
    """Each sentinel with its port, the name, and what is the server's own."""
    assert sentinels_in(url) == (hosts, name, server)


@each_row("url", WRONG)
def test_a_url_that_names_no_sentinels_is_refused(url: str) -> None:
    """A part is missing or cannot be read."""
    with pytest.raises(ValueError):
        sentinels_in(url)


@pytest.mark.parametrize("url", ["redis://a:1/2", "rediss://a", "unix:///run/s"])
def test_one_server_is_that_of_redis_py(url: str) -> None:
    """Nothing is added."""
    mine, theirs = connected(redis.Redis, url, username="u"), redis.Redis.from_url(url, username="u")
    assert mine.connection_pool.connection_class is theirs.connection_pool.connection_class
    assert mine.connection_pool.connection_kwargs["username"] == "u"
    assert type(mine.connection_pool) is type(theirs.connection_pool)


@each_row("kind", [redis.Redis, redis.asyncio.Redis])
@each_row("tls", [False, True])
@each_row("in_url", [False, True])
def test_each_end_has_its_own_user(kind: Any, tls: bool, in_url: bool) -> None:
    """The server's and the sentinels', in the URL or beside it; TLS goes to both."""
    more: dict[str, Any] = {"ssl_ca_certs": "ca.pem"} if tls else {}
    theirs = {"sentinel_username": "su", "sentinel_password": "sp"}
    options = "?sentinel_username=su&sentinel_password=sp" if in_url else ""
    scheme = "rediss" if tls else "redis"
    url = f"{scheme}+sentinel://u:p@a:1,b/main/2{options}"
    found = connected(kind, url, socket_timeout=7.0, **more, **({} if in_url else theirs))
    pool = found.connection_pool
    assert pool.service_name == "main"
    server = pool.connection_kwargs
    assert (server["username"], server["password"], server["db"], server["socket_timeout"]) == ("u", "p", 2, 7.0)
    assert issubclass(pool.connection_class, redis.asyncio.SSLConnection | redis.SSLConnection) == tls
    assert type(found) is kind
    for sentinel, address in zip(pool.sentinel_manager.sentinels, [("a", 1), ("b", 26379)], strict=True):
        of = sentinel.connection_pool.connection_kwargs
        assert (of["host"], of["port"]) == address
        assert (of["username"], of["password"], of["socket_timeout"]) == ("su", "sp", 0.5)
        assert of.get("db", 0) == 0
        assert (
            issubclass(sentinel.connection_pool.connection_class, redis.asyncio.SSLConnection | redis.SSLConnection)
            == tls
        )
        assert of.get("ssl_ca_certs") == ("ca.pem" if tls else None)


def test_an_error_names_each_sentinel_shortly() -> None:
    """By host and port; redis-py shows all arguments of its connections."""
    with (
        connected(redis.Redis, "redis+sentinel://127.0.0.1:1,localhost:2/m") as server,
        pytest.raises(redis.ConnectionError) as error,
    ):
        server.ping()
    said = in_words(error.value)
    assert said.startswith("No master found for 'm' : 127.0.0.1:1 - ")
    assert ", localhost:2 - " in said
    assert len(said) < 120


def test_sentinels_have_no_password_of_the_server() -> None:
    """Without one of their own they are asked without."""
    pool = connected(redis.Redis, "redis+sentinel://u:p@a/main").connection_pool
    assert pool.sentinel_manager.sentinels[0].connection_pool.connection_kwargs["password"] is None
