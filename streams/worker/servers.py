"""The server of a partition: the one server, or a node of a Redis Cluster. Shell.

On a Redis Cluster each partition is at the node that has its slot.

The fence of a partition, its state, is in the partition's slot. So a write is compared and made at one node, whichever
has the slot by then. A write that meets a failover or a move of the slot fails as a whole, and the app makes it again:

    MOVED                  the slot is another node's: done once more there, at once
    ASK, TRYAGAIN          the slot is being moved: nothing is written until it has been
    away, CLUSTERDOWN      the node is not asked for a second; the others are, where each partition is now

A node that is promoted may lack the last writes. Its state is then older than the owner's last write, or a former
owner's; both are a prefix of the log, folded. The owner finds another write than its own at its next flush, or within
half a second, and writes all again. Readers refuse windows of an earlier offset meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import redis
from redis.exceptions import ClusterDownError, MovedError, RedisError

from schemas.process.redis_cluster import PROBE_S, Address, Nodes, NoNode, Topology, shown

_Done = TypeVar("_Done")
Work = Callable[[Any], Awaitable[_Done]]
"""A function of a ``redis.asyncio.Redis``, whose stubs mix sync and async."""


class Servers:
    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def at(self, key: str, work: Work[_Done]) -> _Done:
        """Run ``work`` on the server of this key and return its result; raises redis.RedisError."""
        return await work(self._redis)

    async def each(self, work: Work[_Done]) -> list[_Done]:
        """Run ``work`` on each server and return the results; raises redis.RedisError."""
        return [await work(self._redis)]

    async def aclose(self) -> None:
        await self._redis.aclose()


class ClusterServers(Servers):
    """The nodes; ``connect`` returns a ``redis.asyncio.Redis`` for the URL of one."""

    def __init__(self, nodes: Nodes, connect: Callable[[str], Any]) -> None:
        self._nodes, self._connect = nodes, connect
        self._topology = Topology(nodes)
        self._clients: dict[Address, Any] = {}
        self._looking = asyncio.Lock()

    async def at(self, key: str, work: Work[_Done]) -> _Done:
        await self._look()
        try:
            address = self._topology.at(key)
        except NoNode as error:
            raise redis.ConnectionError(str(error)) from None
        try:
            return await self._do(address, work)
        except MovedError as error:
            return await self._do(self._topology.moved(error.slot_id, error.host, error.port, address), work)

    async def each(self, work: Work[_Done]) -> list[_Done]:
        await self._look()
        return [await self._do(address, work) for address in self._topology.primaries]

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def _do(self, address: Address, work: Work[_Done]) -> _Done:
        topology, client = self._topology, self._client(address)
        if not topology.may_try(address, time.monotonic()):
            raise redis.ConnectionError(f"{shown(address)} is away")
        try:
            if topology.is_away(address):
                topology.failed(address, time.monotonic())  # the other partitions do not wait for this try
                await _within(PROBE_S, client.ping())
            done = await work(client)
        except (redis.ConnectionError, redis.TimeoutError, ClusterDownError):
            topology.failed(address, time.monotonic())
            raise
        topology.answered(address)
        return done

    def _client(self, address: Address) -> Any:
        if address not in self._clients:
            self._clients[address] = self._connect(self._nodes.url(address))
        return self._clients[address]

    async def _look(self) -> None:
        """Read the slot map, if that is due; raises redis.RedisError while it was never read."""
        if not self._topology.due(time.monotonic()):
            return
        async with self._looking:
            if not self._topology.due(time.monotonic()):
                return
            problem: RedisError = redis.ConnectionError("no node of the cluster returns the slot map")
            for host in self._topology.hosts():
                try:
                    answer = await _within(PROBE_S, self._client(host).execute_command("CLUSTER", "SLOTS"))
                except RedisError as error:
                    problem = error
                    continue
                if answer:
                    self._topology.learn(answer, host, time.monotonic())
                    return
            self._topology.missed(time.monotonic())
            if not self._topology.primaries:
                raise problem


async def _within(timeout_s: float, answer: Any) -> Any:
    """Return an answer; raises redis.TimeoutError when it takes longer."""
    try:
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError:
        raise redis.TimeoutError(f"no answer within {timeout_s:g} s") from None
