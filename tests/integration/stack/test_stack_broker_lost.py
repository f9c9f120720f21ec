"""Of three brokers each is killed, restarted or finds its disk full, under load: nothing is lost or counted twice."""

import os
import subprocess
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from ops.stack.servers.local import LocalValkey
from schemas.messages.sample import encode
from schemas.process.connections import KafkaSettings
from streams.agent.producer import connect
from streams.agent.publisher import Publisher
from streams.agent.sampling.backlog import Record
from streams.worker.topics import TopicSettings, ensure_topics, topic_id
from tests.kafka.apache_kafka import ApacheKafka
from tests.support.pipeline import Pipeline, await_condition, make_samples

pytestmark = pytest.mark.broker

DISK_MB = 96
"""What a broker may fill here; its own files and the topics of a test take under a third of it."""


@pytest.fixture
def brokers(request, tmp_path):
    """Yield three brokers of Apache Kafka; with the parameter ``own`` none that other tests use, too."""
    if os.environ.get("WINDWARD_TEST_KAFKA") != "apache":
        pytest.skip("one broker alone cannot lose one of three: `make test-kafka` runs this against Apache Kafka")
    if hasattr(request, "param"):
        cluster = ApacheKafka(brokers=3, directory=tmp_path / "kafka").start()
        yield cluster
        cluster.kill()
    else:
        yield request.getfixturevalue("broker")


@contextmanager
def killed(lost):
    """End a broker as a power cut does; it is back afterwards."""
    lost.kill()
    yield
    lost.start()


@contextmanager
def restarted(lost):
    """Stop a broker in order, as an upgrade does; it is back afterwards."""
    lost.stop()
    yield
    lost.start()


@contextmanager
def out_of_space(lost, data):
    """Fill a broker's disk, until the broker gives up; make room and start it afterwards."""
    filler = data / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    await_condition(lambda: not lost.running, f"{lost.name} ends, since its disk is full")
    yield
    filler.unlink()
    lost.start()


@contextmanager
def disk_of(lost):
    """Give a broker a small disk of its own, with the data that it has."""
    data = lost.settings.parent / "data"
    kept = data.with_name("kept")
    lost.stop()
    data.rename(kept)
    data.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_MB}m", "windward-test", str(data)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a disk that is full needs root, who may mount: {mounted.stderr.strip()}")
    try:
        subprocess.run(["cp", "-a", f"{kept}/.", str(data)], check=True)
        lost.start()
        yield data
    finally:
        lost.kill()
        subprocess.run(["umount", "-l", str(data)], check=True)


def under_load(pipeline, lost):
    """Lose brokers one after another, each while samples arrive; the windows are exact in the end."""
    samples = make_samples(20, 450)
    worker = pipeline.start_worker()
    pipeline.publish(samples[:1500])
    pipeline.await_folded(1500)
    share = (len(samples) - 1500) // len(lost)
    for number, losing in enumerate(lost):
        begin = 1500 + number * share
        load = Thread(target=pipeline.publish, args=(samples[begin : begin + share],))
        load.start()
        pipeline.await_folded(begin + 100)
        with losing():
            load.join()
            pipeline.await_folded(begin + share)
    pipeline.publish(samples[1500 + len(lost) * share :])
    pipeline.await_exact()
    assert pipeline.folded() == len(pipeline.published)
    assert worker.running


@pytest.fixture
def pipeline(brokers, names, tmp_path):
    with LocalValkey(directory=tmp_path / "valkey") as store:
        pipeline = Pipeline(brokers, store.url, names, tmp_path)
        try:
            yield pipeline
        finally:
            pipeline.close()


def test_brokers_killed_one_after_another(pipeline, brokers):
    """Each time the worker goes on with the brokers that are left."""
    under_load(pipeline, [partial(killed, lost) for lost in brokers.brokers[:2]])


def test_a_rolling_restart(pipeline, brokers):
    """An orderly stop hands over each broker's partitions; so all three can be upgraded under load."""
    under_load(pipeline, [partial(restarted, lost) for lost in brokers.brokers])


