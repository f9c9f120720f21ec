"""The loader on a real server: only what changed is read, and nothing bad replaces what is good."""

import threading
import time

import msgspec
import pytest

from schemas.messages.process import Pipeline, Process
from schemas.messages.sample import InstanceMeans, InstanceReport
from schemas.rpc.request import Request
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.live import windows_reader
from scorer.live.loader import LOOK_S, Loader, UsageLoader, WakeUps
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.rpc.methods.listings import instances, machines
from scorer.wire import Command, Wire
from streams.fold.instance_usage import InstanceUsage
from streams.fold.peaks import Zone
from streams.state.checkpoint import encode_usage
from tests.window_tables import changes_of, publish, values, window_table


class CountingWire(Wire):
    """A connection that remembers what it was asked."""

    asked: list[Command]

    def ask(self, commands, block_s=0.0):
        self.asked = [*getattr(self, "asked", []), *commands]
        return super().ask(commands, block_s)

    def whole_reads(self):
        """Return what was read whole since the last call."""
        found = [str(c[1]) for c in self.asked if c[0] in ("GET", "MGET", "HGETALL") and ":{" in str(c[1])]
        self.asked = []
        return found


@pytest.fixture
def wire(valkey):
    wire = CountingWire({"url": valkey.url})
    yield wire
    wire.close()


def facts(machine, **more):
    return {"type": "machine", "v": 1, "machine": machine, "boot": 1, "at": time.time(), **more}


@pytest.mark.parametrize("stored", [b"\xff\xfe", b"x", b"-5", b"9" * 30, b"1e3", b""])
def test_a_number_of_partitions_that_is_none_changes_nothing(wire, names, stored):
    """What was read before stays, and what is right again is read again; no list as long as a wrong number is made."""
    publish(wire, names, [window_table(["m1"])])
    loader = Loader(wire, names)
    assert loader.refresh() is not None
    before = wire.one("GET", names.partitions)
    wire.one("SET", names.partitions, stored)
    assert loader.refresh() is None
    wire.one("SET", names.partitions, before)
    publish(wire, names, [window_table(["m1", "m2"])])
    assert loader.refresh().names == ("m1", "m2")


def test_nothing_changed_reads_and_builds_nothing(wire, names):
    """A second look asks for heads and counters only and gives no new snapshot."""
    publish(wire, names, [window_table(["a", "b"]), window_table(["c"])])
    loader = Loader(wire, names)
    assert loader.refresh().names == ("a", "b", "c")
    wire.whole_reads()
    assert loader.refresh() is None
    assert wire.whole_reads() == []


def test_only_the_changed_partition_is_read(wire, names):
    """A new table of one partition is read alone; facts are not read while their counter stands."""
    publish(wire, names, [window_table(["a"], facts=1), window_table(["b"], facts=1)], [{"a": facts("a")}, {}])
    loader = Loader(wire, names)
    loader.refresh()
    wire.whole_reads()
    publish(wire, names, [window_table(["a"], facts=1, utilization=0.5, offset=9)])
    wire.one("SET", names.partitions, 2)
    wire.whole_reads()
    snapshot = loader.refresh()
    assert wire.whole_reads() == [names.window_changes(0), names.windows(0)]
    assert snapshot.windows().mean[0, 0] == pytest.approx(8.0)


def test_facts_are_read_again_when_their_counter_changed(wire, names):
    """Labels of an agent appear with the counter; a message that cannot be read is left out."""
    publish(wire, names, [window_table(["a"], facts=1)], [{"a": facts("a", labels={"rack": "1"})}])
    loader = Loader(wire, names)
    assert loader.refresh().rules.labels(0) == {"rack": "1"}
    publish(wire, names, [window_table(["a"], facts=2)], [{"a": facts("a", labels={"rack": "2"}), "x": 3}])
    assert loader.refresh().rules.labels(0) == {"rack": "2"}


