"""The inputs of a plan: loads of the machines, usage of their instances, and which machines have fresh data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.planning.balance.loads import Loads
from scorer.planning.balance.measured import measured
from scorer.planning.candidates import instances_on
from scorer.ranking.machines.kept import Kept
from scorer.ranking.machines.machines import NOTHING, Machines
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.seen import fleet_of
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

VARIATION = 1.0
"""The largest coefficient of variation of a running instance: its usage is known better than a new one's."""


@dataclass(frozen=True)
class Scene:
    """R resources, K of them with a weight, M machines, N instances."""

    snapshot: Snapshot
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
    def rows(self) -> list[int]:
        """[K] Places of the resources with a weight."""
        return [RESOURCES.index(name) for name in self.resources]


def scene_of(snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float, kept: Kept) -> Scene:
    """Return the scene of a fleet at a moment.

    Weights, limit and floor of the loads are those of the profile's `ExpectedOverload`, or its defaults; its
    coefficient of variation, too, up to `VARIATION`. Machines without fresh data have no load.
    """
    score = next(
        (each.score for each in profile.scores if isinstance(each.score, ExpectedOverload)), ExpectedOverload()
    )
    resources = tuple(name for name in RESOURCES if score.weights.get(name, 0) > 0)
    rows = [RESOURCES.index(name) for name in resources]
    weights = np.array([score.weights[name] for name in resources])
    fleet = fleet_of(snapshot, ledger, profile.load_model, kept=kept)
    machines = Machines(fleet, NOTHING, now_s)
    fresh = machines.has_data & (machines.age_s <= profile.stale_s)
    loads = Loads.of(
        np.where(fresh, machines.utilization[rows], np.nan),
        machines.deviation[rows] * score.std_factor,
        machines.allocatable[rows],
        weights / weights.sum(),
        score.limit,
        score.floor,
    )
    instances, placed = instances_on(snapshot, ledger)
    expected = fleet.estimate.of_placed(placed)
    usage, variance, known = measured(
        snapshot.usages, instances, expected, (min(score.variation, VARIATION) * expected) ** 2, now_s
    )
    return Scene(snapshot, machines, fresh, resources, loads, instances, placed, usage, variance, known)
