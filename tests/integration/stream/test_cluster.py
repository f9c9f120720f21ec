"""Windows on a real Redis Cluster: a slot that is moved, a node that fails, and a worker that lost its partition."""

import asyncio
import contextlib
import signal
import threading
import time

import pytest
import redis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from schemas.process.redis_cluster import nodes_in
from scorer.cluster_wire import ClusterWire
from scorer.live.loader import Loader
from scorer.live.windows_reader import WindowsReader, asking, read_windows
from scorer.wire import AWAY, Wire
from streams.state.partition import Partition
from streams.worker.servers import ClusterServers
from streams.worker.store import StateAheadError, Store
from tests.integration.security.test_redis_users import HANDSHAKE, password, users_file
from tests.integration.stream.test_store import START, encode, sample, table, take
from tests.support.clusters import Cluster
from tests.support.pages import eventually
from tests.support.pipeline import Pipeline, make_samples

READERS = ("scorer", "exporter", "operator", "record", "planner")
ALL_KEYS = 10_000
"""More than a partition has."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Yield three nodes, of which each has a replica; each test leaves them whole."""
    with Cluster(tmp_path_factory.mktemp("cluster"), replicas=3) as found:
        yield found


@pytest.fixture
def wire(cluster):
    found = ClusterWire({"url": cluster.url})
    yield found
    found.close()


def with_stores(cluster, names, work):
    """Run ``work`` on the stores of two workers."""
    nodes = nodes_in(cluster.url)

    async def run():
        servers = [
            ClusterServers(nodes, lambda url: Redis.from_url(url, socket_timeout=3, retry=Retry(NoBackoff(), 0)))
            for _ in range(2)
        ]
        try:
            await work(*(Store(None, names, windows=each) for each in servers))
        finally:
            for each in servers:
                await each.aclose()

    asyncio.run(run())


def folded(*slots, number=0, of=None):
    """Return a partition, a new one unless given, with a sample of two machines in each of these slots."""
    state = of or Partition(number, table())
    state.topic_id = "t1"
    for slot in slots:
        take(state, *(encode(sample(name, slot)) for name in "ab"), recorded_at=START + 10 * slot + 5)
    return state


def seen(reader, number=0):
    """Return the times of the newest samples that a reader has."""
    return [float(at) for at in reader.by_partition[number].whole().columns["at"]]


async def repeated(work, wait_s=30.0):
    """Do what a worker does again until it can; return what that returned, and how often it could not."""
    failures, until = 0, time.monotonic() + wait_s
    while True:
        try:
            return await work(), failures
        except redis.RedisError:
            failures += 1
            assert time.monotonic() < until
            await asyncio.sleep(0.05)


def test_partitions_are_on_all_nodes_and_read_together(cluster, names, wire):
    """What is written at each node is read by one call; only what changed is read again."""

    async def work(store, other):
        states = [folded(1, number=number) for number in range(6)]
        await asyncio.gather(*(store.save(state, START + 20) for state in states))
        reader = WindowsReader(asking(wire, in_part=True), names)
        assert reader.refresh(6)
        assert [seen(reader, number) for number in range(6)] == [[START + 13] * 2] * 6
        assert {cluster.has(names.state(number)) for number in range(6)} == set(cluster.primaries)
        assert not reader.refresh(6)
        loaded = await other.load(3, table)
        assert not loaded.lost
        assert (loaded.written, loaded.base) == (states[3].written, None)

    with_stores(cluster, names, work)


@pytest.mark.parametrize("keys", [0, 1, 150, ALL_KEYS])
def test_a_slot_that_is_moved_under_the_fold(cluster, names, wire, keys):
    """However many keys are at the next node: nothing is written in part or read in part, and all is written after."""
    key = names.state(0)
    source = cluster.has(key)
    target = next(port for port in cluster.primaries if port != source)

    async def work(store, other):
        state = folded(*range(1, 5))
        await store.save(state, START + 50)
        reader = WindowsReader(asking(wire, in_part=True), names)
        assert reader.refresh(1)
        cluster.open_slot(key, target)
        if keys:
            cluster.move_keys(key, source, target, keys)
        folded(5, of=state)
        for now_s in (START + 60, START + 70):
            try:
                await store.save(state, now_s)  # it may be that all of its keys are there still
            except redis.RedisError:
                assert keys
            else:
                assert keys < ALL_KEYS
        reader.refresh(1)
        assert seen(reader) in ([START + 43] * 2, [START + 53] * 2)
        while cluster.move_keys(key, source, target):
            pass
        cluster.close_slot(key, source, target)
        assert await repeated(lambda: store.save(state, START + 80)) == (0, 0), "the new node is told by the old one"
        assert reader.refresh(1)
        assert not reader.problems
        assert seen(reader) == [START + 53] * 2
        loaded = await other.load(0, table)
        assert not loaded.lost
        assert loaded.written == state.written
        await other.save(folded(6, of=loaded), START + 90)
        with pytest.raises(StateAheadError):
            await store.save(folded(of=state), START + 91)

    with_stores(cluster, names, work)
    cluster.open_slot(key, source)
    while cluster.move_keys(key, target, source):
        pass
    cluster.close_slot(key, target, source)


