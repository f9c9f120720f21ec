"""A connection, a broker and a pipeline for each test; ``WINDWARD_TEST_KAFKA=apache`` makes it Apache Kafka."""

import os

import pytest

from ops.stack.servers.local import LocalBroker, LocalValkey
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.kafka.apache_kafka import ApacheKafka
from tests.support.pipeline import Pipeline

KINDS = ("tansu", "apache")


@pytest.fixture
def wire(valkey):
    wire = Wire({"url": valkey.url})
    yield wire
    wire.close()


@pytest.fixture
def ledger(wire, names):
    return Ledger(wire, names)


@pytest.fixture(scope="session")
def apache(tmp_path_factory):
    """Three brokers for all tests: each has topics of its own, and three JVMs take half a minute of a core to start."""
    cluster = ApacheKafka(brokers=3, directory=tmp_path_factory.mktemp("kafka")).start()
    yield cluster
    cluster.kill()  # nobody wants its data any more, and an orderly end of three takes seconds


@pytest.fixture
def broker(request, tmp_path):
    """Yield a running broker: the local wheel's, or three of Apache Kafka; a test may kill and start it."""
    kind = os.environ.get("WINDWARD_TEST_KAFKA", "tansu")
    if kind not in KINDS:
        raise pytest.UsageError(f"WINDWARD_TEST_KAFKA is {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "apache":
        cluster = request.getfixturevalue("apache")
        yield cluster
        if not cluster.ready:
            cluster.restart()
    else:
        with LocalBroker(log=tmp_path / "broker.log") as single:
            yield single


@pytest.fixture
def store(tmp_path):
    with LocalValkey(directory=tmp_path / "valkey") as server:
        yield server


@pytest.fixture
def pipeline(request, broker, store, names, tmp_path):
    """Yield a pipeline without a worker, of four partitions or as many as a test asks for."""
    one = Pipeline(broker, store.url, names, tmp_path, partitions=getattr(request, "param", 4))
    yield one
    one.close()
