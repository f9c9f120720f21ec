"""The families of the fleet as a whole: a few hundred series, however many machines there are.

All figures of load are over the fresh machines; how many are left out is among the states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from ops.exporter import classes, instances
from ops.exporter.exposition import Family
from ops.exporter.machines import risks, thresholds
from ops.exporter.selection import Selection, unit_name, window_name
from ops.exporter.state import State
from schemas.resources import RESOURCES
from schemas.rpc.request import InvalidRequest
from scorer.ledger.record.instance import LIVE
from scorer.ranking.explanation.refusals import refusals
from scorer.ranking.profiles.third_party import PluginError
from scorer.ranking.rank import rank
from scorer.snapshot.arrays import Floats

QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
EDGES = tuple(step / 20 for step in range(1, 21))
"""Upper ends of the heatmap's buckets: every twentieth of allocatable; the last bucket has all others."""


def families(
    state: State, selection: Selection, tell: Callable[[str], None] = lambda trouble: None
) -> Iterator[Family]:
    """Return every family of the fleet; ``tell`` is called with why the probe could not be ranked, or ""."""
    with np.errstate(divide="ignore", invalid="ignore"):
        yield _states(state)
        yield _last_samples(state)
        yield from _load(state, selection)
        yield from _promises(state)
        yield from instances.of_fleet(state)
        yield from classes.of_fleet(state)
        yield from _probe(state, selection, tell)
        yield from _servers(state)


def _states(state: State) -> Family:
    """Return the number of fresh, stale and silent machines, whose sum is all; and of warming and cordoned ones."""
    snapshot, fresh = state.snapshot, state.fresh
    family = Family(
        "windward_fleet_machines",
        "Machines: fresh, stale and silent (never seen) add up to all; warming and cordoned are among these.",
    )
    family.add(int(fresh.sum()), state="fresh")
    family.add(int((snapshot.has_data & ~fresh).sum()), state="stale")
    family.add(int((~snapshot.has_data).sum()), state="silent")
    family.add(int((state.seen.warming & fresh).sum()), state="warming")
    family.add(int(snapshot.rules.cordon.sum()), state="cordoned")
    return family


def _last_samples(state: State) -> Family:
    family = Family(
        "windward_fleet_last_sample_timestamp_seconds",
        "Event time of each machine's newest sample, over all machines.",
        "summary",
    )
    _add_quantiles(family, np.sort(state.snapshot.seen_at[state.snapshot.has_data]))
    return family


def _load(state: State, selection: Selection) -> Iterator[Family]:
    snapshot, fresh = state.snapshot, state.fresh
    ratio = Family(
        "windward_fleet_utilization_ratio", "Mean load of the window, quantiles over the fresh machines.", "summary"
    )
    mean = Family("windward_fleet_utilization_mean_ratio", "Mean over the fresh machines.")
    std = Family(
        "windward_fleet_utilization_stddev_ratio", "Standard deviation over the fresh machines: the imbalance."
    )
    heat = Family("windward_fleet_machines_by_utilization", "Fresh machines with a load up to le, cumulative.")
    for window_s in selection.windows(snapshot):
        utilization = snapshot.windows(window_s).mean * snapshot.inverse_allocatable
        for position, resource in enumerate(RESOURCES):
            values = utilization[position][fresh]
            values = np.sort(values[np.isfinite(values)])
            labels = {"resource": resource, "window": window_name(window_s)}
            _add_quantiles(ratio, values, **labels)
            if values.size:
                mean.add(float(values.mean()), **labels)
                std.add(float(values.std()), **labels)
            for edge, count in zip(EDGES, np.searchsorted(values, EDGES, side="right").tolist(), strict=True):
                heat.add(count, **labels, le=str(edge))
            heat.add(values.size, **labels, le="+Inf")
    yield from (ratio, mean, std, heat)
    risk = Family(
        "windward_fleet_risk_ratio", "Risk of each fresh machine's worst resource, quantiles over them.", "summary"
    )
    worst = np.fmax.reduce(risks(state), axis=0)[fresh]
    _add_quantiles(risk, np.sort(worst[np.isfinite(worst)]))
    yield risk
    threshold = Family("windward_fleet_threshold_ratio", "Usage threshold of the profile.")
    for resource, value in thresholds(state.profile).items():
        threshold.add(value, resource=resource, profile=state.profile.name)
    yield threshold


def _promises(state: State) -> Iterator[Family]:
    """Return allocatable and allocated of all machines, and the headroom on fresh ones that are not cordoned."""
    seen = state.seen
    usable = state.fresh & ~seen.cordon
    requested = Family("windward_fleet_requested_ratio", "Requests of all instances, of what all machines have.")
    headroom = Family(
        "windward_fleet_headroom_ratio",
        "What neither is used nor promised on fresh machines not cordoned, of what all machines have.",
    )
    for position, resource in enumerate(RESOURCES):
        allocatable = seen.allocatable[position]
        total = float(np.nansum(allocatable))
        family = Family(
            f"windward_fleet_allocatable_{resource}_{unit_name(resource)}", "What all machines have together."
        )
        family.add(total)
        yield family
        if total > 0:
            left = np.maximum(allocatable - seen.taken[position], 0.0)
            requested.add(float(seen.allocated[position].sum()) / total, resource=resource)
            headroom.add(float(np.nansum(left[usable])) / total, resource=resource)
    yield requested
    yield headroom
    live = Family(
        "windward_fleet_instances", "Instances in the ledger by state; a moving one runs, and holds its target, too."
    )
    instances = state.ledger.instances.values()
    counts: Counter[str] = Counter("moving" if one.moving else one.state for one in instances)
    for name in sorted({*LIVE, "moving", *counts}):
        live.add(counts[name], state=name)
    yield live


def _probe(state: State, selection: Selection, tell: Callable[[str], None]) -> Iterator[Family]:
    """Return the result of ranking the probe request: feasible machines, and refusals by filter.

    Nothing when a plugin of another package fails: the rest of the page is served.
    """
    try:
        ranking = rank(selection.probe, state)
    except (PluginError, InvalidRequest) as error:
        tell(str(error))
        return
    tell("")
    name = state.profile.name
    feasible = Family("windward_fleet_probe_feasible_machines", "Machines that would take the probe request.")
    feasible.add(ranking.feasible_count, profile=name)
    yield feasible
    refused = Family(
        "windward_fleet_probe_refusals", "Machines that refuse the probe request, by the first filter that does."
    )
    counts = {each.filter.name: 0 for each in state.profile.filters}
    for refusal in refusals(ranking):
        counts[refusal.filter] = counts.get(refusal.filter, 0) + refusal.machines
    for filter_name, count in counts.items():
        refused.add(count, profile=name, filter=filter_name)
    yield refused


def _servers(state: State) -> Iterator[Family]:
    used = Family("windward_redis_memory_used_bytes", "Memory that a Redis server uses.")
    limit = Family("windward_redis_memory_limit_bytes", "What it may use: its maxmemory, else all of its host's.")
    for server, memory in state.memory.items():
        used.add(memory.used, server=server)
        limit.add(memory.limit, server=server)
    yield used
    yield limit


def _add_quantiles(family: Family, ordered: Floats, **labels: str) -> None:
    """Add the quantiles of sorted values, each the value of one machine (numpy's ``inverted_cdf``)."""
    for quantile in QUANTILES if ordered.size else ():
        place = max(0, int(np.ceil(quantile * ordered.size)) - 1)
        family.add(float(ordered[place]), **labels, quantile=str(quantile))
