"""The agent as a process against a real broker that comes, goes and loses its memory."""

import json
import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from ops.stack.servers.process import free_port
from schemas.messages.sample import InstanceMeans, MachineFacts, decode
from tests.kafka.apache_kafka import ApacheKafka
from tests.streams.agent.instances.tree import MIB, Tree
from tests.streams.agent.test_command import machine_due_soon
from tests.support.packed import BROKEN, PACKERS, packing
from tests.support.pipeline import await_condition
from tests.support.publishing import events, make_topics, metric, process, receive, restart, samples


def agent(broker, names, folder, *arguments):
    """Return an agent of a machine whose first sample is due soon."""
    page = ("--metrics-port", str(free_port()))
    machine = ("--machine", machine_due_soon(), "--nic-speed", "1G")
    return process("agent", broker, names, folder, *page, *machine, *arguments)


def await_samples(agent, count=1):
    """Wait until the agent has made so many samples, delivered or not."""
    await_condition(lambda: metric(agent, "windward_agent_samples_total") >= count, f"{count} samples are made")


@pytest.mark.slow
def test_it_starts_before_its_broker_and_outlives_one_that_forgets(broker, names, tmp_path):
    """Started without a broker, then one comes, dies, and comes back: every sample arrives with its own time."""
    broker.kill()
    with agent(broker, names, tmp_path) as running:
        await_condition(lambda: events(running, "publisher.broker.away"), "the agent notes that the broker is away")
        await_samples(running)
        restart(broker, names, running)
        first = receive(broker, names, samples)
        assert isinstance(first[0].message, MachineFacts)
        sample = samples(first)[0]
        assert sample.seq == 0
        assert first[0].timestamp_s == pytest.approx(time.time(), abs=60)
        assert all(found.key == sample.machine.encode() for found in first)
        await_condition(lambda: events(running, "publisher.broker.back"), "the agent notes that the broker is back")

        broker.kill()
        acknowledged = metric(running, 'windward_agent_records_total{result="delivered"}')  # facts, then samples
        await_condition(lambda: len(events(running, "publisher.broker.away")) == 2, "the agent notes it again")
        restart(broker, names, running)
        later = samples(receive(broker, names, lambda received: len(samples(received)) >= 2))
        known = {found.seq: found for found in later}
        assert sorted(known) == list(range(min(known), max(known) + 1))
        assert min(known) < acknowledged
        for found in [*samples(first), *later]:
            assert found.at == pytest.approx(sample.at + 10 * found.seq, abs=1e-6)
            assert (found.machine, found.boot) == (sample.machine, sample.boot)
        assert all(found.cpu and found.memory for found in later)
        running.stop()
        assert running.exit_code == 0
        assert events(running, "agent.stopped")[0]["dropped"] == 0


@pytest.mark.slow
def test_a_full_backlog_drops_the_oldest_and_counts_them(broker, names, tmp_path):
    """Room for one: of the facts and two samples only the newest arrives; two are counted."""
    broker.kill()
    with agent(broker, names, tmp_path, "--backlog-records", "1") as running:
        await_samples(running, 2)
        restart(broker, names, running)
        received = receive(broker, names, len)
        running.stop()
        assert running.exit_code == 0
    assert received[0].message.seq >= 1
    assert events(running, "agent.stopped")[0]["dropped"] == received[0].message.seq + 1


def test_sigterm_delivers_what_is_left(broker, names, tmp_path):
    """Told to stop while the broker is away: what is left goes out when it comes within the deadline, exit code 0."""
    broker.kill()
    with agent(broker, names, tmp_path, "--flush-s", "60") as running:
        running.stop_deadline_s = 60
        await_samples(running)
        running.ask_to_stop()
        restart(broker, names, running)
        assert running.wait(60) == 0
    stopped = events(running, "agent.stopped")[0]
    assert stopped["undelivered"] == 0
    assert stopped["delivered"] == stopped["samples"] + 1 >= 2
    assert len(receive(broker, names, lambda received: len(received) >= stopped["delivered"])) == stopped["delivered"]


def test_sigterm_does_not_wait_for_ever(broker, names, tmp_path):
    """The broker stays away: the agent ends soon after its deadline, exit code 0, and says what it gave up."""
    broker.kill()
    with agent(broker, names, tmp_path, "--flush-s", "0.5") as running:
        await_condition(lambda: events(running, "publisher.broker.away"), "the agent notes that the broker is away")
        await_condition(lambda: metric(running, "windward_agent_backlog_records") >= 1, "the facts are waiting")
        started_s = time.monotonic()
        running.ask_to_stop()
        assert running.wait(20) == 0
    assert time.monotonic() - started_s < 8
    assert events(running, "agent.stopped")[0]["undelivered"] >= 1


