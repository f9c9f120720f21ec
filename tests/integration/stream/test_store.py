"""What a partition leaves in Redis, and for how long, against a real Valkey."""

import asyncio

import numpy as np
import pytest
import redis
from redis.asyncio import Redis

from schemas.messages.process import read_worker
from schemas.messages.sample import InstanceMeans, InstanceReport, MachineFacts, encode
from schemas.process.version import product_version
from schemas.tables.instance_table import COLUMNS
from schemas.tables.window_table import decode_table
from scorer.live.windows_reader import WindowsReader, asking, read_windows
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import BASE_S, Partition, drop_silent
from streams.worker.store import StateAheadError, Store
from tests.streams.batches import START, sample


def table():
    return Table((300, 900, 3600), Zone())


def partition():
    """A partition of a topic nobody has read yet."""
    state = Partition(0, table())
    state.topic_id = "t1"
    return state


def take(state, *values, recorded_at):
    first = state.next_offset
    state.take([Arrived(first + n, value, recorded_at, b"m") for n, value in enumerate(values)])
    state.fold_pending()


def facts(machine, at):
    return encode(MachineFacts(v=1, machine=machine, boot=1, at=at, capacity={"cpu": 4.0}))


class InTurn:
    """A store of which a call runs the coroutine to its end."""

    def __init__(self, store, runner):
        self._store, self._runner = store, runner

    def __getattr__(self, name):
        return lambda *given: self._runner.run(getattr(self._store, name)(*given))


@pytest.fixture
def store(request, valkey, names):
    """The store of a worker; a test may have options of its connection and of itself."""
    connection, options = getattr(request, "param", ({}, {}))
    with asyncio.Runner() as runner:
        client = Redis.from_url(valkey.url, **connection)
        yield InTurn(Store(client, names, **options), runner)
        runner.run(client.aclose())


@pytest.mark.parametrize("store", [({"socket_timeout": 0.2}, {})], indirect=True)
def test_a_server_that_is_too_slow_is_no_other_worker(store, server):
    """A write that is not answered in time is tried again, as one that another worker was faster with is not."""
    state = partition()
    take(state, encode(sample("a", 1)), recorded_at=START + 20)
    server.execute_command("CLIENT", "PAUSE", "60000", "WRITE")
    try:
        with pytest.raises(redis.TimeoutError):
            store.save(state, START)
    finally:
        server.execute_command("CLIENT", "UNPAUSE")
    store.save(state, START)
    assert not state.unwritten


def test_an_hour_stays_as_long_as_a_peak_may_ask_for_it(store, names, server):
    """A worker that starts at the end of a day still knows how the day before began: 48 hours back."""
    state = partition()
    take(state, *(encode(sample("a", slot)) for slot in range(0, 2000, 3)), recorded_at=START + 20_003)
    store.save(state, START)
    lifetimes = [server.ttl(names.peaks(0, place)) for place in range(50)]
    assert min(lifetimes) > 49 * 3600


def test_facts_of_machines_that_went_leave_redis_whatever_goes_wrong(store, names, server):
    """Also when the write that was to remove them failed, and when an older dump brings them back."""
    state, later = partition(), START + 90_000.0
    take(state, facts("old", START), facts("new", later - 5), encode(sample("new", 8_999)), recorded_at=later)
    store.save(state, later)
    dump = server.dump(names.facts(0))
    assert set(server.hkeys(names.facts(0))) == {b"old", b"new"}
    drop_silent(state, later, 86_400)

    server.hset(names.state(0), mapping={"topic_id": "t1", "offset": 99})
    with pytest.raises(StateAheadError):
        store.save(state, later)
    server.hset(names.state(0), mapping={"topic_id": "t1", "offset": 3})
    store.save(state, later)
    assert server.hkeys(names.facts(0)) == [b"new"]

    server.restore(names.facts(0), 0, dump, replace=True)
    server.hset(names.state(0), mapping={"topic_id": "t1", "offset": 1})
    take(state, encode(sample("new", 9_000)), recorded_at=later)
    store.save(state, later)
    assert server.hkeys(names.facts(0)) == [b"new"]
    loaded = store.load(0, table)
    assert loaded.facts == state.facts
    assert not loaded.unwritten


