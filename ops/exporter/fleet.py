"""The families of the fleet as a whole: a few hundred series, however many machines there are.

All figures of load are over the fresh machines; how many are left out is among the states.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from ops.exporter import instances
from ops.exporter.exposition import Family, lines, single
from ops.exporter.machines import risks, thresholds
from ops.exporter.settings import ExporterSettings, label_names, unit_name, window_name
from ops.exporter.state import State
from schemas.resources import RESOURCES
from schemas.rpc.request import InvalidRequest
from scorer.ledger.record.instance import LIVE
from scorer.placement.choosing.trial import ranked
from scorer.planning.soon_hot import chances, loads_of, margins
from scorer.ranking.explain import refusals
from scorer.ranking.profiles.plugins import PluginError
from scorer.snapshot.arrays import Bools, Floats

SOON_HOT_MAX = 10
"""Machines that are named by their chance of being hot soon."""
QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
EDGES = tuple(step / 20 for step in range(1, 21))
"""Upper ends of the heatmap's buckets: every twentieth of allocatable; the last bucket has all others."""


def families(
    state: State, settings: ExporterSettings, tell: Callable[[str], None] = lambda trouble: None
) -> Iterator[Family]:
    """Return every family of the fleet; ``tell`` is called with why the probe could not be ranked, or ""."""
    with np.errstate(divide="ignore", invalid="ignore"):
        yield _states(state)
        name = "windward_fleet_last_sample_timestamp_seconds"
        seen = Family(name, "Event time of each machine's newest sample, over all machines.", "summary")
        _add_quantiles(seen, np.sort(state.snapshot.seen_at[state.snapshot.has_data]))
        yield seen
        yield from _load(state, settings)
        yield from _soon_hot(state, settings.soon_hot_limit)
        yield from _promises(state)
        yield from instances.of_fleet(state)
        yield from instances.classes_of_fleet(state)
        yield from _probe(state, settings, tell)
        yield from _servers(state)
        labels = [(1, {"label": name}) for name in ("machine", *label_names(settings.labels).values())]
        yield lines("windward_fleet_label_info", "The labels of windward_machine_info.", labels)


def _states(state: State) -> Family:
    """Return the number of fresh, stale and silent machines, which add up to all, and of warming and cordoned ones."""
    snapshot, fresh = state.snapshot, state.fresh
    about = "Machines: fresh, stale and silent (never seen) add up to all; warming and cordoned are among these."
    states = {
        "fresh": fresh,
        "stale": snapshot.has_data & ~fresh,
        "silent": ~snapshot.has_data,
        "warming": state.seen.warming & fresh,
        "cordoned": snapshot.rules.cordon,
    }
    return lines(
        "windward_fleet_machines", about, [(int(which.sum()), {"state": name}) for name, which in states.items()]
    )


def _most(state: State) -> Bools:
    """Return [M]: the fresh machines; none while most machines with data are stale, since the rest is not the fleet."""
    return state.fresh & (2 * np.count_nonzero(state.fresh) >= np.count_nonzero(state.snapshot.has_data))


def _load(state: State, settings: ExporterSettings) -> Iterator[Family]:
    snapshot, fresh = state.snapshot, _most(state)
    ratio = Family(
        "windward_fleet_utilization_ratio", "Mean load of the window, quantiles over the fresh machines.", "summary"
    )
    mean = Family("windward_fleet_utilization_mean_ratio", "Mean over the fresh machines.")
    std = Family(
        "windward_fleet_utilization_stddev_ratio", "Standard deviation over the fresh machines: the imbalance."
    )
    heat = Family("windward_fleet_machines_by_utilization", "Fresh machines with a load up to le, cumulative.")
    for window_s in settings.shown_windows(snapshot):
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
    limits = thresholds(state.profile).items()
    told = [(value, {"resource": resource, "profile": state.profile.name}) for resource, value in limits]
    yield lines("windward_fleet_threshold_ratio", "Usage threshold of the profile.", told)