def test_a_topic_that_comes_late_is_waited_for(broker, names, tmp_path):
    """Nothing is lost without the topic: it is made and then all arrive. The local broker makes it unasked."""
    with agent(broker, names, tmp_path) as running:
        if isinstance(broker, ApacheKafka):
            await_condition(lambda: events(running, "publisher.broker.away"), "the agent notes that it cannot publish")
        else:
            await_samples(running)
        make_topics(broker, names)
        received = receive(broker, names, samples)
        assert isinstance(received[0].message, MachineFacts)
        assert samples(received)[0].seq == 0


def test_once_publishes_what_it_prints(broker, names, tmp_path):
    """One sample on stdout and the same one on the topic, exit code 0."""
    make_topics(broker, names)
    with agent(broker, names, tmp_path, "--once") as running:
        assert running.wait(60) == 0
    printed = [line for line in running.log.read_text().splitlines() if '"type":"sample"' in line]
    assert [decode(line.encode()) for line in printed] == samples(receive(broker, names, samples))


def test_instances_are_reported_with_the_first_sample(broker, names, tmp_path):
    """A unit is found by its control group, without a setting for it; what belongs to no instance is the system."""
    make_topics(broker, names)
    tree = Tree(tmp_path / "machine")
    tree.group("system.slice/redis-7001.service", cpu_s=1.0, memory=MIB)
    with agent(broker, names, tmp_path, "--cgroup-root", str(tree.groups)) as running:
        (sample, *_) = samples(receive(broker, names, samples))
        await_condition(lambda: metric(running, "windward_agent_instances") == 1, "the page shows it")
    report = sample.instance_report
    (one,) = report.entries.items()
    assert one in [("redis-7001", InstanceMeans(0.0, float(MIB), disk=disk)) for disk in (None, 0.0)]  # a disk or none
    assert report.at == sample.at


RECORDING = Path(__file__).parents[2] / "streams" / "bridge" / "telegraf.jsonl"


def test_recorded_messages_arrive_as_samples(broker, names, tmp_path):
    """Moved to now: five samples of the host under its own key; what cannot be read is counted, not fatal.

    They come packed by each codec, and after a batch that no codec unpacks.
    """
    make_topics(broker, names)
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics({"telegraf": {"num_partitions": 1, "replication_factor": broker.replication}})
    admin.close()
    metrics = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    moved_s = int(time.time()) - 60 - metrics[0]["timestamp"]
    with KafkaProducer(bootstrap_servers=broker.address.split(",")) as producer:
        producer.send("telegraf", value=b"cpu,host=a usage_idle=3").get(20)
    moved = [json.dumps(metric | {"timestamp": metric["timestamp"] + moved_s}).encode() for metric in metrics]
    codec, pack = BROKEN["zstd cut off"]
    with (
        packing(codec, pack),
        KafkaProducer(bootstrap_servers=broker.address.split(","), compression_type=codec) as producer,
    ):
        producer.send("telegraf", value=b"lost" * 500).get(20)
    share = -(-len(moved) // len(PACKERS))
    for number, (codec, pack) in enumerate(PACKERS.values()):
        with (
            packing(codec, pack),
            KafkaProducer(bootstrap_servers=broker.address.split(","), compression_type=codec) as producer,
        ):
            for value in moved[number * share : (number + 1) * share]:
                producer.send("telegraf", value=value)
            producer.flush()
    running = process("bridge", broker, names, tmp_path, "--from-start")
    running.command.insert(running.command.index("bridge") + 1, "telegraf")
    with running:
        received = receive(broker, names, lambda found: len(samples(found)) >= 5)
        running.stop()
        assert running.exit_code == 0, running.output_end(20)
    found = samples(received)
    assert [sample.seq for sample in found] == list(range(5))
    assert {sample.machine for sample in found} == {"db1.example.org"}
    assert all(one.key == b"db1.example.org" for one in received)
    assert [round(sample.cpu.mean, 6) for sample in found if sample.cpu] == [1.0, 2.0, 0.4, 1.0, 2.0]
    assert len(events(running, "bridge.unreadable")) == 1
    (lost,) = events(running, "kafka.batch.unreadable")
    assert (lost["topic"], lost["partition"], lost["offset"]) == ("telegraf", 0, 1)