def test_a_failover_that_lost_the_end(valkey, cluster, names, wire):
    """A former owner may write once more, what it folded; the owner writes all again, and no reader goes back."""
    old = cluster.has(names.state(1))
    replica = cluster.replica_of(old)
    queries = Wire({"url": valkey.url})
    queries.one("SET", names.partitions, 2)
    loader = Loader(queries, names, wire)

    def newest():
        loader.refresh()
        return seen(loader._reader, 1)[0]

    async def work(owner, former):
        zombie = folded(1, number=1)
        await former.save(zombie, START + 20)
        state = await owner.load(1, table)
        with cluster.node(old) as node:
            assert node.wait(1, 5_000) == 1
            cluster.signal(replica, signal.SIGSTOP)
            assert node.client_kill_filter(_type="replica") == 1  # nothing waits for it on its way
        await owner.save(folded(2, 3, of=state), START + 40)
        assert newest() == START + 33
        cluster.signal(old, signal.SIGKILL)
        cluster.signal(replica, signal.SIGCONT)
        eventually(lambda: cluster.is_primary(replica))
        folded(2, of=zombie)
        await repeated(lambda: former.save(zombie, START + 41))
        eventually(lambda: newest() and "being rebuilt" in loader._reader.problems.get(1, ""))
        assert newest() == START + 33, "what is there now is of an earlier offset"
        is_current, _ = await repeated(lambda: owner.is_current(state))
        assert not is_current
        state.changed = True  # as a worker says that finds another write
        await repeated(lambda: owner.save(state, START + 42))
        eventually(lambda: newest() and not loader._reader.problems)
        assert newest() == START + 33
        with pytest.raises(StateAheadError):
            await former.save(zombie, START + 43)
        await owner.save(folded(4, of=state), START + 44)
        eventually(lambda: newest() == START + 43)

    with_stores(cluster, names, work)
    queries.close()
    cluster.start(old)
    eventually(cluster.is_whole)


@pytest.mark.parametrize(
    "how",
    [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGSTOP, id="frozen", marks=pytest.mark.slow)],
)
def test_a_node_that_fails_keeps_nothing_else_waiting(cluster, names, wire, how):
    """The other partitions are written and read meanwhile; this one as soon as its replica has the slots."""
    old = cluster.has(names.state(0))
    here, elsewhere = folded(1, number=0), folded(1, number=1)
    assert cluster.has(names.state(1)) != old

    async def work(store, _):
        for state in (here, elsewhere):
            await store.save(state, START + 20)
        with cluster.node(old) as node:
            assert node.wait(1, 5_000) == 1
        reader = WindowsReader(asking(wire, in_part=True), names)
        assert reader.refresh(2)
        cluster.signal(old, how)
        slot, slowest_s = 2, 0.0
        while True:
            folded(slot, of=here)
            try:
                await store.save(here, START + 10 * slot)
                break
            except redis.RedisError:
                slot += 1
            started = time.monotonic()
            await store.save(folded(slot, of=elsewhere), START + 10 * slot)
            reader.refresh(2)
            slowest_s = max(slowest_s, time.monotonic() - started)
            assert seen(reader, 1) == [START + 10 * slot + 3] * 2
            assert seen(reader, 0) == [START + 13] * 2
        assert slowest_s < 5
        eventually(lambda: reader.refresh(2) or not reader.problems)
        assert seen(reader, 0) == [START + 10 * slot + 3] * 2

    with_stores(cluster, names, work)
    cluster.signal(old, signal.SIGCONT)
    if how is signal.SIGKILL:
        cluster.start(old)
    eventually(cluster.is_whole)


def test_a_fleet_is_not_taken_for_whole_without_a_node(cluster, names, wire):
    """A reader that starts while a node is away fails; one that has read all keeps what it had."""

    async def work(store, _):
        for number in range(3):
            await store.save(folded(1, number=number), START + 20)

    with_stores(cluster, names, work)
    reader = WindowsReader(asking(wire, in_part=True), names)
    reader.refresh(3)
    assert len(reader.windows) == 3
    old = cluster.has(names.state(0))
    cluster.signal(old, signal.SIGSTOP)
    other = ClusterWire({"url": cluster.url})
    late = WindowsReader(asking(other, in_part=True), names)
    with pytest.raises(redis.ConnectionError, match="windows: "):
        late.refresh(3)
    reader.refresh(3)
    assert len(reader.windows) == 3
    cluster.signal(old, signal.SIGCONT)
    eventually(cluster.is_whole)
    eventually(lambda: late.refresh(3) or len(late.windows) == 3)
    other.close()


