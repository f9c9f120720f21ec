"""The load watcher as a process before a real server: what it answers of folded samples, and while Redis is away."""

import asyncio
import json
import time

import pytest
from redis.asyncio import Redis

from ops.stack.servers.local import LocalValkey
from schemas.messages.process import read_processes
from schemas.messages.sample import encode
from schemas.names import Names
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition
from streams.worker.store import Store
from tests.integration.observe.test_exporter import get, samples
from tests.streams import oracle
from tests.support.pages import eventually, process_with_pages
from tests.support.pipeline import WINDOWS_S, make_samples
from tests.window_tables import publish, window_table


def load_watcher(url, names):
    return process_with_pages("load-watcher", url, "--prefix", names.prefix, "--refresh", "0.1")


def fold(url, names, published):
    """Leave in Redis what a stream worker does of these samples."""

    async def run():
        async with Redis.from_url(url) as client:
            partition = Partition(0, Table(WINDOWS_S, Zone()))
            partition.topic_id = "t1"
            ordered = sorted(published, key=lambda one: one.at)
            partition.take([Arrived(n, encode(one), one.at + 0.1, b"m") for n, one in enumerate(ordered)])
            partition.fold_pending()
            await Store(client, names).save(partition, ordered[-1].at)
            await client.set(names.partitions, 1)

    asyncio.run(run())


def write(url, names, *nodes, age_s=0.0):
    """Write the windows of nodes whose newest samples have an age."""
    publish(url, names, [window_table(nodes, at=time.time() - age_s)])


def nodes(page):
    """Return the nodes that are listed; none while nothing is known."""
    status, _, body = get(f"{page}/watcher")
    return set(json.loads(body)["data"]["NodeMetricsMap"]) if status == 200 else set()


def read(page, path="/watcher"):
    """Return what a page says, whatever its status."""
    return json.loads(get(page + path)[2])


def test_the_load_of_folded_samples(valkey, names, server):
    """Mean and deviation of 15 minutes in percent of the capacity; a silent node is left out; the end is the oldest."""
    now_s = time.time()
    fresh = make_samples(3, 120, end=now_s)
    gone = [one for one in make_samples(4, 60, end=now_s - 600) if one.machine == "m003"]
    fold(valkey.url, names, [*fresh, *gone])
    with load_watcher(valkey.url, names) as (process, page):
        assert eventually(lambda: nodes(page)) == {"m000", "m001", "m002"}
        body = read(page)
        end = int(min({one.machine: one.at for one in fresh}.values()))
        assert body["window"] == {"duration": "15m", "start": end - 900, "end": end}
        for name, listed in body["data"]["NodeMetricsMap"].items():
            given = [one for one in fresh if one.machine == name]
            wanted = []
            for kind, resource, capacity in (("CPU", "cpu", 64.0), ("Memory", "memory", 6.87e10)):
                window = oracle.window(given, resource, 900)
                wanted += [
                    (kind, "AVG", 100 * window["mean"] / capacity),
                    (kind, "STD", 100 * window["std"] / capacity),
                ]
            found = [(one["type"], one["operator"], one["value"]) for one in listed["metrics"]]
            assert [one[:2] for one in found] == [one[:2] for one in wanted]
            assert [one[2] for one in found] == pytest.approx([one[2] for one in wanted], abs=1e-3)
        assert read(page, "/watcher?host=m001")["data"]["NodeMetricsMap"].keys() == {"m001"}
        assert get(f"{page}/watcher?host=m003")[0] == 404
        assert get(f"{page}/watcher/health")[0] == 200
        assert ({"state": "left_out"}, 1.0) in samples(get(f"{page}/metrics")[2])["windward_load_watcher_nodes"]
        fields = eventually(lambda: server.hgetall(names.processes("load-watcher")))
        (said,) = read_processes(fields).values()
        assert (said.pid, said.ready, said.details["nodes"]) == (process.pid, True, 3)
        assert said.page.endswith(page.rpartition(":")[2])
        process.stop()
        assert not server.exists(names.processes("load-watcher"))
        assert "watcher.stop" in process.log.read_text()


def test_a_silent_pipeline_and_redis_away(tmp_path):
    """Nothing known is 503; then the last load with its true end, also while Redis is away; then the new one."""
    names = Names()
    with LocalValkey(directory=tmp_path / "valkey", append_only=True) as valkey:
        valkey.kill()
        with load_watcher(valkey.url, names) as (process, page):
            for path in ("/watcher", "/watcher/health", "/ready"):
                assert get(page + path)[0] == 503
            valkey.start()
            write(valkey.url, names, "a", "b", age_s=5000)
            assert eventually(lambda: nodes(page)) == {"a", "b"}
            before = read(page)
            end = before["window"]["end"]
            assert time.time() - 5060 < end < time.time() - 4990
            valkey.kill()
            eventually(lambda: "error" in read(page, "/ready"))
            assert read(page) == before
            assert get(f"{page}/watcher/health")[0] == 200
            valkey.start()
            write(valkey.url, names, "a", "b", "c")
            eventually(lambda: nodes(page) == {"a", "b", "c"})
            assert read(page)["window"]["end"] >= end + 4900
            said = process.log.read_text()
            assert (said.count("watcher.redis.away"), said.count("watcher.redis.back")) == (2, 2)
