"""A server or all processes of a kind frozen on the live stack: one alert is told, the one on what froze."""

import os
import shutil
import time

import pytest

from ops.stack.servers.process import wait_until
from ops.stack.stack import Stack, StackSettings
from tests.grafana.prometheus import Prometheus
from tests.ops.test_inhibitions import not_inhibited

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("WINDWARD_TEST_ALERTS"),
        reason="`make test-alerts` runs this: alerts that wait a minute take a quarter of an hour",
    ),
    pytest.mark.skipif(
        not shutil.which("prometheus"), reason="NOT RUN: no prometheus on the PATH (Debian: apt-get install prometheus)"
    ),
]

GROUP_WAIT_S = 60.0
"""As in alertmanager.yml: so long an alert may fire before the one that inhibits it."""
FAILURES = {
    "broker": "WindwardStreamBrokerAway", "valkey": "WindwardRedisAway", "stream-1": "WindwardStreamDown",
    "scorer-1": "WindwardScorerDown",
}  # fmt: skip


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """A small stack whose pages are scraped every five seconds."""
    settings = StackSettings(
        kafka_port=0, redis_port=0, metrics_port=0, prometheus=True, prometheus_port=0, prometheus_interval_s=5,
        machines=10, backfill_s=600, state_dir=tmp_path_factory.mktemp("stack"),
    )  # fmt: skip
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WINDWARD_")}
    with Stack(settings, environ) as found:
        yield found


@pytest.mark.parametrize(("frozen", "guilty"), FAILURES.items(), ids=list(FAILURES))
def test_an_outage_pages_once_for_what_it_is(stack, frozen, guilty):
    """From the first notification for two minutes; when the process goes on, nothing fires any longer."""
    prometheus = Prometheus(stack.prometheus.url)

    def told():
        alerts = prometheus.get("alerts")["alerts"]
        firing = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        firing = [labels for labels in firing if labels["severity"] != "info"]  # a machine may be hot by chance
        return sorted({alert["alertname"] for alert in not_inhibited(firing)})

    wait_until(lambda: prometheus.at("windward:fleet_stale:ratio < 0.05", time.time()) != [], 120, "data is fresh")
    wait_until(lambda: told() == [], 120, "nothing fires")
    (process,) = [one for one in stack.supervisor.processes if one.name == frozen]
    process.pause()
    try:
        wait_until(lambda: told() != [], 180, "something is told")
        wait_until(lambda: told() == [guilty], GROUP_WAIT_S, f"{guilty} alone is told")
        end = time.monotonic() + 2 * GROUP_WAIT_S
        while time.monotonic() < end:
            assert told() == [guilty]
            time.sleep(1)
    finally:
        process.resume()