def test_a_damaged_table_leaves_the_last_good_one(wire, names):
    """Garbage, a cut table and another major version are refused; the partition stays as it was."""
    good = window_table(["a"])
    publish(wire, names, [good])
    loader = Loader(wire, names)
    loader.refresh()
    for bad in (b"garbage", good[:200], good[:7] + b"\x02" + good[8:]):
        publish(wire, names, [bad])
        loader.refresh()
        assert loader._snapshot.names == ("a",)
    publish(wire, names, [window_table(["a", "b"])])
    assert loader.refresh().names == ("a", "b")


def test_the_windows_of_another_partition_are_refused(wire, names):
    """Under a partition's keys; the last good ones stay, and it is told once, in words, and counted. Usage as well."""
    publish(wire, names, [window_table(["a"]), window_table(["b"])])
    wire.one("SET", names.instance_usage(0), _usage_table(1.0))
    loader = Loader(wire, names)
    loader.refresh()
    assert loader.refused == 0
    strange = values(names, [window_table(["a"]), window_table(["c"])])
    for key in (names.windows, names.window_changes):
        wire.one("SET", key(0), strange[key(1)])
    loader.refresh()
    assert loader._snapshot.names == ("a", "b")
    assert loader._reader.problems == {0: "a table of partition 1, under the key of partition 0"}
    assert loader.refused == 1
    usage = UsageLoader(wire, names, look_s=0.0)
    wire.one("SET", names.instance_usage(1), _usage_table(1.0))
    assert usage.refresh(2)
    assert (usage.refused, usage.usages.find("a", "one") is not None) == ({1}, True)
    publish(wire, names, [window_table(["a"]), window_table(["b"])])
    loader.refresh()
    assert loader.refused == 0


def test_partitions_that_go_take_their_machines(wire, names):
    """Fewer partitions, or one without machines, mean fewer machines; those of the ledger stay, without data."""
    publish(wire, names, [window_table(["a"]), window_table(["b"])])
    loader = Loader(wire, names)
    loader.refresh(("b",))
    wire.one("SET", names.partitions, 1)
    after = loader.refresh(("b",))
    assert set(after.names) == {"a", "b"}
    assert not after.has_data[after.roster.index["b"]]
    wire.one("DEL", names.windows(0), names.window_changes(0))
    wire.one("HSET", names.state(0), "offset", 7)
    assert loader.refresh(()).names == ()


def test_an_emptied_server_leaves_the_last_known_fleet_until_the_windows_are_rebuilt(wire, names, monkeypatch):
    """Not the partitions that come first, nor the machines that come first in one; one emptied alone hides no other."""
    machines = [f"{partition}{number}" for partition in "abc" for number in range(3)]

    def write(partition, offset, *alive, load=0.2):
        """Write one partition as the stream app does after reading the log up to an offset."""
        table = window_table(alive, offset=offset, partition=partition, utilization=load)
        wire.ask([("SET", key.replace("{0}", f"{{{partition}}}"), raw) for key, raw in values(names, [table]).items()])
        wire.ask([("HSET", names.state(partition), "offset", offset), ("SET", names.partitions, 3)])

    def fleet():
        """Return the machines with data, as a decision sees them."""
        loader.refresh()
        return [name for name, known in zip(loader._snapshot.names, loader._snapshot.has_data, strict=True) if known]

    for partition in range(3):
        write(partition, 1000, *machines[3 * partition : 3 * partition + 3])
    loader = Loader(wire, names)
    assert fleet() == machines
    wire.one("DEL", *wire.one("KEYS", f"{names.prefix}:*"))
    assert fleet() == machines
    wire.ask([("HSET", names.state(0), "offset", 0), ("SET", names.partitions, 3)])
    assert fleet() == machines
    write(0, 400, "a0")
    assert fleet() == machines
    write(0, 1200, "a0", "a1", "a9", load=0.4)
    assert fleet() == machines
    write(1, 1000, *machines[3:6])
    write(2, 1000, *machines[6:])
    assert fleet() == ["a0", "a1", "a9", *machines[3:]]
    wire.one("DEL", names.windows(2), names.window_changes(2), names.state(2))
    write(1, 1100, "b0")
    assert fleet() == ["a0", "a1", "a9", "b0", *machines[6:]]
    monkeypatch.setattr(windows_reader, "REBUILD_S", 0.0)
    assert fleet() == ["a0", "a1", "a9", "b0"]


