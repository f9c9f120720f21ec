"""A server that closes idle connections (`timeout`): the next use of one meets no error, in every process."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from ops.exporter.settings import ExporterSettings
from ops.exporter.state import Reader
from ops.stack.servers.process import free_port, wait_until
from schemas.names import Names
from schemas.process.presence import Presence
from schemas.process.redis_url import connected
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.wire import Wire
from streams.__main__ import _OPTIONS
from tests.conftest import start_valkey
from tests.window_tables import publish, window_table

NAMES = Names("idle")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that closes what is idle for a second, with the windows of one machine."""
    port = free_port()
    process = start_valkey(port, tmp_path_factory.mktemp("idle"), "--timeout", "1")
    wire = Wire({"url": f"redis://127.0.0.1:{port}"})
    publish(wire, NAMES, [window_table(["m1"], at=time.time())])
    wire.close()
    yield f"redis://127.0.0.1:{port}"
    process.terminate()
    process.wait()


def when_closed(url: str) -> None:
    """Wait until the server has closed all connections but the one that looks."""
    with redis.Redis.from_url(url) as looking:
        wait_until(lambda: len(looking.client_list()) == 1, 20, "idle connections")


def of_wire(url: str, _: Path) -> Callable[[], Any]:
    """Reads and writes of most processes."""
    wire = Wire({"url": url})
    return lambda: (wire.one("SET", "a", "1"), wire.ask([("GET", "a"), ("GET", "b")]))


def of_held_commands(url: str, _: Path) -> Callable[[], Any]:
    """A wire that holds a command back until the next."""
    wire = Wire({"url": url})

    def use() -> Any:
        found = wire.ask([("PING",)])
        wire.post([("SET", "posted", "1")])
        return found, wire.one("GET", "posted")

    return use


def of_the_exporter(url: str, _: Path) -> Callable[[], Any]:
    """A page's state: windows, ledger, memory."""
    reader, profile = Reader(ExporterSettings(redis_url=url, prefix="idle")), load_profiles().choose("")
    return lambda: list(reader.read(profile, time.time()).snapshot.names)


def of_a_heartbeat(url: str, _: Path) -> Callable[[], Any]:
    """What each process says of itself."""
    presence = Presence("stream", NAMES, {"url": url}, ready=lambda: (True, {}), page="")
    return presence.beat


USERS = {"wire": of_wire, "posted": of_held_commands, "exporter": of_the_exporter, "heartbeat": of_a_heartbeat}


def test_the_next_use_answers_as_before(url: str, tmp_path: Path) -> None:
    """Of the exporter, of a heartbeat, and of whoever uses a wire: reads and writes."""
    users = {name: make(url, tmp_path) for name, make in USERS.items()}
    before = {name: use() for name, use in users.items()}
    for _ in range(2):
        when_closed(url)
        assert {name: use() for name, use in users.items()} == before


def test_a_worker_flushes_without_an_error(url: str) -> None:
    """Its client: a read, a write, and a transaction that watches; also while the loop does not run."""

    async def flush(server: Any, number: int) -> Any:
        async with server.pipeline(transaction=True) as pipe:
            await pipe.watch("state")
            was = await pipe.get("state")
            pipe.multi()
            pipe.set("state", number)
            await pipe.execute()
        return was

    async def run() -> list[Any]:
        server = connected(redis.asyncio.Redis, url, **_OPTIONS)
        found = []
        for number in range(2):
            found.append((await flush(server, number), await server.get("state")))
            when_closed(url)  # the loop stands still meanwhile, as while a batch is folded
            found.append(await server.get("state"))
            await asyncio.to_thread(when_closed, url)
        await server.aclose()
        return found

    assert asyncio.run(run()) == [(None, b"0"), b"0", (b"0", b"1"), b"1"]
