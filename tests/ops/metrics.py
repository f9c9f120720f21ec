"""Every metric our processes expose, and which of them no panel and no rule uses."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import promql_parser
from prometheus_client import CollectorRegistry, ProcessCollector

from ops.exporter import fleet
from ops.exporter.exporter import Exporter
from ops.exporter.machines import MachineFamilies
from ops.exporter.settings import ExporterSettings, Statistic
from ops.exporter.state import Memory, State
from ops.record.recorder import Metrics as RecordMetrics
from schemas.messages.operator import OperatorFacts
from schemas.resources import RESOURCES
from schemas.tables.learned import ChanceBin, Chances
from schemas.tables.window_table import decode_table
from scorer.kubernetes.evictor.evictor import Metrics as EvictorMetrics
from scorer.kubernetes.extender.fleet import Metrics as ExtenderMetrics
from scorer.kubernetes.load_watcher.watcher import Metrics as LoadWatcherMetrics
from scorer.kubernetes.pods.watcher import Metrics as PodsMetrics
from scorer.ledger.view.view import LedgerView
from scorer.metrics import Metrics as ScorerMetrics
from scorer.planner.proposer import Metrics as PlannerMetrics
from scorer.planner.service import PlannerService
from scorer.ranking.profiles.catalogue import load_profiles, read_profile
from scorer.rpc.service import ScorerService
from scorer.snapshot.builder import build_snapshot
from streams.agent.metrics import CountsCollector
from streams.agent.sampling.counts import Counts
from streams.worker.metrics import Metrics as StreamMetrics
from tests.window_tables import window_table

_QUANTILES = "panels show quantiles, which come from the buckets"
_OF_PLANNERS = (
    "degraded", "ledger_instances", "ledger_lost_instances_total", "ledger_reloads_total", "ledger_torn_total",
    "machines", "newest_sample_timestamp_seconds", "queries_expired_total", "queries_long",
    "queries_malformed_total", "queries_refused_total", "queries_returned_total", "query_duration_seconds_count",
    "query_duration_seconds_sum", "ready", "refresh_duration_seconds_bucket", "refresh_duration_seconds_count",
    "refresh_duration_seconds_sum", "refresh_failures_total", "snapshot_timestamp_seconds",
)  # fmt: skip
UNUSED = {
    "windward_scorer_query_duration_seconds_count": "the same as windward_scorer_queries_total, which knows the code",
    "windward_scorer_query_duration_seconds_sum": _QUANTILES,
    "windward_scorer_refresh_duration_seconds_count": _QUANTILES,
    "windward_scorer_refresh_duration_seconds_sum": _QUANTILES,
    "windward_stream_flush_duration_seconds_count": _QUANTILES,
    "windward_stream_flush_duration_seconds_sum": _QUANTILES,
    "windward_stream_fold_duration_seconds_count": _QUANTILES,
    "windward_stream_fold_duration_seconds_sum": _QUANTILES,
    "windward_stream_load_duration_seconds_bucket": "partitions are loaded a few times in a worker's life",
    **dict.fromkeys((f"windward_planner_{name}" for name in _OF_PLANNERS), "its page has it; panels have a scorer's"),
}
"""Metric to the reason why no panel and no rule shows it."""


PROCESS = frozenset(sample.name for family in ProcessCollector(registry=None).collect() for sample in family.samples)
"""What every process's page has of the process itself, from prometheus_client."""


@cache
def exposed_metrics():
    """Return the name of every sample that one of our processes may show."""
    registry = CollectorRegistry()
    registry.register(CountsCollector(Counts(), "1"))
    stream, scorer = StreamMetrics("1"), ScorerMetrics("1", ScorerService.METHODS)
    scorer.watched(Chances(limit=0.9, std_factor=1.0, floor=0.05, at=0.0, bins={"cpu": [ChanceBin(1.0, 0.1, 0.1)]}))
    for gauge in (stream.lag, stream.lag_s):
        gauge.labels("0")
    for state in ("active", "silent"):
        stream.machines.labels(state)
    found = {
        sample.name
        for each in (
            *(registry, stream.registry, scorer.registry),
            *(
                RecordMetrics("1").registry,
                PlannerMetrics("1", PlannerService.METHODS).registry,
                LoadWatcherMetrics("1").registry,
            ),
            PodsMetrics("1").registry,
            ExtenderMetrics("1").registry,
            EvictorMetrics("1").registry,
        )
        for family in each.collect()
        for sample in family.samples
    }
    return frozenset({name for name in found if not name.endswith("_created")} | exporters())


def exporters():
    profiles = load_profiles()
    operator = {"a": OperatorFacts(thresholds=dict.fromkeys(RESOURCES, 0.5))}
    table = window_table(["a"], capacity=[1.0] * len(RESOURCES), at=1e9)
    snapshot = build_snapshot([decode_table(table)], {}, operator)
    memory = {"windows": Memory(1, 2)}
    from tests.ops.exporter import test_instances
    from tests.ops.exporter.test_families import placed

    state = State(snapshot, LedgerView([placed("i", "a")]), profiles.choose(), 1e9, memory=memory)
    selection = ExporterSettings(statistics=Statistic.__args__)
    own = Exporter(None, selection, profiles, "1")._own(0.1, 0.1, up=True)
    families = [*fleet.families(state, selection), *MachineFamilies(selection).families(state), *own]
    by_class = replace(state, profile=read_profile(Path(__file__).parents[2] / "docs/examples/classes.toml"))
    families += [*fleet.families(by_class, selection), *MachineFamilies(selection).families(by_class)]
    offline = test_instances.reporting()
    measured = State(offline.snapshot, offline.ledger, profiles.choose(), offline.now_s)
    shown = MachineFamilies(ExporterSettings(top_instances=1)).families(measured)
    families += [family for family in shown if "instance" in family.name or "system" in family.name]
    assert not [family.name for family in families if family.empty]
    return {family.name for family in families}


def names_in(node):
    if isinstance(node, promql_parser.VectorSelector):
        named = [matcher.value for matcher in node.matchers.matchers if matcher.name == "__name__"]
        return {node.name} if node.name else {part for text in named for part in _alternatives(text)}
    children = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "param", "vector_selector")]
    children += list(getattr(node, "args", None) or ())
    return set().union(*(names_in(child) for child in children if child is not None)) if children else set()


def _alternatives(pattern):
    """Return what ``head_(a|b)_tail`` matches."""
    head, found, rest = pattern.partition("(")
    if not found:
        return [pattern]
    inside, _, tail = rest.partition(")")
    return [f"{head}{each}{tail}" for each in inside.split("|")]
