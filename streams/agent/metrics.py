"""The agent's Prometheus page, made from its counts when asked. Imported only when it is switched on: it costs 2 MB."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streams.agent.counts import Counts

PREFIX = "windward_agent"


class CountsCollector(Collector):
    """The counts as metric families."""

    def __init__(self, counts: Counts, agent_version: str) -> None:
        self._counts = counts
        self._agent_version = agent_version

    def collect(self) -> Iterator[Metric]:
        """Return every family, with its value now."""
        counts = self._counts
        yield InfoMetricFamily(f"{PREFIX}_build", "version of the agent", {"version": self._agent_version})
        yield CounterMetricFamily(f"{PREFIX}_samples", "samples made", counts.samples)
        yield _by_resource(f"{PREFIX}_readings", "readings taken", counts.readings)
        yield _by_resource(f"{PREFIX}_collector_failures", "readings that failed", counts.collector_failures)
        records = CounterMetricFamily(f"{PREFIX}_records", "records by what became of them", labels=["result"])
        for result in ("delivered", "dropped", "refused"):
            records.add_metric([result], getattr(counts, result))
        yield records
        yield CounterMetricFamily(f"{PREFIX}_send_failures", "rounds of sending that failed", counts.send_failures)
        yield CounterMetricFamily(f"{PREFIX}_connections", "producers built", counts.connections)
        yield GaugeMetricFamily(f"{PREFIX}_backlog_records", "records waiting for the broker", counts.waiting)
        yield GaugeMetricFamily(f"{PREFIX}_in_flight_records", "records sent and not acknowledged", counts.in_flight)
        yield GaugeMetricFamily(
            f"{PREFIX}_last_delivery_timestamp_seconds", "time of the last acknowledgement", counts.last_delivery_s
        )


def _by_resource(name: str, about: str, values: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, about, labels=["resource"])
    for resource, value in sorted(values.items()):
        family.add_metric([resource], value)
    return family


def serve(counts: Counts, agent_version: str, host: str, port: int) -> None:
    """Serve the page from a thread of its own; raises OSError when the port is taken."""
    registry = CollectorRegistry()
    registry.register(CountsCollector(counts, agent_version))
    start_http_server(port, addr=host, registry=registry)
