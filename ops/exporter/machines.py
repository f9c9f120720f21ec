"""The families of single machines: the figures of ``windward machines show``, as ratios of allocatable.

A machine whose data is stale keeps its facts, its allocated amounts and the time of its last sample; its load, risk,
credit and coverage are left out, so that Prometheus shows a gap and not the last value.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ops.exporter import instances
from ops.exporter.exposition import SECONDS, Columns, Family, MachineNames
from ops.exporter.settings import ExporterSettings, label_columns, label_names, unit_name, window_name
from ops.exporter.state import State
from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.tables.window_table import PERCENTILES
from scorer.ledger.view.residents import Residents
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.profiles.profile import Profile, WeightedScore
from scorer.ranking.rank import rank
from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from scorer.snapshot.arrays import Floats
from scorer.snapshot.rules import MachineRules, Roster

DAYS = ("today", "yesterday")


class MachineFamilies:
    """Makes the families; keeps the texts of the machines' names and labels."""

    def __init__(self, settings: ExporterSettings) -> None:
        self._settings = settings
        self._names: WeakKeyDictionary[Roster, MachineNames] = WeakKeyDictionary()
        self._labels: WeakKeyDictionary[MachineRules, list[bytes]] = WeakKeyDictionary()

    def families(self, state: State) -> Iterator[Family]:
        """Return every family, over the machines of the shard."""
        with np.errstate(divide="ignore", invalid="ignore"):
            roster = state.snapshot.roster
            names = _kept(self._names, roster, lambda: MachineNames(roster.names, self._settings.shared))
            shown = Columns(names, self._settings.rows(state.snapshot))
            fresh = shown._replace(rows=shown.rows & state.fresh)
            yield from self._load(state, fresh)
            yield from self._promises(state, shown)
            yield from instances.classes_of_machines(state, fresh)
            yield from instances.of_machines(state, shown, fresh)
            yield from instances.largest(state, self._settings.top_instances, fresh.rows)
            yield from self._facts(state, shown)

    def _load(self, state: State, fresh: Columns) -> Iterator[Family]:
        snapshot, settings, (names, rows) = state.snapshot, self._settings, fresh
        windows = settings.shown_windows(snapshot)
        ratio = Family("windward_machine_utilization_ratio", "Measured load of the window, of what is allocatable.")
        deviation = Family(
            "windward_machine_utilization_stddev_ratio", "Its standard deviation, of the readings each second."
        )
        for window_s in windows:
            for name in settings.statistics:
                if name == "peak":
                    continue
                family, labels = (deviation, {}) if name == "std" else (ratio, {"statistic": name})
                for resource, values in zip(RESOURCES, statistic(state, name, window_s), strict=True):
                    more = {"resource": resource, "window": window_name(window_s)} | labels
                    family.add_column(names, values, rows, labels=more)
        yield from (ratio, deviation)
        if "peak" in settings.statistics:
            peak = Family("windward_machine_peak_ratio", "Highest one-minute mean of the day, of what is allocatable.")
            for day in DAYS:
                peaks = snapshot.column(f"peak_{day}") * snapshot.inverse_allocatable
                for resource, values in zip(RESOURCES, peaks, strict=True):
                    peak.add_column(names, values, rows, labels={"resource": resource, "day": day})
            yield peak
        coverage = Family("windward_machine_coverage_ratio", "Filled share of the window; warming below a half.")
        for window_s in windows:
            window = {"window": window_name(window_s)}
            coverage.add_column(names, snapshot.windows(window_s).coverage, rows, labels=window)
        yield coverage
        about = "Risk by mean and deviation, credits included; 0 is best."
        yield fresh.each("windward_machine_risk_ratio", about, risks(state))
        about = "Expected of instances that the window does not show yet."
        yield fresh.each("windward_machine_credit_ratio", about, state.seen.credit * snapshot.inverse_allocatable)

    @staticmethod
    def _promises(state: State, shown: Columns) -> Iterator[Family]:
        seen, about = state.seen, "Requests of the instances placed, of allocatable."
        requested = seen.allocated * state.snapshot.inverse_allocatable
        yield shown.each("windward_machine_requested_ratio", about, requested)
        for resource, amounts in zip(RESOURCES, seen.allocatable, strict=True):
            name = f"windward_machine_allocatable_{resource}_{unit_name(resource)}"
            yield shown.one(name, "What may be used.", amounts, None)
        yield shown.one("windward_machine_instances", "Instances reserved or confirmed.", seen.count, None)
        last, about = last_placements(state), "When the newest instance was reserved."
        yield shown.one("windward_machine_last_placement_timestamp_seconds", about, last, SECONDS)

    def _facts(self, state: State, shown: Columns) -> Iterator[Family]:
        snapshot, about = state.snapshot, "Event time of the newest sample."
        yield shown.one("windward_machine_last_sample_timestamp_seconds", about, snapshot.seen_at, SECONDS)
        about = "1 while the data is recent enough for the profile."
        yield shown.one("windward_machine_fresh", about, state.fresh, (1, 0))
        about = "1 while an operator takes it out."
        yield shown.one("windward_machine_cordoned", about, snapshot.rules.cordon, (1, 0))
        about = "Usage threshold set for this machine alone."
        yield shown.each("windward_machine_threshold_ratio", about, snapshot.rules.thresholds)
        info = Family("windward_machine_info", "Labels of the machine, of the setting labels.")
        rules, keys = snapshot.rules, label_names(self._settings.labels)
        texts = _kept(self._labels, rules, lambda: label_columns(rules, keys, len(snapshot)))
        info.add_texts(shown.names, texts, shown.rows)
        yield info


def _kept(found: WeakKeyDictionary[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """Return the value that ``make`` computes for a key. The cache holds one value, that of the last key."""
    if key not in found:
        found.clear()
        found[key] = make()
    return found[key]


def statistic(state: State, name: str, window_s: int) -> Floats:
    """Return [R, M]: a measured statistic of one window over allocatable, credits not included."""
    snapshot = state.snapshot
    view = snapshot.windows(window_s)
    if name in ("mean", "std"):
        measured: Floats = getattr(view, name)
    elif name == "max":
        measured = view.picked("max")
    else:
        measured = view.picked("percentile")[:, PERCENTILES.index(int(name[1:]))]
    return measured * snapshot.inverse_allocatable


def risks(state: State) -> Floats:
    """Return [R, M]: the profile's risk of every resource for an empty request; NaN without data."""
    own = state.profile.find(LoadVariationRisk) or LoadVariationRisk()
    resources: Any = RESOURCES
    everything = dataclasses.replace(own, resources=resources, newcomer="request", rounding=False)
    profile = dataclasses.replace(state.profile, filters=(), scores=(WeightedScore(everything),))
    ranking = rank(Request(), state.by(profile))
    return ranking.said_of_all(ranking.terms[0])[:, : len(RESOURCES)].T


def thresholds(profile: Profile) -> dict[str, float]:
    """Return the usage thresholds of a profile by resource: those that are compared with the mean."""
    own = profile.find(UsageThreshold)
    return {name: value for name, value in own.thresholds.items() if value} if own else {}


def last_placements(state: State) -> Floats:
    """Return [M]: when the newest live instance of each machine was reserved; NaN without any."""
    placed = Residents(state.ledger, state.snapshot.roster).placed()
    newest = np.full(len(state.snapshot), -np.inf)
    np.maximum.at(newest, placed.rows, placed.reserved_at)
    return np.where(newest > 0, newest, np.nan)