def test_what_the_workers_say_is_read_without_new_windows(wire, names, monkeypatch):
    """There are none while a worker is away; a heartbeat that cannot be read is left out."""
    monkeypatch.setattr("scorer.live.loader.BEAT_S", 0.0)
    publish(wire, names, [window_table(["a"])])
    loader = Loader(wire, names)
    assert loader.refresh().pipeline == Pipeline()
    said = Process(host="h", pid=1, version="1", started=0.0, at=100.0, details={"caught_up_s": 30})
    wire.one("HSET", names.processes("stream"), "h-1", said.encode(), "h-2", b"?")
    assert loader.refresh().pipeline == Pipeline(((70.0, 100.0),))
    assert loader.refresh() is None


def test_what_operators_say_is_read_with_its_counter(wire, names):
    """Cordon and labels appear; an entry that cannot be read is left out and the others hold."""
    publish(wire, names, [window_table(["a", "b"])])
    loader = Loader(wire, names)
    loader.refresh()
    said = {"a": {"cordon": True}, "b": {"share": {"cpu": 9}}}
    wire.ask([("HSET", names.operator, k, msgspec.json.encode(v)) for k, v in said.items()])
    assert loader.refresh() is None
    wire.one("INCR", names.operator_version)
    assert loader.refresh().rules.cordon.tolist() == [True, False]


@pytest.mark.parametrize(("first", "second", "zone"), [(10, 20, "new"), (20, 10, "old")])
def test_a_machine_in_two_partitions_has_one_row_and_its_later_facts(wire, names, first, second, zone):
    """The number of partitions was changed: ``machines`` lists it once, with its newer sample and its later facts."""
    now_s = time.time()
    publish(
        wire,
        names,
        [window_table(["a", "both"], at=now_s - 60, facts=1), window_table(["both"], at=now_s - 5, facts=1)],
        [
            {"both": facts("both", at=now_s - 100 + first, labels={"zone": "old"})},
            {"both": facts("both", at=now_s - 100 + second, labels={"zone": "new"})},
        ],
    )
    snapshot = Loader(wire, names).refresh()
    assert snapshot.names == ("a", "both")
    answer = machines({}, RankingInputs(snapshot, LedgerView(), load_profiles().choose(), now_s))
    listed = msgspec.json.decode(msgspec.json.encode(answer.machines))
    assert [(row["machine"], round(row["age_s"])) for row in listed] == [("a", 60), ("both", 5)]
    assert listed[1]["labels"] == {"zone": zone}


def test_usage_by_instance_is_read_at_a_pace_of_its_own(wire, names):
    """Where there is none it costs one short read a partition; what is damaged keeps its last good version."""
    publish(wire, names, [window_table(["a"])])
    loader = UsageLoader(wire, names, look_s=0.0)
    assert not loader.refresh(1)
    wire.one("SET", names.instance_usage(0), _usage_table(1.0))
    assert loader.refresh(1)
    found = loader.usages.find("a", "one")
    assert found.recent["cpu"] == 1.0
    wire.asked = []
    assert not loader.refresh(1)
    assert [command[0] for command in wire.asked] == ["GETRANGE"]
    wire.one("SET", names.instance_usage(0), b"garbage")
    loader.refresh(1)
    assert loader.usages.find("a", "one") == found
    wire.one("DEL", names.instance_usage(0))
    assert loader.refresh(1)
    assert loader.usages.find("a", "one") is None
    slow = UsageLoader(wire, names, look_s=3600.0)
    assert not slow.refresh(1)
    wire.one("SET", names.instance_usage(0), _usage_table(2.0))
    assert not slow.refresh(1)


