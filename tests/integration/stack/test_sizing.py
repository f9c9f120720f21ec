"""The figures of docs/sizing.md are what a real server holds: each row of its table is measured here."""

import asyncio
import re
import time
from pathlib import Path

import msgspec
import pytest
import redis
from kafka.record import MemoryRecordsBuilder
from redis.asyncio import Redis

from ops.stack.servers.local import LocalValkey
from schemas.messages.sample import InstanceMeans, InstanceReport, MachineFacts, Moments, Sample, encode
from schemas.names import Names
from schemas.resources import RESOURCES
from schemas.rpc.envelope import Query
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import Call, Candidate, Wanted
from scorer.ledger.store.scripts import Ledger
from scorer.placement.choosing.plan import run_to_end
from scorer.rpc.methods.placements import DecisionLog
from scorer.wire import Wire
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition
from streams.worker.store import Store
from tests.bench.fleet_writer import WindowWriter
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer

TABLE = (Path(__file__).parents[3] / "docs" / "sizing.md").read_text()
ROW = re.compile(r"^\| ([a-z][a-z ]+?) \| ([\d,]+) \|", re.MULTILINE)
SAID = {name: int(number.replace(",", "")) for name, number in ROW.findall(TABLE)}
TOLERANCE = 0.15
COUNT = 2_000
NAMES = Names()


class Server:
    """A server of its own, whose memory is looked at."""

    def __init__(self, url):
        self.url = url
        self.client = redis.Redis.from_url(url, socket_timeout=60)
        self.wire = Wire({"url": url})

    def used(self):
        """How many bytes the keys take; what scripts and connections take besides is .3 MB, and not always."""
        return sum(self.client.memory_usage(key, samples=0) for key in self.client.scan_iter())

    def grown(self, do):
        """How many bytes more it takes for each of `COUNT` things."""
        before = self.used()
        do()
        return (self.used() - before) / COUNT


@pytest.fixture
def server(tmp_path):
    with LocalValkey(directory=tmp_path / "valkey") as valkey:
        yield (found := Server(valkey.url))
        found.wire.close()
        found.client.close()


def wanted(number):
    """An instance as a deployer asks for it: cpu and memory, a cluster, a port, two labels."""
    record = Instance(
        id=f"orders-{number:06d}", machine="", state="reserved",
        amounts=tuple({"cpu": 2.0, "memory": 10e9}.get(name, 0.0) for name in RESOURCES), ports=(6379,),
        cluster=f"orders-{number // 6}", role="replica", labels={"app": "orders", "team": "shop"}, request="0" * 32,
    )  # fmt: skip
    return Wanted(record, 300.0, [Candidate(f"machine-{number % 100:03d}", -1)], call=Call(f"{number:032x}", 0.0))


def life(server, **bounds):
    """What a ledger takes, an instance: live, ended."""
    ledger = Ledger(server.wire, NAMES, **bounds)
    wanteds = [wanted(number) for number in range(COUNT)]

    def reserve():
        for first in range(0, COUNT, 200):
            ledger.reserve([one._replace(call=Call()) for one in wanteds[first : first + 200]])

    yield "live", server.grown(reserve)
    yield "ended", server.grown(lambda: [ledger.release(one.instance.id) for one in wanteds])


async def save(server, partition):
    client = Redis.from_url(server.url, socket_timeout=60)
    await Store(client, NAMES).save(partition, time.time())
    await client.aclose()


def of_machine(server):
    """Windows, slots, peaks and vitals of a machine with a full hour, and its facts."""
    (partition,) = WindowWriter(COUNT, time.time(), partitions=1, whole=True).partitions
    facts = [
        MachineFacts(v=1, machine=name, boot=1, at=1.0, capacity={"cpu": 64.0, "memory": 256e9}, labels={"rack": "a"})
        for name in partition.ring.machines
    ]
    partition.facts = {one.machine: encode(one) for one in facts}
    partition.forget_written()

    return server.grown(lambda: asyncio.run(save(server, partition)))


def of_usage(server):
    """Usage of an instance: twenty on each machine, which has a row of its own."""
    partition = Partition(0, Table((300,), Zone()))
    for first in range(0, COUNT, 20):
        ids = [f"orders-{number:06d}" for number in range(first, first + 20)]
        report = InstanceReport(at=1.0, interval_s=60.0, entries={one: InstanceMeans(cpu=1.0) for one in ids})
        partition.usage.apply([(f"machine-{first:05d}.example", report)], partition.table.zone.day_numbers)

    asyncio.run(save(server, partition))
    taken = server.client.memory_usage(NAMES.instance_usage(0), samples=0)
    return float(taken / COUNT)


def of_instance(server):
    return next(life(server, log_length=100))[1]


def of_ended(server):
    """An ended one: what there is when none is live any more."""
    live, ended = (grown for _, grown in life(server, log_length=100))
    return live + ended


