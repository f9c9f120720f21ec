"""``windward up --kafka``: on Apache Kafka, whose topics outlive it."""

import os

import pytest

from ops.stack.servers.process import wait_until
from schemas.names import Names
from schemas.process.connections import KafkaSettings
from scorer.client import Client
from streams.worker.topics import TopicSettings, ensure_topics, topic_id
from tests.integration.stack.test_stack_up import ANY_PORTS, descendants, up

pytestmark = pytest.mark.broker


def test_up_with_apache_kafka_keeps_its_topics(request, tmp_path):
    if os.environ.get("WINDWARD_TEST_KAFKA") != "apache":
        pytest.skip("`make test-kafka` runs this: it needs Java and Maven")
    kafka = request.getfixturevalue("apache")
    names = Names("up-apache")
    more = [*ANY_PORTS, "--kafka", kafka.address, "--prefix", names.prefix]
    made = {"replication": kafka.replication, "min_insync": kafka.min_insync}
    ensure_topics(TopicSettings(kafka=kafka.address, prefix=names.prefix, **made))
    seen = []
    for _ in range(2):
        with (
            up(tmp_path, *more) as (process, addresses),
            Client(addresses["redis_url"], names.prefix, timeout_s=60) as client,
        ):
            assert len(descendants(process.pid)) == 6  # all but the broker
            seen.append(topic_id(KafkaSettings(kafka=addresses["kafka"], prefix=names.prefix)))
            wait_until(lambda c=client: c.health()["machines_with_data"] >= 1, 60, "this machine is seen")
    assert seen[0] == seen[1]
