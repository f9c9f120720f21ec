"""What a partition leaves in Redis, and for how long, against a real Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis
from redis.asyncio import Redis

from schemas.names import Names
from schemas.process.version import product_version
from schemas.sample import MachineFacts, encode
from schemas.worker import read_worker
from streams.leaving import drop_silent
from streams.partition import Arrived, Partition
from streams.peaks import Zone
from streams.store import StateAheadError, Store
from streams.table import Table
from tests.conftest import Valkey
from tests.streams.batches import START, sample

pytestmark = pytest.mark.integration


def table() -> Table:
    """A table of the default windows."""
    return Table((300, 900, 3600), Zone())


def partition() -> Partition:
    """A partition of a topic nobody has read yet."""
    state = Partition(0, table())
    state.topic_id = "t1"
    return state


def take(state: Partition, *values: bytes, recorded_at: float) -> None:
    """Fold messages as the next of the log."""
    first = state.next_offset
    state.take([Arrived(first + n, value, recorded_at, b"m") for n, value in enumerate(values)])
    state.fold_pending()


def facts(machine: str, at: float) -> bytes:
    """A machine's facts."""
    return encode(MachineFacts(v=1, machine=machine, boot=1, at=at, capacity={"cpu": 4.0}))


def with_store(valkey: Valkey, names: Names, work: Callable[[Store], Awaitable[None]]) -> None:
    """Run ``work`` on a store of this test."""

    async def run() -> None:
        async with Redis.from_url(valkey.url) as client:
            await work(Store(client, names))

    asyncio.run(run())


def test_an_hour_stays_as_long_as_a_peak_may_ask_for_it(valkey: Valkey, names: Names, server: redis.Redis) -> None:
    """A worker that starts at the end of a day still knows how the day before began: 48 hours back."""
    state = partition()

    async def work(store: Store) -> None:
        take(state, *(encode(sample("a", slot)) for slot in range(0, 2000, 3)), recorded_at=START + 20_003)
        await store.save(state, START)

    with_store(valkey, names, work)
    lifetimes = [server.ttl(names.peaks(0, place)) for place in range(50)]
    assert min(lifetimes) > 49 * 3600


def test_facts_of_machines_that_went_leave_redis_whatever_goes_wrong(
    valkey: Valkey, names: Names, server: redis.Redis
) -> None:
    """Also when the write that was to remove them failed, and when an older dump brings them back."""
    state, later = partition(), START + 90_000.0

    async def work(store: Store) -> None:
        take(state, facts("old", START), facts("new", later - 5), encode(sample("new", 8_999)), recorded_at=later)
        await store.save(state, later)
        dump = server.dump(names.facts(0))
        assert set(server.hkeys(names.facts(0))) == {b"old", b"new"}
        drop_silent(state, later, 86_400)

        server.hset(names.state(0), mapping={"topic_id": "t1", "offset": 99})
        with pytest.raises(StateAheadError):
            await store.save(state, later)
        server.hset(names.state(0), mapping={"topic_id": "t1", "offset": 3})
        await store.save(state, later)
        assert server.hkeys(names.facts(0)) == [b"new"]

        server.restore(names.facts(0), 0, dump, replace=True)
        server.hset(names.state(0), mapping={"topic_id": "t1", "offset": 1})
        take(state, encode(sample("new", 9_000)), recorded_at=later)
        await store.save(state, later)
        assert server.hkeys(names.facts(0)) == [b"new"]
        loaded = await store.load(0, table)
        assert loaded.facts == state.facts
        assert not loaded.unwritten

    with_store(valkey, names, work)


@pytest.mark.parametrize("written_since", [False, True])
def test_a_manifest_of_an_earlier_write_says_nothing(
    valkey: Valkey, names: Names, server: redis.Redis, written_since: bool
) -> None:
    """A release before it writes offset and time alone: such a state is unverified, a slot that is gone just blank."""
    state = partition()

    async def work(store: Store) -> None:
        take(state, *(encode(sample("m", slot)) for slot in range(30)), recorded_at=START + 400)
        await store.save(state, START + 400.25)
        assert not (await store.load(0, table)).lost
        server.delete(names.slots(0, START // 10 % 360))
        if written_since:
            server.hset(names.state(0), "written_at", START + 500.5)
        loaded = await store.load(0, table)
        assert loaded.lost == ({} if written_since else {"slots": 1})
        assert loaded.next_offset == (30 if written_since else 0)
        assert (loaded.ring.n[0, 0] > 0).sum() == 29

    with_store(valkey, names, work)


def test_values_that_left_redis_are_written_again(valkey: Valkey, names: Names, server: redis.Redis) -> None:
    """Exactly those, by the next write."""
    state = partition()

    async def work(store: Store) -> None:
        take(state, encode(sample("m", 0)), facts("m", START), recorded_at=START + 5)
        await store.save(state, START)
        assert await store.mend_lost(state) == 0
        slot = names.slots(0, START // 10 % 360)
        server.delete(slot, names.facts(0), names.windows(0))
        assert await store.mend_lost(state) == 3
        assert int(state.positions.sum()) == 1
        await store.save(state, START)
        assert server.exists(slot, names.facts(0), names.windows(0)) == 3
        assert not (await store.load(0, table)).lost

    with_store(valkey, names, work)


def test_a_name_of_two_hosts_is_told_beside_the_state(valkey: Valkey, names: Names, server: redis.Redis) -> None:
    """With the worker's version, as of the write of the state; a quarter of an hour after the last refusal no more."""
    state = partition()
    values = [encode(sample("m", slot, host_id=host)) for slot, host in ((0, "a"), (1, "b"))]

    async def work(store: Store) -> None:
        take(state, *values, recorded_at=START + 15)
        await store.save(state, START + 20)

    with_store(valkey, names, work)
    worker = read_worker(*server.hmget(names.state(0), "worker", "written_at"))
    assert worker is not None
    assert (worker.version, set(worker.name_taken)) == (product_version(), {"m"})

    async def later(store: Store) -> None:
        state.changed = True
        await store.save(state, START + 1000)

    with_store(valkey, names, later)
    worker = read_worker(*server.hmget(names.state(0), "worker", "written_at"))
    assert worker is not None
    assert worker.name_taken == {}