def of_leaver(server):
    """An instance that was confirmed and ended, for as long as the windows show it."""
    ledger = Ledger(server.wire, NAMES, log_length=100)
    for number in range(200):
        ledger.reserve([wanted(number)._replace(call=Call())])
        ledger.confirm(wanted(number).instance.id)
        ledger.release(wanted(number).instance.id)
    taken = server.client.memory_usage(NAMES.ledger("leavers"), samples=0)
    return float(taken / 200)


def of_change(server):
    list(life(server, log_length=100_000))
    changes = server.client.hget(NAMES.ledger("head"), "change")
    taken = server.client.memory_usage(NAMES.ledger("log"), samples=0)
    return float(taken / int(changes))


def of_query(server):
    """What a query did, until a minute after its deadline."""
    Ledger(server.wire, NAMES, log_length=100).reserve([wanted(0)])
    taken = server.client.memory_usage(f"{NAMES.ledger('queries')}:{0:032x}")
    return float(taken)


def of_decision(server):
    """An entry of the log of decisions: one instance, three machines told."""
    scorer = Scorer(fleet(*(machine(f"machine-{n:03d}", usage={"cpu": n, "memory": n}) for n in range(30))))
    log = DecisionLog(NAMES, "scorer-1", 100_000)
    for number in range(100):
        query = Query(v=1, id=f"{number:032x}", method="place")
        answer = run_to_end(scorer.service.steps(msgspec_query(f"{number:032x}")))
        log.note(query, [f"orders-{number}"], answer)
    server.wire.ask(log.take())
    taken = server.client.memory_usage(NAMES.decisions, samples=0)
    return float(taken / 100)


def msgspec_query(query_id):
    return Query(v=1, id=query_id, method="place", params=msgspec.Raw(b'{"cpu": 0.01, "memory": "1M"}'))


def of_sample(_):
    """A sample on the broker: a batch of one record, as an agent sends it every ten seconds."""
    moments = Moments(10, 12.345678, 3.456789, 20.123456, 64.0)
    sample = Sample(
        v=1, machine="machine-00000.example", boot=1_790_000_000, seq=123_456, at=1_790_000_010.123, interval_s=10.0,
        cpu=moments, memory=moments, nic=moments, disk=moments,
    )  # fmt: skip
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=65_536)
    builder.append(timestamp=1_790_000_010_123, key=sample.machine.encode(), value=encode(sample), headers=[])
    builder.close()
    return float(builder.size_in_bytes())


MEASURED = {
    "machine": of_machine,
    "usage of an instance": of_usage,
    "instance": of_instance,
    "ended instance": of_ended,
    "leaver": of_leaver,
    "change": of_change,
    "query": of_query,
    "decision": of_decision,
    "sample": of_sample,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_the_table_says_what_is_measured(name, server):
    assert MEASURED[name](server) == pytest.approx(SAID[name], rel=TOLERANCE)


def test_the_example_follows_from_the_table():
    """Its sums are those of the table's figures, and every row is measured."""
    assert set(SAID) >= set(MEASURED)
    numbers = {name: float(value) for name, value in re.findall(r"([a-z]+) = ([\d.]+) (?:GB|MB)", TABLE)}
    assert numbers["windows"] == pytest.approx(5_000 * SAID["machine"] / 1e6, rel=0.05)
    assert numbers["usages"] == pytest.approx(100_000 * SAID["usage of an instance"] / 1e6, rel=0.05)
    assert numbers["ledger"] == pytest.approx(100_000 * SAID["instance"] / 1e6, rel=0.05)
    assert numbers["log"] == pytest.approx(50_000 * SAID["change"] / 1e6, rel=0.05)
    assert numbers["ended"] == pytest.approx(1_000_000 * SAID["ended instance"] / 1e6, rel=0.05)
    assert numbers["left"] == pytest.approx(100_000 * SAID["leaver"] / 1e6, rel=0.05)
    assert numbers["topic"] == pytest.approx(500 * 3 * 3_600 * SAID["sample"] / 1e9, rel=0.05)


def test_no_more_ended_instances_are_kept_than_there_may_be(server):
    """The oldest are forgotten; one that was placed anew and ended again counts as new."""
    ledger = Ledger(server.wire, NAMES, ended_max=1_000)
    for number in [*range(COUNT // 2), 0, *range(COUNT // 2, COUNT // 2 + 300)]:
        assert ledger.reserve([wanted(number)._replace(call=Call())]).outcomes[0].kind == "placed"
        ledger.release(wanted(number).instance.id)
    known = [number for number in range(COUNT) if ledger.find(f"orders-{number:06d}") is not None]
    assert known == [0, *range(301, COUNT // 2 + 300)]
    assert server.client.llen(NAMES.ledger("ended")) == 1_000
