"""The inputs of a plan: loads of the machines, usage of their instances, and which machines have fresh data."""

from dataclasses import dataclass

import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.instance_table import FIRST
from scorer.classes.class_usage import current_rows
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.slots import PlacedInstances
from scorer.planning.balance.loads import Loads
from scorer.planning.candidates import instances_on
from scorer.ranking.inputs import RankingInputs, machines_of
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.snapshot.arrays import Bools, Floats, known_or
from scorer.snapshot.snapshot import Snapshot

VARIATION = 1.0
"""The largest coefficient of variation of a running instance: its usage is known better than a new one's."""

COUNT_MIN = 6
"""The least number of reports of a figure that is used: the first minutes of an instance are not typical."""


@dataclass(frozen=True)
class Scene:
    """R resources, K of them with a weight, M machines, N instances."""

    inputs: RankingInputs
    machines: Machines
    fresh: Bools
    """[M] Whether there is a fresh figure of the machine."""
    resources: tuple[str, ...]
    """K"""
    loads: Loads
    instances: list[Instance]
    placed: PlacedInstances
    usage: Floats
    """[R, N] Measured, or else expected by the profile."""
    variance: Floats
    """[R, N] Of the usage."""
    measured: Bools
    """[N] Whether the usage is measured."""

    @property
    def snapshot(self) -> Snapshot:
        return self.inputs.snapshot

    @property
    def rows(self) -> list[int]:
        """[K] Places of the resources with a weight."""
        return [RESOURCES.index(name) for name in self.resources]


def scene_of(inputs: RankingInputs) -> Scene:
    """Return the scene of a fleet at a moment.

    Weights, limit and floor of the loads are those of the profile's `ExpectedOverload`, or its defaults; its
    coefficient of variation, too, up to `VARIATION`. The variance of a machine is ``deviation^2 + floor^2``: the
    floor is the least error of a mean over a window. Machines without fresh data have no load.
    """
    score = inputs.profile.find(ExpectedOverload) or ExpectedOverload()
    resources = tuple(name for name in RESOURCES if score.weights.get(name, 0) > 0)
    rows = [RESOURCES.index(name) for name in resources]
    weights = np.array([score.weights[name] for name in resources])
    machines = machines_of(inputs)
    fresh = machines.has_data & (machines.age_s <= inputs.profile.stale_s)
    loads = Loads.of(
        np.where(fresh, machines.utilization[rows], np.nan),
        known_or(machines.deviation[rows] * score.std_factor, 0.0) ** 2 + score.floor**2,
        machines.allocatable[rows],
        weights / weights.sum(),
        score.limit,
    )
    instances, placed = instances_on(inputs.snapshot, inputs.ledger)
    expected = machines.estimate.of_records(placed.records)
    unmeasured = (min(score.variation, VARIATION) * expected) ** 2
    usage, variance, known = measured(inputs.snapshot, placed, expected, unmeasured)
    return Scene(inputs, machines, fresh, resources, loads, instances, placed, usage, variance, known)


def measured(
    snapshot: Snapshot, placed: PlacedInstances, expected: Floats, variance: Floats
) -> tuple[Floats, Floats, Bools]:
    """Return usage and variance [R, N] of instances, measured where possible, and [N] whether they are.

    The usage is ``0.8 recent + 0.2 daily``, or the one that is known. Other instances keep the expected usage. Whether
    a report is current follows the one rule of all its readers (`scorer.classes.class_usage.current_rows`): while data
    are late a plan and an over-commit see the same use of an instance.
    """
    columns = snapshot.usages.columns
    rows = current_rows(snapshot, placed)
    rows = np.where(columns.take(columns.count, rows) >= COUNT_MIN, rows, -1)
    usage, spread = columns.take(columns.mean, rows), variance.copy()
    own = columns.take(columns.variance, rows)
    spread[:FIRST] = np.where(np.isfinite(own), own, variance[:FIRST])
    return np.where(np.isfinite(usage), usage, expected), spread, rows >= 0