@pytest.mark.parametrize("brokers", ["own"], indirect=True)
def test_a_disk_that_is_full(pipeline, brokers):
    """A broker that cannot write ends; the others have what it acknowledged, and it catches up with room again."""
    lost = brokers.brokers[0]
    with disk_of(lost) as data:
        under_load(pipeline, [partial(out_of_space, lost, data)])


def test_an_agent_keeps_so_many_records_while_no_broker_is_there(pipeline, brokers):
    """The oldest make room for the newest; what is delivered and what was dropped are all there were."""
    topic, most = pipeline.names.samples_topic, 500
    records = [Record(s.machine.encode(), encode(s)) for s in make_samples(20, 150)]
    publisher = Publisher(
        lambda: connect(KafkaSettings(kafka=brokers.address), "test"), topic, backlog_records=most, in_flight_most=100
    )
    publisher.start()
    try:
        for begin in range(0, 1000, 100):
            assert publisher.wait_for_room(100, 60)
            publisher.publish(records[begin : begin + 100])
        await_condition(lambda: publisher.counts.delivered == 1000, "a thousand delivered")
        await_condition(lambda: publisher.counts.clock_ahead_s is not None, "the broker's times tell of the clock")
        assert abs(publisher.counts.clock_ahead_s or 0.0) < 1.0
        brokers.kill()
        for begin in range(1000, len(records), 100):
            publisher.publish(records[begin : begin + 100])
            assert publisher.counts.waiting <= most
        brokers.start()
        assert publisher.wait_until_empty(120)
    finally:
        publisher.close(5)
    counts = publisher.counts
    assert counts.dropped >= len(records) - 1000 - most - 200
    assert counts.delivered + counts.dropped == len(records)


@pytest.fixture
def topics(broker, names):
    replicas = {"replication": broker.replication, "min_insync": broker.min_insync}
    return TopicSettings(kafka=broker.address, prefix=names.prefix, partitions=3, **replicas)


def test_topics_are_made_with_the_replicas_the_broker_can_hold(broker, names, topics):
    """The samples topic has its partitions, each with every replica in sync; making it again changes nothing."""
    assert [ensure_topics(topics) for _ in range(2)] == [3, 3]
    admin = KafkaAdminClient(bootstrap_servers=topics.kafka_brokers)
    try:
        partitions = admin.describe_topics([names.samples_topic])[0]["partitions"]
    finally:
        admin.close()
    assert {len(partition["isr_nodes"]) for partition in partitions} == {broker.replication}


def test_what_was_acknowledged_survives_the_loss_of_a_broker(broker, names, topics):
    """Of three brokers one is killed under load: nothing acknowledged is missing, and the topic keeps its id.

    A broker that keeps topics in memory is the exception that this test states: its restart gives another topic id.
    """
    ensure_topics(topics)
    before = topic_id(topics)
    if not broker.keeps_topics:
        broker.restart()
        ensure_topics(topics)
        assert topic_id(topics) != before
        return
    sent = [f"{n}".encode() for n in range(300)]
    with KafkaProducer(bootstrap_servers=topics.kafka_brokers, acks="all") as producer:
        futures = []
        for number, value in enumerate(sent):
            if number == 100:
                broker.brokers[0].kill()
            futures.append(producer.send(names.samples_topic, value, key=value))
            futures[-1].get(60)
    consumer = KafkaConsumer(names.samples_topic, bootstrap_servers=topics.kafka_brokers, auto_offset_reset="earliest")
    received = []

    def all_arrived():
        received.extend(record.value for records in consumer.poll(200).values() for record in records)
        return len(received) >= len(sent)

    await_condition(all_arrived, "every acknowledged record is read again")
    consumer.close()
    assert sorted(received) == sorted(sent)
    broker.brokers[0].start()
    assert broker.ready
    assert topic_id(topics) == before
