"""A broker of three is killed under load, then another: nothing is lost, nothing counted twice."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from ops.stack.servers.apache_kafka import ApacheKafka
from ops.stack.servers.broker import LocalBroker
from ops.stack.servers.valkey import LocalValkey
from schemas.names import Names
from tests.integration.pipeline import Pipeline, make_samples

pytestmark = pytest.mark.integration


def test_brokers_killed_one_after_another_under_load(
    broker: LocalBroker | ApacheKafka, names: Names, tmp_path: Path
) -> None:
    """Each time the worker goes on with the brokers that are left, and the windows are exact in the end."""
    if len(broker.brokers) < 3:
        pytest.skip("one broker alone cannot lose one of three: `make test-kafka` runs this against Apache Kafka")
    samples = make_samples(20, 450)
    with LocalValkey(directory=tmp_path / "valkey") as store:
        pipeline = Pipeline(broker, store.url, names, tmp_path)
        try:
            worker = pipeline.start_worker()
            pipeline.publish(samples[:1500])
            pipeline.await_folded(1500)
            for lost, begin in ((broker.brokers[0], 1500), (broker.brokers[1], 4500)):
                load = Thread(target=pipeline.publish, args=(samples[begin : begin + 3000],))
                load.start()
                pipeline.await_folded(begin + 100)
                lost.kill()
                load.join()
                pipeline.await_folded(begin + 3000, deadline_s=120)
                lost.start()
            pipeline.publish(samples[7500:])
            pipeline.await_exact(120)
            assert pipeline.folded() == len(pipeline.published)
            assert worker.running
        finally:
            pipeline.close()
