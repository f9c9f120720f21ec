"""The agent's Prometheus page, made from its counts at each scrape. Imported only when in use: it costs 2 MB."""

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
_C, _G = CounterMetricFamily, GaugeMetricFamily
_Row = tuple[type[CounterMetricFamily] | type[GaugeMetricFamily], str, str, str, Callable[[Counts], Any]]
ROWS: tuple[_Row, ...] = (
    (_C, "samples", "samples made", "", lambda counts: counts.samples),
    (_C, "readings", "readings taken", "resource", lambda counts: _by_resource(counts.readings)),
    (_C, "collector_failures", "readings that failed", "resource",
     lambda counts: _by_resource(counts.collector_failures)),
    (_C, "impossible_readings", "readings left out: no time for their rise", "resource",
     lambda counts: {each: counts.impossible[each] for each in RESOURCES}),
    (_C, "records", "records by result", "result",
     lambda counts: {result: getattr(counts, result) for result in ("delivered", "dropped", "refused")}),
    (_C, "send_failures", "rounds of sending that failed", "", lambda counts: counts.send_failures),
    (_C, "connections", "producers built", "", lambda counts: counts.connections),
    (_G, "backlog_records", "records waiting for the broker", "", lambda counts: counts.waiting),
    (_G, "in_flight_records", "records sent and not acknowledged", "", lambda counts: counts.in_flight),
    (_G, "instances", "instances in the last report", "", lambda counts: counts.instances),
    (_C, "instance_reports", "reports of what instances used", "", lambda counts: counts.instance_reports),
    (_C, "instance_troubles", "instances that could not be measured whole", "kind",
     lambda counts: {kind: counts.instance_troubles[kind] for kind in TROUBLES}),
    (_G, "last_delivery_timestamp_seconds", "time of the last acknowledgement", "",
     lambda counts: counts.last_delivery_s),
    (_G, "clock_ahead_seconds", "how far this machine's clock is ahead of the broker's; below 0: behind", "",
     lambda counts: counts.clock_ahead_s),
)  # fmt: skip
"""Kind, name, help, label, and the value now, or values by label; None: no family."""


def _by_resource(values: Mapping[str, int]) -> dict[str, int]:
    return {each: values[each] for each in sorted({*RESOURCES, *values})}


class CountsCollector(Collector):
    def __init__(self, counts: Counts, agent_version: str) -> None:
        self._counts = counts
        self._agent_version = agent_version

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(f"{PREFIX}_build", "version of the agent", {"version": self._agent_version})
        for kind, name, about, label, of in ROWS:
            if (found := of(self._counts)) is not None:
                family = kind(f"{PREFIX}_{name}", about, labels=[label] if label else [])
                for key, value in found.items() if label else [("", found)]:
                    family.add_metric([key] if label else [], value)
                yield family


def serve(counts: Counts, agent_version: str, host: str, port: int, silent_s: float, *, fleet: str) -> PageServer:
    """Serve the pages from a thread of their own; raises SettingsError when the port is taken.

    The agent is ready if the broker has acknowledged a record within the last ``silent_s``.
    """
    registry = CollectorRegistry()
    registry.register(CountsCollector(counts, agent_version))
    return serve_pages(registry, host, port, lambda: ready(counts, silent_s), fleet=fleet)


def ready(counts: Counts, silent_s: float, clock: Callable[[], float] = time.time) -> tuple[bool, dict[str, Any]]:
    """Return whether a record was delivered within ``silent_s`` and each required resource is measured; and details."""
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
