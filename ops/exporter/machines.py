"""The families of single machines: the figures of ``windward machines show``, as ratios of allocatable.

A machine whose data is stale keeps its facts, its allocated amounts and the time of its last sample; its load, risk,
credit and coverage are left out, so that Prometheus shows a gap and not the last value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ops.exporter import classes, instances
from ops.exporter.exposition import SECONDS, Family, MachineNames
from ops.exporter.labels import label_columns
from ops.exporter.selection import Selection, unit_name, window_name
from ops.exporter.state import State
from schemas.resources import RESOURCES
from schemas.tables.window_table import PERCENTILES
from scorer.ledger.view.seats import Seats
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.roster import Roster
from scorer.snapshot.rules import MachineRules

DAYS = ("today", "yesterday")


class MachineFamilies:
    """Makes the families; keeps the texts of the machines' names and labels."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._names: WeakKeyDictionary[Roster, MachineNames] = WeakKeyDictionary()
        self._labels: WeakKeyDictionary[MachineRules, list[bytes]] = WeakKeyDictionary()

    def families(self, state: State) -> Iterator[Family]:
        """Return every family, over the machines of the shard."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = self._selection.rows(state.snapshot)
            names = self._names_of(state.snapshot.roster)
            yield from self._load(state, names, rows & state.fresh)
            yield from self._promises(state, names, rows)
            yield from classes.of_machines(state, names, rows & state.fresh)
            yield from instances.of_machines(state, names, rows)
            yield from instances.largest(state, self._selection.top_instances, rows)
            yield from self._facts(state, names, rows)

    def _names_of(self, roster: Roster) -> MachineNames:
        found = self._names.get(roster)
        if found is None:
            self._names.clear()
            found = self._names[roster] = MachineNames(roster.names)
        return found

    def _load(self, state: State, names: MachineNames, fresh: Bools) -> Iterator[Family]:
        snapshot, selection = state.snapshot, self._selection
        windows = selection.windows(snapshot)
        ratio = Family("windward_machine_utilization_ratio", "Measured load of the window, of what is allocatable.")
        deviation = Family(
            "windward_machine_utilization_stddev_ratio", "Its standard deviation, of the readings each second."
        )
        for window_s in windows:
            for name in selection.statistics:
                if name == "peak":
                    continue
                family, labels = (deviation, {}) if name == "std" else (ratio, {"statistic": name})
                values = statistic(state, name, window_s)
                for position, resource in enumerate(RESOURCES):
                    more = {"resource": resource, "window": window_name(window_s)} | labels
                    family.add_column(names, values[position], fresh, labels=more)
        yield ratio
        yield deviation
        if "peak" in selection.statistics:
            peak = Family("windward_machine_peak_ratio", "Highest one-minute mean of the day, of what is allocatable.")
            for day in DAYS:
                values = snapshot.column(f"peak_{day}") * snapshot.inverse_allocatable
                for position, resource in enumerate(RESOURCES):
                    peak.add_column(names, values[position], fresh, labels={"resource": resource, "day": day})
            yield peak
        coverage = Family("windward_machine_coverage_ratio", "Filled share of the window; warming below a half.")
        for window_s in windows:
            coverage.add_column(
                names, snapshot.windows(window_s).coverage, fresh, labels={"window": window_name(window_s)}
            )
        yield coverage
        risk = Family("windward_machine_risk_ratio", "Risk by mean and deviation, credits included; 0 is best.")
        for position, values in enumerate(risks(state)):
            risk.add_column(names, values, fresh, labels={"resource": RESOURCES[position]})
        yield risk
        credit = Family("windward_machine_credit_ratio", "Expected of instances that the window does not show yet.")
        for position, values in enumerate(state.seen.credit * snapshot.inverse_allocatable):
            credit.add_column(names, values, fresh, labels={"resource": RESOURCES[position]})
        yield credit

    @staticmethod
    def _promises(state: State, names: MachineNames, rows: Bools) -> Iterator[Family]:
        snapshot, seen = state.snapshot, state.seen
        requested = Family("windward_machine_requested_ratio", "Requests of the instances placed, of allocatable.")
        for position, values in enumerate(seen.allocated * snapshot.inverse_allocatable):
            requested.add_column(names, values, rows, labels={"resource": RESOURCES[position]})
        yield requested
        for position, resource in enumerate(RESOURCES):
            allocatable = Family(f"windward_machine_allocatable_{resource}_{unit_name(resource)}", "What may be used.")
            allocatable.add_column(names, seen.allocatable[position], rows, digits=None)
            yield allocatable
        count = Family("windward_machine_instances", "Instances reserved or confirmed.")
        count.add_column(names, seen.count, rows, digits=None)
        yield count
        placed = Family("windward_machine_last_placement_timestamp_seconds", "When the newest instance was reserved.")
        placed.add_column(names, last_placements(state), rows, SECONDS)
        yield placed

    def _facts(self, state: State, names: MachineNames, rows: Bools) -> Iterator[Family]:
        snapshot = state.snapshot
        last = Family("windward_machine_last_sample_timestamp_seconds", "Event time of the newest sample.")
        last.add_column(names, snapshot.seen_at, rows, SECONDS)
        yield last
        fresh = Family("windward_machine_fresh", "1 while the data is recent enough for the profile.")
        fresh.add_column(names, state.fresh.astype(np.float64), rows, (1, 0))
        yield fresh
        cordoned = Family("windward_machine_cordoned", "1 while an operator takes it out.")
        cordoned.add_column(names, snapshot.rules.cordon.astype(np.float64), rows, (1, 0))
        yield cordoned
        threshold = Family("windward_machine_threshold_ratio", "Usage threshold set for this machine alone.")
        for position, values in enumerate(snapshot.rules.thresholds):
            threshold.add_column(names, values, rows, labels={"resource": RESOURCES[position]})
        yield threshold
        info = Family("windward_machine_info", "Labels of the machine, of the setting labels.")
        info.add_texts(names, self._labels_of(state), rows)
        yield info

    def _labels_of(self, state: State) -> list[bytes]:
        rules = state.snapshot.rules
        found = self._labels.get(rules)
        if found is None:
            self._labels.clear()
            found = self._labels[rules] = label_columns(rules, self._selection.labels, len(state.snapshot))
        return found


def statistic(state: State, name: str, window_s: int) -> Floats:
    """Return [R, M]: a measured statistic of one window over allocatable, credits not included."""
    snapshot = state.snapshot
    view = snapshot.windows(window_s)
    if name in ("mean", "std"):
        measured: Floats = getattr(view, name)
    elif name == "max":
        measured = snapshot.picked("max", view)
    else:
        measured = snapshot.picked("percentile", view)[:, PERCENTILES.index(int(name[1:]))]
    return measured * snapshot.inverse_allocatable


def risks(state: State) -> Floats:
    """Return [R, M]: the profile's risk of every resource for an empty request; NaN without data."""
    own = state.profile.find(LoadVariationRisk) or LoadVariationRisk()
    resources: Any = RESOURCES
    everything = dataclasses.replace(own, resources=resources, newcomer="request", rounding=False)
    return everything.risks(state.seen)


def thresholds(profile: Profile) -> dict[str, float]:
    """Return the usage thresholds of a profile by resource, those of the mean."""
    own = profile.find(UsageThreshold)
    return {name: value for name, value in own.thresholds.items() if value} if own else {}


def last_placements(state: State) -> Floats:
    """Return [M]: when the newest live instance of each machine was reserved; NaN without any."""
    placed = Seats(state.ledger, state.snapshot.roster).placed()
    newest = np.full(len(state.snapshot), -np.inf)
    np.maximum.at(newest, placed.rows, placed.reserved_at)
    return np.where(newest > 0, newest, np.nan)