def _soon_hot(state: State, limit: float) -> Iterator[Family]:
    """Return the part of the fresh machines that will soon be hot, and the chances of the first ones by name.

    Exporters that show parts of the fleet all show the same machines.
    """
    margin = margins(*loads_of(state.snapshot), limit)
    rows = np.flatnonzero(state.fresh & np.isfinite(margin))
    rows = rows[np.argsort(margin[rows], kind="stable")]
    chance = chances(margin[rows])
    about = "Part of the fresh machines whose CPU load is more likely above the limit within an hour than not."
    if rows.size and _most(state).any():
        yield single("windward_fleet_soon_hot_ratio", about, float((chance > 0.5).mean()))
    about = "Chance of CPU load above the limit within an hour; the ten machines with the highest."
    first = zip(rows[:SOON_HOT_MAX].tolist(), chance[:SOON_HOT_MAX].tolist(), strict=True)
    told = [(round(said, 4), {"machine": state.snapshot.names[row]}) for row, said in first]
    yield lines("windward_machine_soon_hot_ratio", about, told)


def _promises(state: State) -> Iterator[Family]:
    """Return allocatable and allocated of all machines, and the headroom on fresh ones that are not cordoned."""
    seen, fresh = state.seen, _most(state)
    requested = Family("windward_fleet_requested_ratio", "Requests of all instances, of what all machines have.")
    about = (
        "What is neither used nor allocated on fresh machines not cordoned, of what all have; not while most are stale."
    )
    headroom = Family("windward_fleet_headroom_ratio", about)
    for position, resource in enumerate(RESOURCES):
        allocatable = seen.allocatable[position]
        total = float(np.nansum(allocatable))
        name = f"windward_fleet_allocatable_{resource}_{unit_name(resource)}"
        yield single(name, "What all machines have together.", total)
        if total > 0:
            left = np.maximum(allocatable - seen.taken[position], 0.0)
            requested.add(float(seen.allocated[position].sum()) / total, resource=resource)
            if fresh.any():
                headroom.add(float(np.nansum(left[fresh & ~seen.cordon])) / total, resource=resource)
    yield requested
    yield headroom
    about = "Instances in the ledger by state; a moving one runs, and holds its target, too."
    instances = state.ledger.instances.values()
    counts: Counter[str] = Counter("moving" if one.moving else one.state for one in instances)
    named = [(counts[name], {"state": name}) for name in sorted({*LIVE, "moving", *counts})]
    yield lines("windward_fleet_instances", about, named)


def _probe(state: State, settings: ExporterSettings, tell: Callable[[str], None]) -> Iterator[Family]:
    """Return the result of ranking the probe request: feasible machines, and refusals by filter.

    Nothing when a plugin of another package fails: the rest of the page is served.
    """
    try:
        ranking = ranked(settings.probe_request, state)
    except (PluginError, InvalidRequest) as error:
        tell(str(error))
        return
    tell("")
    name = state.profile.name
    about = "Machines that would take the probe request."
    yield single("windward_fleet_probe_feasible_machines", about, ranking.feasible_count, profile=name)
    counts = {each.filter.name: 0 for each in state.profile.filters}
    for refusal in refusals(ranking):
        counts[refusal.filter] = counts.get(refusal.filter, 0) + refusal.machines
    about = "Machines that refuse the probe request, by the first filter that does."
    refused = [(count, {"profile": name, "filter": first}) for first, count in counts.items()]
    yield lines("windward_fleet_probe_refusals", about, refused)


def _servers(state: State) -> Iterator[Family]:
    used = [(memory.used, {"server": server}) for server, memory in state.memory.items()]
    yield lines("windward_redis_memory_used_bytes", "Memory that a Redis server uses.", used)
    limits = [(memory.limit, {"server": server}) for server, memory in state.memory.items()]
    about = "What it may use: its maxmemory, else all of its host's."
    yield lines("windward_redis_memory_limit_bytes", about, limits)


def _add_quantiles(family: Family, ordered: Floats, **labels: str) -> None:
    """Add the quantiles of sorted values, each the value of one machine (numpy's ``inverted_cdf``)."""
    for quantile in QUANTILES if ordered.size else ():
        place = max(0, int(np.ceil(quantile * ordered.size)) - 1)
        family.add(float(ordered[place]), **labels, quantile=str(quantile))
