"""The broker the other tests rely on keeps what it promises, whichever it is."""

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from ops.stack.servers.broker import LocalBroker
from schemas.names import Names
from streams.worker.topics import TopicSettings, ensure_topics, topic_id
from tests.kafka.apache_kafka import ApacheKafka
from tests.support.pipeline import await_condition

pytestmark = pytest.mark.broker


def test_topics_are_made_with_the_replicas_the_broker_can_hold(broker: LocalBroker | ApacheKafka, names: Names) -> None:
    """The samples topic has its partitions, each with every replica in sync; making it again changes nothing."""
    settings = TopicSettings(
        kafka=broker.address,
        prefix=names.prefix,
        partitions=3,
        replication=broker.replication,
        min_insync=broker.min_insync,
    )
    assert ensure_topics(settings) == 3
    assert ensure_topics(settings) == 3
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka_brokers)
    try:
        partitions = admin.describe_topics([names.samples_topic])[0]["partitions"]
    finally:
        admin.close()
    assert {len(partition["isr_nodes"]) for partition in partitions} == {broker.replication}


def test_what_was_acknowledged_survives_the_loss_of_a_broker(broker: LocalBroker | ApacheKafka, names: Names) -> None:
    """Of three brokers one is killed under load: nothing acknowledged is missing, and the topic keeps its id.

    A broker that keeps topics in memory is the exception that this test states: its restart gives another topic id.
    """
    settings = TopicSettings(
        kafka=broker.address,
        prefix=names.prefix,
        partitions=3,
        replication=broker.replication,
        min_insync=broker.min_insync,
    )
    ensure_topics(settings)
    before = topic_id(settings)
    if not broker.keeps_topics:
        broker.restart()
        ensure_topics(settings)
        assert topic_id(settings) != before
        return
    sent = [f"{n}".encode() for n in range(300)]
    with KafkaProducer(bootstrap_servers=settings.kafka_brokers, acks="all") as producer:
        futures = []
        for number, value in enumerate(sent):
            if number == 100:
                broker.brokers[0].kill()
            futures.append(producer.send(names.samples_topic, value, key=value))
            futures[-1].get(60)
    consumer = KafkaConsumer(
        names.samples_topic,
        bootstrap_servers=settings.kafka_brokers,
        auto_offset_reset="earliest",
    )
    received: list[bytes] = []

    def all_arrived() -> bool:
        received.extend(record.value for records in consumer.poll(200).values() for record in records)
        return len(received) >= len(sent)

    await_condition(all_arrived, "every acknowledged record is read again")
    consumer.close()
    assert sorted(received) == sorted(sent)
    broker.brokers[0].start()
    assert broker.ready
    assert topic_id(settings) == before
