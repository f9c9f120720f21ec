"""The running fleet as a process beside the scorer reads it: windows and ledger together, anew after a failure."""

import asyncio
import time

import pytest
import redis
import redis.asyncio

from ops.exporter.settings import ExporterSettings
from ops.exporter.state import Reader
from ops.stack.servers.process import free_port, wait_until
from schemas.names import Names
from schemas.process.presence import Presence
from schemas.process.redis_url import connected
from schemas.rpc.request import Request
from scorer.ledger.record.transition import FORMAT, UnknownFormat
from scorer.ledger.store.scripts import Candidate, Ledger, Wanted
from scorer.ledger.view.view import instance_of
from scorer.live.live_fleet import LiveFleet
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.settings import LedgerSettings
from scorer.wire import Wire
from streams.__main__ import _OPTIONS
from tests.conftest import start_valkey
from tests.window_tables import publish, window_table


@pytest.fixture
def fleet(valkey, names):
    """Return the fleet of a server, over connections of its own."""
    found = LiveFleet.open(LedgerSettings(redis_url=valkey.url, prefix=names.prefix))
    yield found
    found.close()


def reserve(wire, names, instance, machine):
    record = instance_of(Request(id=instance, cpu=1.0), "", time.time())
    Ledger(wire, names).reserve([Wanted(record, 300.0, [Candidate(machine, -1)])])


def test_windows_and_ledger_are_read_together(wire, names, fleet):
    """Empty at first; then as of now, with a row for a machine that the ledger alone knows; unchanged ones are kept."""
    empty = fleet.read(now_s=5.0)
    assert (len(empty.snapshot), len(empty.ledger), empty.now_s) == (0, 0, 5.0)
    publish(wire, names, [window_table(["m1"], at=time.time())])
    reserve(wire, names, "a", "m2")
    seen = fleet.read()
    assert [*seen.snapshot.names] == ["m1", "m2"]
    assert [*seen.ledger.instances] == ["a"]
    assert abs(seen.now_s - time.time()) < 60
    assert fleet.read().snapshot is seen.snapshot


@pytest.mark.parametrize("part", ["ledger", "windows"])
def test_after_a_failure_the_ledger_is_read_anew(wire, names, fleet, monkeypatch, part):
    """Its server may have come back with another ledger of as many changes."""
    reserve(wire, names, "a", "m1")
    fleet.read()
    loads = fleet._follower.reloads
    fleet.read()
    assert fleet._follower.reloads == loads
    broken = fleet.ledger.wire if part == "ledger" else fleet.windows

    def away(*_, **__):
        raise redis.ConnectionError("away")

    with monkeypatch.context() as patch, pytest.raises(redis.ConnectionError):
        patch.setattr(broken, "ask", away)
        fleet.read()
    assert [*fleet.read().ledger.instances] == ["a"]
    assert fleet._follower.reloads == loads + 1


def test_a_ledger_of_a_newer_format_is_not_read(wire, names, fleet):
    reserve(wire, names, "a", "m1")
    head = Ledger(wire, names).head
    for seen in (False, True):
        if seen:
            fleet.read()
        wire.one("HSET", head, "format", FORMAT + 1)
        with pytest.raises(UnknownFormat):
            fleet.read()
        wire.one("HSET", head, "format", FORMAT)
        assert [*fleet.read().ledger.instances] == ["a"]


NAMES = Names("idle")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server that closes what is idle for a second, with the windows of one machine."""
    port = free_port()
    process = start_valkey(port, tmp_path_factory.mktemp("idle"), "--timeout", "1")
    publish(f"redis://127.0.0.1:{port}", NAMES, [window_table(["m1"], at=time.time())])
    yield f"redis://127.0.0.1:{port}"
    process.terminate()
    process.wait()


def when_closed(url):
    """Wait until the server has closed all connections but the one that looks."""
    with redis.Redis.from_url(url) as looking:
        wait_until(lambda: len(looking.client_list()) == 1, 20, "idle connections")


def of_wire(url, _):
    wire = Wire({"url": url})
    return lambda: (wire.one("SET", "a", "1"), wire.ask([("GET", "a"), ("GET", "b")]))


def of_held_commands(url, _):
    """A wire that holds a command back until the next."""
    wire = Wire({"url": url})

    def use():
        found = wire.ask([("PING",)])
        wire.post([("SET", "posted", "1")])
        return found, wire.one("GET", "posted")

    return use


def of_posted_commands(url, _):
    """A wire whose last commands were posted, or are held: their answers are read, or they are sent, later."""
    wire = Wire({"url": url})
    wire.one("SET", "posted last", "0")

    def use():
        found = wire.one("GET", "posted last"), [str(one) for one in wire.refused]
        wire.refused.clear()
        wire.post([("LPUSH", "posted last", "1")])
        wire.hold([("SET", "posted last", "1")])
        return found

    use()
    when_closed(url)
    return use


def of_the_exporter(url, _):
    """A page's state: windows, ledger, memory."""
    reader, profile = Reader(ExporterSettings(redis_url=url, prefix="idle")), load_profiles().choose("")
    return lambda: list(reader.read(profile, time.time()).snapshot.names)


def of_a_heartbeat(url, _):
    presence = Presence("stream", NAMES, {"url": url}, ready=lambda: (True, {}), page="")
    return presence.beat


USERS = {
    "wire": of_wire,
    "held": of_held_commands,
    "posted": of_posted_commands,
    "exporter": of_the_exporter,
    "heartbeat": of_a_heartbeat,
}


def test_the_next_use_answers_as_before(url, tmp_path):
    """Of the exporter, of a heartbeat, and of whoever uses a wire: reads and writes."""
    users = {name: make(url, tmp_path) for name, make in USERS.items()}
    before = {name: use() for name, use in users.items()}
    for _ in range(2):
        when_closed(url)
        assert {name: use() for name, use in users.items()} == before


def test_a_worker_flushes_without_an_error(url):
    """Its client: a read, a write, and a transaction that watches; also while the loop does not run."""

    async def flush(server, number):
        async with server.pipeline(transaction=True) as pipe:
            await pipe.watch("state")
            was = await pipe.get("state")
            pipe.multi()
            pipe.set("state", number)
            await pipe.execute()
        return was

    async def run():
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
