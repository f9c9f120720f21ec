"""A worker whose broker is gone says so, and says how old what it serves is. Real processes."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ops.stack.servers.valkey import LocalValkey
from schemas.names import Names
from tests.conftest import free_port
from tests.support.pipeline import Pipeline, await_condition, make_samples


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body of one page; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def values(port: int, name: str) -> list[float]:
    """Every value of a metric."""
    families = text_string_to_metric_families(get(port, "/metrics")[1])
    return [sample.value for family in families for sample in family.samples if sample.name == name]


@pytest.mark.slow
def test_a_worker_without_its_broker_is_not_ready_and_its_lag_grows(broker: Any, names: Names, tmp_path: Path) -> None:
    """Although nothing that it knows of is waiting to be read."""
    port = free_port()
    with LocalValkey(directory=tmp_path / "valkey") as store:
        pipeline = Pipeline(broker, store.url, names, tmp_path, partitions=1)
        try:
            worker = pipeline.start_worker("--metrics-port", str(port))
            pipeline.publish(make_samples(3, 20))
            await_condition(lambda: get(port, "/ready")[0] == 200, "ready")
            pipeline.await_exact()
            await_condition(lambda: values(port, "windward_stream_broker_up") == [1], "the broker is up")
            await_condition(lambda: json.loads(get(port, "/ready")[1])["caught_up_s"] > 0, "caught up")
            broker.kill()
            await_condition(lambda: get(port, "/ready")[0] == 503, "not ready", 90)
            await_condition(lambda: json.loads(get(port, "/ready")[1])["caught_up_s"] == 0, "the worker is late")
            await_condition(lambda: values(port, "windward_stream_broker_up") == [0], "the broker is away")
            lag = values(port, "windward_stream_lag_seconds")[0]
            assert lag > 10
            await_condition(lambda: values(port, "windward_stream_lag_seconds")[0] > lag + 2, "the lag grows")
            assert worker.running
        finally:
            pipeline.close()
