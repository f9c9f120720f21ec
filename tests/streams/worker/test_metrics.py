"""The pages a process serves, and the stream app's metrics: names that follow the field's conventions."""

import json
import re
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families

from schemas.process.pages import serve_pages
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition
from streams.worker.metrics import Metrics, measure
from tests.support import pages

UNITS = "seconds|messages|total|bytes|machines|instances|partitions|ready|info|machines_skewed|ratio|up"


@pytest.fixture
def state():
    """What the process says of itself; a test changes it."""
    return {"ready": False, "details": {"redis": False}}


@pytest.fixture
def metrics():
    return Metrics("1.2.3")


@pytest.fixture
def get(metrics, state):
    """Ask a running server for a path: status and text."""
    server = serve_pages(metrics.registry, "127.0.0.1", 0, lambda: (state["ready"], state["details"]), fleet="windward")
    yield partial(pages.get, server.port)
    server.stop()


def test_ready_follows_the_process(get, state):
    """503 with what is missing, then 200; apart from liveness."""
    status, body = get("/ready")
    assert (status, json.loads(body)) == (503, {"ready": False, "redis": False})
    state.update(ready=True, details={"redis": True, "assigned": 3})
    status, body = get("/ready")
    assert (status, json.loads(body)) == (200, {"ready": True, "redis": True, "assigned": 3})


def test_metrics_are_readable_by_prometheus(get, metrics):
    """Counts and gauges as they stand, the version as an info metric."""
    metrics.messages.labels("accepted").inc(5)
    metrics.rejected.labels("malformed").inc()
    metrics.lag_s.labels("3").set(1.5)
    metrics.fold_s.observe(0.004)
    status, body = get("/metrics")
    assert status == 200
    samples = {
        (s.name, tuple(sorted((key, value) for key, value in s.labels.items() if key != "fleet"))): s.value
        for family in text_string_to_metric_families(body)
        for s in family.samples
    }
    assert samples["windward_stream_messages_total", (("outcome", "accepted"),)] == 5
    assert samples["windward_stream_rejected_total", (("reason", "malformed"),)] == 1
    assert samples["windward_stream_lag_seconds", (("partition", "3"),)] == 1.5
    assert samples["windward_stream_fold_duration_seconds_count", ()] == 1
    assert samples["windward_stream_build_info", (("version", "1.2.3"),)] == 1


def test_metric_names_follow_the_conventions(metrics):
    """One prefix, base units last, no type and no label in a name, help for each."""
    for family in metrics.registry.collect():
        full = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        assert re.fullmatch(r"windward_stream_[a-z_]+[a-z]", family.name), family.name
        assert re.search(rf"_({UNITS})$", full), full
        assert not re.search(r"_(ms|milliseconds|minutes|percent|count|gauge|counter|histogram)\b", full), full
        assert family.documentation, family.name
        assert family.documentation[0].isupper() or family.documentation[0].isdigit(), family.name


def test_a_partition_that_was_given_away_shows_no_lag():
    """Its value would stand still; the worker that holds it now shows it."""
    metrics = Metrics()
    kept, lost = (Partition(number, Table((300,), Zone())) for number in (3, 4))

    def shown():
        return {
            number: metrics.registry.get_sample_value("windward_stream_lag_messages", {"partition": number})
            for number in "34"
        }

    measure(metrics, {kept: 7, lost: 9}, 100.0, broker_up=True)
    assert shown() == {"3": 7, "4": 9}
    measure(metrics, {kept: 8}, 101.0, broker_up=True)
    assert shown() == {"3": 8, "4": None}
    assert metrics.registry.get_sample_value("windward_stream_lag_seconds", {"partition": "4"}) is None
    measure(metrics, {kept: 0, lost: 1}, 102.0, broker_up=True)
    assert shown() == {"3": 0, "4": 1}


def test_the_lag_in_seconds_is_the_age_of_the_last_message():
    """While messages wait or the broker is away; 0 for a partition that has folded none, and for one that is ahead."""
    metrics = Metrics()
    new, read, ahead = (Partition(number, Table((300,), Zone())) for number in range(3))
    read.recorded_at, ahead.recorded_at = 970.0, 1001.0

    def shown(behind, *, broker_up):
        measure(metrics, dict.fromkeys((new, read, ahead), behind), 1000.0, broker_up=broker_up)
        name = "windward_stream_lag_seconds"
        return [metrics.registry.get_sample_value(name, {"partition": number}) for number in "012"]

    assert shown(1, broker_up=True) == shown(0, broker_up=False) == [0, 30, 0]
    assert shown(0, broker_up=True) == [0, 0, 0]