def test_a_snapshot_has_the_usage_by_instance(wire, names):
    publish(wire, names, [window_table(["a", "b"])])
    wire.one("SET", names.instance_usage(0), _usage_table(1.0))
    snapshot = Loader(wire, names).refresh()
    view = LedgerView([instance_of(Request(id="one"), machine, 1.0) for machine in ("a",)])
    shown = instances({}, view, lambda _: None, snapshot.usages)
    assert msgspec.json.decode(msgspec.json.encode(shown))["instances"][0]["usage"]["recent"] == {"cpu": 1.0}
    elsewhere = LedgerView([instance_of(Request(id="one"), "b", 1.0)])
    shown = instances({}, elsewhere, lambda _: None, snapshot.usages)
    assert msgspec.json.decode(msgspec.json.encode(shown))["instances"][0]["usage"] is None


def _usage_table(cores):
    usage = InstanceUsage()
    report = InstanceReport(at=100.0, interval_s=60.0, entries={"one": InstanceMeans(cpu=cores)})
    usage.apply([("a", report)], Zone().day_numbers)
    return encode_usage(usage, {"written_at": time.time()})


def test_a_writer_wakes_the_reader(wire, names, valkey):
    """With the partitions that it wrote; several messages are one wake-up, and one that says nothing means all."""
    stopping = threading.Event()
    wake_ups = WakeUps({"url": valkey.url}, names, stopping)
    assert wake_ups.wait() is None  # from now on it listens
    deadline = time.monotonic() + 10
    while not wire.one("PUBLISH", names.changed, "3,4"):
        assert time.monotonic() < deadline
    wire.one("PUBLISH", names.changed, "1")
    wire.one("PUBLISH", names.changed, "")
    assert wake_ups.wait() == {1, 3, 4}
    wire.one("PUBLISH", names.changed, "all of them")
    assert wake_ups.wait() is None
    started = time.monotonic()
    assert wake_ups.wait() is None
    assert LOOK_S * 0.9 < time.monotonic() - started < LOOK_S * 5
    wire.one("CLIENT", "KILL", "TYPE", "pubsub")
    assert wake_ups.wait() is None
    stopping.set()
    wake_ups.close()


def test_only_what_woke_the_reader_is_looked_at(wire, names):
    """The windows of other partitions wait for their own message, or for the next look at all."""
    publish(wire, names, [window_table(["a"]), window_table(["b"])])
    loader = Loader(wire, names)
    loader.refresh()
    publish(wire, names, [window_table(["a"], utilization=0.5), window_table(["b"], utilization=0.5)])
    wire.whole_reads()
    snapshot = loader.refresh(woken={1, 7})
    assert wire.whole_reads() == [names.window_changes(1), names.windows(1)]
    assert snapshot.windows().mean[0].tolist() == pytest.approx([3.2, 8.0])
    assert loader.refresh(woken=()) is None
    snapshot = loader.refresh()
    assert snapshot.windows().mean[0].tolist() == pytest.approx([8.0, 8.0])


def test_after_changes_only_they_are_read_and_known_as_such(wire, names):
    """Neither the base nor another partition is read; the snapshot says which rows differ from the one before."""
    base = window_table(["a", "b", "c"])
    publish(wire, names, [base, window_table(["d"])])
    loader = Loader(wire, names)
    first = loader.refresh()
    wire.one("SET", names.window_changes(0), changes_of(base, [1], utilization=0.5))
    wire.whole_reads()
    second = loader.refresh(woken={0})
    assert wire.whole_reads() == [names.window_changes(0)]
    rows = second.changed_since(first)
    assert [second.names[row] for row in rows] == ["b"]
    assert second.windows().mean[0].tolist() == pytest.approx([3.2, 8.0, 3.2, 3.2])
    assert first.windows().mean[0].tolist() == pytest.approx([3.2] * 4)
