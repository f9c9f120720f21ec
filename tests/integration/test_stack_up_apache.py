"""``windward up --kafka-server apache``: real Kafka, whose topics outlive it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ops.stack.servers.process import wait_until
from schemas.process.connections import KafkaSettings
from scorer.client import Client
from streams.worker.topics import topic_id
from tests.integration.test_stack_up import ANY_PORTS, descendants, up

pytestmark = [pytest.mark.integration, pytest.mark.broker]


def test_up_with_apache_kafka_keeps_its_topics(tmp_path: Path) -> None:
    """Three brokers: after kill -9 of everything the same folder continues the same topic."""
    if os.environ.get("WINDWARD_TEST_KAFKA") != "apache":
        pytest.skip("`make test-kafka` runs this: it needs Java and Maven")
    more = [*ANY_PORTS, "--kafka-server", "apache", "--kafka-brokers-count", "3"]
    seen = []
    for _ in range(2):
        with up(tmp_path, *more) as (process, addresses), Client(addresses["redis_url"], timeout_s=60) as client:
            assert len(descendants(process.pid)) == 8
            seen.append(topic_id(KafkaSettings(kafka=addresses["kafka"])))
            wait_until(lambda c=client: c.health()["machines_with_data"] >= 1, 60, "this machine is seen")  # type: ignore[misc]
    assert seen[0] == seen[1]
