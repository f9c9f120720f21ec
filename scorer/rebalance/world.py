"""The plan of a fleet: snapshot, ledger and profile in, moves out. Nothing is reserved and nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from schemas.resources import RESOURCES
from scorer.ledger.instance import Instance
from scorer.ledger.view import LedgerView
from scorer.ranking.kept import Kept
from scorer.ranking.machines import NOTHING, Machines
from scorer.ranking.profile import Profile
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.seen import fleet_of
from scorer.rebalance.candidates import Taking, Wish, instances_on, may_move
from scorer.rebalance.loads import Loads
from scorer.rebalance.measured import measured
from scorer.rebalance.plan import Bounds, Movable, Step, plan, totals
from scorer.snapshot.snapshot import Snapshot

VARIATION = 1.0
"""An instance that runs is known better than a newcomer: its coefficient of variation is taken as no more than this."""


@dataclass(frozen=True)
class Plan:
    """The moves in their order, and the fleet before and after (`scorer.rebalance.plan.totals`)."""

    instances: tuple[Instance, ...]
    """As they are now, one a step."""
    machines: tuple[str, ...]
    """All, in the order of the places in the steps."""
    steps: tuple[Step, ...]
    resources: tuple[str, ...]
    """K, the resources with a weight."""
    totals: Mapping[str, tuple[float, float]]
    movable: int
    """Instances that might have been moved."""
    measured: int
    """Instances whose usage is measured."""


def rebalance(
    snapshot: Snapshot, ledger: LedgerView, profile: Profile, wish: Wish, bounds: Bounds, now_s: float,
    kept: Kept | None = None,
) -> Plan:  # fmt: skip
    """Return the moves that cut the fleet's expected overload the most.

    Weights, limit and floor are those of the profile's `ExpectedOverload`, or its defaults; its coefficient of
    variation, too, up to `VARIATION`. An instance is taken to use what was measured of it, or else what the profile
    expects of it. Machines without fresh data give and take nothing.
    """
    score = next(
        (each.score for each in profile.scores if isinstance(each.score, ExpectedOverload)), ExpectedOverload()
    )
    resources = tuple(name for name in RESOURCES if score.weights.get(name, 0) > 0)
    rows = [RESOURCES.index(name) for name in resources]
    weights = np.array([score.weights[name] for name in resources])
    kept = Kept() if kept is None else kept
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
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
        clusters: dict[str, int] = {}
        cluster = [clusters.setdefault(one.cluster, len(clusters)) if one.cluster else -1 for one in instances]
        movable = Movable(
            placed.rows,
            usage[rows],
            variance[rows],
            may_move(instances, wish, now_s),
            np.array(cluster, np.int64),
        )
        taking = Taking(snapshot, ledger, profile, instances, wish, fresh, now_s, kept)
        steps, after = plan(loads, movable, bounds, taking.allowed, taking.moved)
    return Plan(
        tuple(instances[step.instance] for step in steps),
        snapshot.names,
        tuple(steps),
        resources,
        totals(loads, after),
        int(movable.free.sum()),
        int(known.sum()),
    )
