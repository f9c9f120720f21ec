"""The agent's Prometheus page, made from its counts at each scrape. Imported only when in use: it costs 2 MB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from schemas.process.page_server import PageServer
from schemas.process.pages import serve_pages
from schemas.resources import OPTIONAL, RESOURCES
from streams.agent.instances.meter import TROUBLES
from streams.agent.sampling.counts import Counts

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
        for name, about, values in (
            ("readings", "readings taken", counts.readings),
            ("collector_failures", "readings that failed", counts.collector_failures),
        ):
            yield _labelled(name, about, "resource", {each: values[each] for each in sorted({*RESOURCES, *values})})
        impossible = {each: counts.impossible[each] for each in RESOURCES}
        yield _labelled("impossible_readings", "readings left out: no time for their rise", "resource", impossible)
        results = {result: getattr(counts, result) for result in ("delivered", "dropped", "refused")}
        yield _labelled("records", "records by result", "result", results)
        yield CounterMetricFamily(f"{PREFIX}_send_failures", "rounds of sending that failed", counts.send_failures)
        yield CounterMetricFamily(f"{PREFIX}_connections", "producers built", counts.connections)
        yield GaugeMetricFamily(f"{PREFIX}_backlog_records", "records waiting for the broker", counts.waiting)
        yield GaugeMetricFamily(f"{PREFIX}_in_flight_records", "records sent and not acknowledged", counts.in_flight)
        yield GaugeMetricFamily(f"{PREFIX}_instances", "instances in the last report", counts.instances)
        yield CounterMetricFamily(
            f"{PREFIX}_instance_reports", "reports of what instances used", counts.instance_reports
        )
        troubles = {kind: counts.instance_troubles[kind] for kind in TROUBLES}
        yield _labelled("instance_troubles", "instances that could not be measured whole", "kind", troubles)
        yield GaugeMetricFamily(
            f"{PREFIX}_last_delivery_timestamp_seconds", "time of the last acknowledgement", counts.last_delivery_s
        )
        if counts.clock_ahead_s is not None:
            yield GaugeMetricFamily(
                f"{PREFIX}_clock_ahead_seconds",
                "how far this machine's clock is ahead of the broker's; below 0: behind",
                counts.clock_ahead_s,
            )


def _labelled(name: str, about: str, label: str, values: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"{PREFIX}_{name}", about, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def serve(counts: Counts, agent_version: str, host: str, port: int, silent_s: float, *, fleet: str) -> PageServer:
    """Serve the pages from a thread of their own; raises SettingsError when the port is taken.

    The agent is ready while the broker acknowledged a record within ``silent_s``.
    """
    registry = CollectorRegistry()
    registry.register(CountsCollector(counts, agent_version))
    return serve_pages(registry, host, port, lambda: ready(counts, silent_s), fleet=fleet)


def ready(counts: Counts, silent_s: float, clock: Callable[[], float] = time.time) -> tuple[bool, dict[str, Any]]:
    """Return whether a record was delivered within ``silent_s`` and each required resource is measured; details."""
    delivered_s = counts.last_delivery_s
    age_s = clock() - delivered_s if delivered_s else None
    details: dict[str, Any] = {
        "last_delivery_age_s": age_s if age_s is None else round(age_s, 1),
        "backlog_records": counts.waiting,
    }
    if counts.clock_ahead_s is not None:
        details["clock_ahead_s"] = counts.clock_ahead_s
    if counts.lacks:
        details["lacks"] = dict(counts.lacks)
    required = any(name not in OPTIONAL for name in counts.lacks)
    return age_s is not None and age_s <= silent_s and not required, details