def test_the_shipped_users_on_a_cluster(tmp_path, names):
    """Each reads or writes its windows, wherever they are; nothing was refused."""
    users = users_file(tmp_path, ("stream", *READERS))
    users.write_text(users.read_text().replace("windward:v1:", f"{names.prefix}:v1:"))
    with Cluster(tmp_path, primaries=2, replicas=0, users=users) as cluster:
        nodes = nodes_in(cluster.url)

        def connect(url):
            return Redis.from_url(url, username="stream", password=password("stream"))

        async def write():
            servers = ClusterServers(nodes, connect)
            store = Store(None, names, windows=servers)
            for number in range(4):
                await store.save(folded(1, number=number), START + 20)
                assert not (await store.load(number, table)).lost
            assert len(await servers.each(lambda redis: redis.info("memory"))) == 2
            await servers.aclose()

        asyncio.run(write())
        for user in READERS:
            wire = ClusterWire({"url": cluster.url, "username": user, "password": password(user)})
            if user != "record":
                assert len(read_windows(wire, names, 4).windows) == 4
            assert asking(wire)([("HGETALL", names.facts(number)) for number in range(4)]) == [[]] * 4
            source, target = cluster.primaries
            key = names.facts(next(number for number in range(4) if cluster.has(names.facts(number)) == source))
            cluster.open_slot(key, target)
            assert asking(wire)([("HGETALL", key)]) == [[]], "asked of the next node"
            cluster.close_slot(key, source, source)
            wire.close()
        for port in cluster.ports:
            with cluster.node(port) as node:
                assert [one for one in node.acl_log() if one["object"] not in HANDSHAKE] == []


class Watcher(threading.Thread):
    """Reads the windows as a scorer does, and notes each machine whose newest sample went back."""

    def __init__(self, loader):
        super().__init__(daemon=True)
        self._loader = loader
        self._newest = {}
        self.looks = 0
        self.back = []
        self.stopping = threading.Event()

    def run(self):
        """Look until it is told to stop; a look that fails is made again."""
        while not self.stopping.wait(0.02):
            with contextlib.suppress(*AWAY):
                self._loader.refresh()
                self.looks += 1
            for windows in self._loader._reader.windows:
                for machine, at in zip(windows.machines, windows.column("at").tolist(), strict=True):
                    if at < self._newest.get(machine, at):
                        self.back.append(machine)
                    self._newest[machine] = at
        self._loader.close()


@pytest.mark.slow
def test_windows_are_those_of_an_undisturbed_run(broker, valkey, cluster, names, tmp_path):
    """A slot moves, a node is relieved, one is killed while a worker is frozen that wakes after: all under the fold."""
    pipeline = Pipeline(broker, valkey.url, names, tmp_path, windows_url=cluster.url)
    watcher = Watcher(Loader(Wire({"url": valkey.url}), names, ClusterWire({"url": cluster.url})))
    samples = make_samples(24, 160)
    batches = iter([samples[start : start + 96] for start in range(0, len(samples), 96)])

    def go_on(count=3):
        for _ in range(count):
            pipeline.publish(next(batches))

    try:
        first, _ = pipeline.start_worker(), pipeline.start_worker()
        go_on()
        pipeline.await_exact()
        watcher.start()
        eventually(lambda: watcher.looks)

        key = names.state(0)
        source = cluster.has(key)
        target = next(port for port in cluster.primaries if port != source)
        cluster.open_slot(key, target)
        while cluster.move_keys(key, source, target, 400):
            go_on(1)
        cluster.close_slot(key, source, target)
        go_on()
        pipeline.await_exact()

        replica = cluster.replica_of(cluster.has(names.state(1)))
        with cluster.node(replica) as node:
            node.execute_command("CLUSTER", "FAILOVER")
        go_on()
        eventually(lambda: cluster.is_primary(replica))
        go_on()
        pipeline.await_exact()
        eventually(cluster.is_whole)

        first.pause()
        go_on()
        old = cluster.has(names.state(2))
        cluster.signal(old, signal.SIGKILL)
        go_on()
        eventually(lambda: cluster.has(names.state(2)) != old)
        go_on()
        pipeline.await_exact()
        first.resume()
        go_on()
        pipeline.await_exact()
        cluster.start(old)
        eventually(cluster.is_whole)
        for rest in batches:
            pipeline.publish(rest)
        pipeline.await_exact()
        eventually(lambda: watcher._newest.keys() == {one.machine for one in samples})
        assert watcher.back == []
    finally:
        watcher.stopping.set()
        pipeline.close()
        watcher.join(30)
