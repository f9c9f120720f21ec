"""The server of a partition: the one of all, or a node of a Redis Cluster. Shell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

_Done = TypeVar("_Done")
Work = Callable[[Any], Awaitable[_Done]]
"""What is done with a ``redis.asyncio.Redis``, whose stubs mix sync and async."""


class Servers(Protocol):
    """Where the partitions are."""

    async def at(self, key: str, work: Work[_Done]) -> _Done:
        """Return what ``work`` returns, done with the server that has this key; raises redis.RedisError."""

    async def each(self, work: Work[_Done]) -> list[_Done]:
        """Return what ``work`` returns, done with each server; raises redis.RedisError."""

    async def aclose(self) -> None:
        """Close the connections."""


class OneServer:
    """One server that has all partitions."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def at(self, _: str, work: Work[_Done]) -> _Done:
        """See `Servers.at`."""
        return await work(self._redis)

    async def each(self, work: Work[_Done]) -> list[_Done]:
        """See `Servers.each`."""
        return [await work(self._redis)]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