def test_values_that_left_redis_are_written_again(store, names, server):
    state = partition()
    take(state, encode(sample("m", 0)), facts("m", START), recorded_at=START + 5)
    store.save(state, START)
    assert store.mend_lost(state) == 0
    slot = names.slots(0, START // 10 % 360)
    server.delete(slot, names.facts(0), names.windows(0), names.window_changes(0))
    assert store.mend_lost(state) == 4
    assert int(state.positions.sum()) == 1
    store.save(state, START)
    assert server.exists(slot, names.facts(0), names.windows(0), names.window_changes(0)) == 4
    assert not store.load(0, table).lost


def test_a_name_of_two_hosts_is_told_beside_the_state(store, names, server):
    """With the worker's version; a quarter of an hour after the last refusal no more."""
    state = partition()
    values = [encode(sample("m", slot, host_id=host)) for slot, host in ((0, "a"), (1, "b"))]
    take(state, *values, recorded_at=START + 15)
    store.save(state, START + 20)
    worker = read_worker(server.hget(names.state(0), "worker"))
    assert (worker.version, set(worker.name_taken)) == (product_version(), {"m"})
    state.changed = True
    store.save(state, START + 1000)
    worker = read_worker(server.hget(names.state(0), "worker"))
    assert worker.name_taken == {}


def reported(slot, cores):
    report = InstanceReport(at=START + slot * 10, interval_s=60.0, entries={"a": InstanceMeans(cpu=cores)})
    return encode(sample("m", slot, instance_report=report))


LOG = [reported(slot, float(slot)) for slot in range(0, 60, 6)]


def usage_of(state):
    return repr(
        [state.usage.names, *(getattr(state.usage, name)[..., : len(state.usage)].tolist() for name in COLUMNS)]
    )


def whole():
    """A worker that read the whole log without a break."""
    state = partition()
    take(state, *LOG, recorded_at=START + 700)
    return state


@pytest.mark.parametrize("store", [({}, {"instances_flush_s": 15.0})], indirect=True)
def test_usage_by_instance_has_a_pace_of_its_own_and_says_how_far_it_goes(store, names, server):
    """A worker that is killed between two writes of it reads on from the last; told to end, it writes it."""
    state = partition()
    take(state, *LOG[:3], recorded_at=START + 700)
    store.save(state, START)
    written = server.get(names.instance_usage(0))
    take(state, *LOG[3:7], recorded_at=START + 700)
    store.save(state, START + 14)
    assert server.get(names.instance_usage(0)) == written

    resumed = store.load(0, table)
    assert (resumed.next_offset, resumed.written, resumed.lost) == (3, state.written, {})
    take(resumed, *LOG[3:], recorded_at=START + 700)
    assert usage_of(resumed) == usage_of(whole())
    np.testing.assert_array_equal(resumed.ring.mean[0], whole().ring.mean[0])
    store.save(resumed, START + 15)
    assert store.load(0, table).next_offset == 10

    take(resumed, reported(66, 1.0), recorded_at=START + 700)
    resumed.finish()
    store.save(resumed, START + 16)
    last = store.load(0, table)
    assert (last.next_offset, usage_of(last)) == (11, usage_of(resumed))
    assert not last.unwritten


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_usage_by_instance_that_is_lost_is_made_again(store, names, server, damage):
    state = whole()
    store.save(state, START)
    if damage == "gone":
        server.delete(names.instance_usage(0))
    else:
        server.setrange(names.instance_usage(0), 1000, b"x")
    loaded = store.load(0, table)
    assert (loaded.lost, loaded.next_offset, len(loaded.usage)) == ({"usage": 1}, 0, 0)
    take(loaded, *LOG, recorded_at=START + 700)
    assert loaded.end_rebuild() == 0
    assert usage_of(loaded) == usage_of(state)
    store.save(loaded, START + 1)
    assert not store.load(0, table).lost


def test_usage_by_instance_costs_nothing_where_none_is_reported(store, names, server):
    """No key and no field; where all pairs went, they are gone again. A value that is no hash is no harm."""
    state = partition()
    take(state, encode(sample("m", 0)), recorded_at=START + 5)
    store.save(state, START)
    assert not server.exists(names.instance_usage(0))
    assert not server.hexists(names.state(0), "usage")
    take(state, *LOG, recorded_at=START + 700)
    store.save(state, START)
    assert store.mend_lost(state) == 0
    server.delete(names.instance_usage(0))
    assert store.mend_lost(state) == 1
    store.save(state, START)
    assert usage_of(store.load(0, table)) == usage_of(state)
    state.usage.drop_silent(START + 9_999)
    state.changed = True
    store.save(state, START)
    assert not server.exists(names.instance_usage(0))
    assert not server.hexists(names.state(0), "usage")
    assert not store.load(0, table).lost


def machines_at(slot, *names):
    return [encode(sample(name, slot)) for name in names]


def read(wire, names):
    """The base's number, and the newest sample of each machine."""
    reader = read_windows(wire, names, 1)
    assert not reader.problems
    ((number, windows),) = [(one.base.header.base, one.whole()) for one in reader.windows]
    return number, dict(zip(windows.machines, windows.columns["at"].tolist(), strict=True))


def test_a_write_has_only_what_changed_since_the_base(store, names, server, wire):
    """All of it each time, with machines that are new; state and base stay until the changes cost as much."""
    state = partition()
    kept = (names.windows(0), names.vitals(0), names.slots(0, START // 10 % 360))
    take(state, *machines_at(0, *(f"m{number:02d}" for number in range(40))), recorded_at=START + 5)
    store.save(state, START)
    base, (number, _) = [server.get(key) for key in kept], read(wire, names)
    for step, machine in enumerate(("m03", "m01", "new"), 1):
        take(state, *machines_at(step, machine), recorded_at=START + 100)
        store.save(state, START + step)
        assert [server.get(key) for key in kept] == base
    changes = decode_table(server.get(names.window_changes(0)))
    assert changes.machines == ["m01", "m03", "new"]
    assert changes.columns["row"].tolist() == [1, 3, 40]
    same, at = read(wire, names)
    assert (same, len(at), at["m03"] < at["m01"] < at["new"]) == (number, 41, True)
    for step in range(4, 30):
        take(state, *machines_at(step, *(f"m{one:02d}" for one in range(step))), recorded_at=START + 400)
        store.save(state, START + 4)
        if read(wire, names)[0] != number:
            break
    assert 4 < step < 29
    assert not decode_table(server.get(names.window_changes(0))).machines


def test_a_base_is_written_in_time_and_when_a_worker_ends(store, names, server):
    """After some seconds without a new sample, too; then nothing is due any more."""
    state = partition()
    take(state, *machines_at(0, "a", "b", "c"), recorded_at=START + 5)
    store.save(state, START)
    take(state, *machines_at(1, "a"), recorded_at=START + 15)
    store.save(state, START + 1)
    assert not state.write_due(START + 1 + BASE_S / 2)
    assert state.write_due(START + BASE_S)
    assert store.load(0, table).next_offset == 3
    store.save(state, START + BASE_S)
    assert not state.write_due(START + 100)
    assert store.load(0, table).next_offset == 4
    take(state, *machines_at(2, "a"), recorded_at=START + 25)
    store.save(state, START + BASE_S + 1)
    assert store.load(0, table).next_offset == 4
    state.finish()
    store.save(state, START + BASE_S + 1)
    assert store.load(0, table).next_offset == 5


def test_a_worker_resumes_from_the_base_and_writes_nothing_older(store, names, server, wire):
    """The log between base and changes is folded again, to the same state; a rebuild does not wait for it."""
    state = partition()
    log = [machines_at(step, "a", "b", "c") for step in range(6)]
    log[0] = machines_at(0, "a", "b", "c", *(f"idle-{number}" for number in range(30)))
    take(state, *log[0], recorded_at=START + 5)
    store.save(state, START)
    for step, messages in enumerate(log[1:], 1):
        take(state, *messages, recorded_at=START + 60)
        store.save(state, START + step / 10)
    resumed = store.load(0, table)
    assert (resumed.next_offset, resumed.resuming, resumed.unwritten) == (33, True, False)
    for messages in log[1:5]:
        take(resumed, *messages, recorded_at=START + 60)
    assert resumed.resuming
    take(resumed, *log[5], recorded_at=START + 60)
    assert not resumed.resuming
    assert store.is_current(resumed)
    before = read(wire, names)
    store.save(resumed, START + 2)
    assert read(wire, names)[1] == before[1]
    np.testing.assert_array_equal(resumed.ring.mean[:3], state.ring.mean[:3])
    server.delete(names.vitals(0))
    rebuilt = store.load(0, table)
    assert (rebuilt.next_offset, rebuilt.resuming) == (0, False)
    rebuilt.read_anew("t2")
    assert not rebuilt.resuming


def test_changes_are_not_written_to_another_workers_base(store, names, wire):
    """Two workers at the same offset: the second one's write is noticed by its number, and a base follows."""
    state = partition()
    take(state, *machines_at(0, "a", "b"), recorded_at=START + 5)
    store.save(state, START)
    other = store.load(0, table)
    other.changed = True
    store.save(other, START + 1)
    number, _ = read(wire, names)
    assert not store.is_current(state)
    take(state, *machines_at(1, "a"), recorded_at=START + 15)
    store.save(state, START + 2)
    again, at = read(wire, names)
    assert again > number
    assert at["a"] > at["b"]
    take(other, *machines_at(1, "a"), recorded_at=START + 15)
    other.changed = True
    store.save(other, START + 3)
    assert read(wire, names)[0] > again


@pytest.mark.parametrize("lost", ["base", "changes", "both"])
def test_windows_that_were_lost_are_written_by_the_next_write(store, names, server, wire, lost):
    """A new reader sees none of a base alone or of changes alone; one that had read them keeps what it had."""
    state = partition()
    keys = {"base": [names.windows(0)], "changes": [names.window_changes(0)]}
    take(state, *machines_at(0, "a", "b"), recorded_at=START + 5)
    store.save(state, START)
    take(state, *machines_at(1, "a"), recorded_at=START + 15)
    store.save(state, START + 1)
    reader = WindowsReader(asking(wire), names)
    assert reader.refresh(1)
    server.delete(*keys.get(lost, keys["base"] + keys["changes"]))
    assert reader.refresh(1) == (lost == "both")
    assert len(reader.windows) == (lost != "both")
    assert not read_windows(wire, names, 1).windows
    take(state, *machines_at(2, "b"), recorded_at=START + 25)
    found = store.save(state, START + 2)
    if lost != "changes":
        assert found == 1
        assert not read_windows(wire, names, 1).windows
        assert state.write_due(START + 2)
        assert store.save(state, START + 2) == 0
    assert reader.refresh(1)
    assert reader.windows[0].whole().columns["at"].tolist() == [START + 13, START + 23]
    assert read(wire, names)[1] == {"a": START + 13, "b": START + 23}
    assert store.mend_lost(state) == 0


def test_a_reader_never_mixes_two_bases(store, names, server, wire):
    """Changes and base of different writes, or garbage: it keeps what it had, and says what is wrong."""
    state = partition()
    take(state, *machines_at(0, "a", "b"), recorded_at=START + 5)
    store.save(state, START)
    first = server.get(names.windows(0))
    reader = WindowsReader(asking(wire), names)
    assert reader.refresh(1)
    state.base, state.changed = None, True
    store.save(state, START + 1)
    good = server.get(names.windows(0))
    for wrong in (first, b"garbage", good[:500]):
        server.set(names.windows(0), wrong)
        assert not reader.refresh(1)
        assert reader.problems
        assert len(reader.windows) == 1
        assert not read_windows(wire, names, 1).windows
    server.set(names.windows(0), good)
    assert reader.refresh(1)
    assert not reader.problems
