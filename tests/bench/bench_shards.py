"""The windows of a fleet on one server and on the nodes of a Redis Cluster: what each node has and does.

    python -m tests.bench.bench_shards [--machines 100000] [--partitions 24] [--nodes 1 3] [--rounds 10]

One process writes all partitions whole, with a full hour of each machine, then what changed of a tenth of the machines
a round, as a worker does; a loader reads after each round. Prints, by number of nodes, a row a node: partitions, keys,
memory, processor time a round; and of the whole the processor time of writer and reader a round.
"""

import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import redis
from redis.asyncio import Redis

from ops.stack.servers.process import free_port
from schemas.messages.sample import encode
from schemas.names import Names
from schemas.process.redis_cluster import nodes_in
from scorer.cluster_wire import wire_to
from scorer.live.loader import Loader
from scorer.wire import Wire
from streams.fold.batch import Arrived
from streams.worker.servers import ClusterServers, Servers
from streams.worker.store import Store
from tests.bench.fleet_writer import WindowWriter
from tests.bench.pairs import read_options
from tests.conftest import start_valkey, stop
from tests.support.clusters import Cluster
from tests.support.pipeline import make_samples

NAMES = Names("bench")


def measured(held, cluster, port, rounds):
    """Return the rows of the nodes, and the processor time of writer and reader a round, ms."""
    ports = cluster.ports if cluster else [port]
    one = f"redis://127.0.0.1:{port}/0"
    url = cluster.url if cluster else one
    nodes = nodes_in(url)

    async def run():
        async with Redis.from_url(one) as client:
            windows = ClusterServers(nodes, Redis.from_url) if nodes else Servers(client)
            store = Store(client, NAMES, windows=windows)
            await client.set(NAMES.partitions, len(held))
            start = time.time() // 10 * 10
            for partition in held:
                partition.forget_written()
                await store.save(partition, start)
            loader = Loader(Wire({"url": one}), NAMES, wire_to({"url": url}))
            loader.refresh()
            before = [_said(each) for each in ports]
            wrote = read = 0.0
            for number in range(rounds):
                _take(held, number, start + number + 1)
                began = time.process_time()
                await asyncio.gather(*(store.save(partition, start + number + 1) for partition in held))
                between = time.process_time()
                assert loader.refresh() is not None
                wrote, read = wrote + between - began, read + time.process_time() - between
            rows = [_row(cluster, each, held, old, rounds) for each, old in zip(ports, before, strict=True)]
            await windows.aclose()
            return rows, 1e3 * wrote / rounds, 1e3 * read / rounds

    return asyncio.run(run())


def _take(held, number, now_s):
    """Fold a sample of a tenth of the machines."""
    pattern = make_samples(1, 1, end=now_s)[0]
    for partition in held:
        for name in partition.ring.machines[number % 10 :: 10]:
            sample = msgspec.structs.replace(pattern, machine=name, at=now_s, seq=int(now_s), boot=2)
            partition.take([Arrived(partition.next_offset, encode(sample), now_s, name.encode())])
        partition.fold_pending()


def _said(port):
    """Return processor time, memory and keys of a node."""
    with redis.Redis(port=port) as node:
        about = node.info()
        return about["used_cpu_user"] + about["used_cpu_sys"], about["used_memory"], int(node.dbsize())


def _row(cluster, port, held, before, rounds):
    spent, memory, keys = _said(port)
    mine = [one for one in held if cluster is None or cluster.has(NAMES.windows(one.number)) == port]
    share = sum(len(one.ring.machines) for one in mine) / sum(len(one.ring.machines) for one in held)
    return [
        f"{len(mine)}",
        f"{share:.0%}",
        f"{keys:,}",
        f"{memory / 1e6:,.0f}",
        f"{1e3 * (spent - before[0]) / rounds:.0f}",
    ]


def main():
    given = read_options(__doc__, machines=100_000, partitions=24, nodes=[1, 3], rounds=10)
    print(
        "| nodes | partitions | machines | keys | memory, MB | processor time a round, ms |\n|---|---|---|---|---|---|"
    )
    for count in given.nodes:
        held = WindowWriter(given.machines, time.time() - 20, partitions=given.partitions, whole=True).partitions
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            port = free_port()
            stack.callback(stop, start_valkey(port, folder))
            cluster = Cluster(folder / "nodes", primaries=count, replicas=0) if count > 1 else None
            if cluster:
                stack.enter_context(cluster)
            rows, wrote, read = measured(held, cluster, port, given.rounds)
        for row in rows:
            print(f"| {count} | " + " | ".join(row) + " |", flush=True)
        print(f"{count} nodes: writer {wrote:.0f} ms, reader {read:.0f} ms a round", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
