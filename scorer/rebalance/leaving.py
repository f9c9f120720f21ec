"""The moves of a fleet by thresholds: who leaves by Koordinator's rules, and where the profile would place it.

Nothing is reserved and nothing is changed. One round without a memory: a machine that is over is a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.resources import RESOURCES
from scorer.ledger.instance import Instance
from scorer.ledger.view import LedgerView
from scorer.ranking.kept import Kept
from scorer.ranking.machines import NOTHING, Machines
from scorer.ranking.profile import Profile
from scorer.ranking.rounding import known_or
from scorer.ranking.seen import fleet_of
from scorer.rebalance.candidates import Taking, Wish, instances_on, may_move
from scorer.rebalance.eviction_order import CLASS_RANK, NO_CLASS, OrderColumns
from scorer.rebalance.low_node_load import Memory, Rules, low_node_load
from scorer.rebalance.measured import measured
from scorer.rebalance.pool import INSTANCES, Pool
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.snapshot import Snapshot

_UNITS: Mapping[str, float] = {"cpu": 1000.0, "disk": 1000.0}
"""Whole units of an amount, 1 where not said: thresholds are cut to them."""


@dataclass(frozen=True)
class Leaving:
    """An instance that should leave, why, and where the profile would place it (None: nowhere)."""

    instance: Instance
    target: str | None
    reason: str


def leaving(
    snapshot: Snapshot, ledger: LedgerView, profile: Profile, rules: Rules, wish: Wish, now_s: float
) -> list[Leaving]:
    """Return what should leave, in its order; each target sees the moves before it.

    Usage of a machine is the mean that the profile's load model sees; of an instance, what was
    measured of it, or else what the profile expects of it.
    """
    kept = Kept()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fleet = fleet_of(snapshot, ledger, profile.load_model, kept=kept)
        machines = Machines(fleet, NOTHING, now_s)
        fresh = machines.has_data & (machines.age_s <= profile.stale_s)
        instances, placed = instances_on(snapshot, ledger)
        names = tuple(rules.thresholds.resources())
        expected = fleet.estimate.of_placed(placed)
        each, _, _ = measured(snapshot.usages, instances, expected, expected, now_s)
        usage = _amounts(names, each)
        of_instances = np.array([np.bincount(placed.rows, each, len(snapshot)) for each in usage])
        whole = Pool(
            resources=names,
            machines=snapshot.names,
            capacity=_amounts(names, machines.allocatable),
            schedulable=~machines.cordon,
            system=_amounts(names, machines.mean) - of_instances,
            instances=tuple(one.id for one in instances),
            machine=placed.rows,
            usage=usage,
            measured=np.ones(len(instances), np.bool_),
            prod=np.array([one.priority_class == "prod" for one in instances], np.bool_),
            movable=may_move(instances, wish, now_s),
            order=_order(instances),
            known=fresh,
        )
        pool = whole.fresh()
        taking = Taking(snapshot, ledger, profile, instances, wish, fresh, now_s, kept)
        place = {one.id: n for n, one in enumerate(instances)}
        rows = np.array([snapshot.roster.index[name] for name in pool.machines], np.int64)

        def fits(instance: int, targets: Integers) -> Integers:
            return targets[taking.allowed(place[pool.instances[instance]])[rows[targets]]]

        found = []
        for eviction in low_node_load(pool, rules, fits, Memory(), now_s):
            at = place[eviction.instance]
            target = taking.best(at)
            if target is not None:
                taking.moved(at, target)
            name = None if target is None else snapshot.names[target]
            found.append(Leaving(instances[at], name, eviction.reason))
    return found


def _amounts(names: Sequence[str], columns: Floats) -> Floats:
    """Return [K, n] in whole units of columns [R, n]; 0 where unknown, and for the number of instances."""
    found = np.zeros((len(names), columns.shape[1]))
    for k, name in enumerate(names):
        if name != INSTANCES:
            found[k] = known_or(columns[RESOURCES.index(name)], 0.0) * _UNITS.get(name, 1.0)
    return found


def _order(instances: Sequence[Instance]) -> OrderColumns:
    plain = OrderColumns.plain(len(instances))
    return OrderColumns(
        np.array([CLASS_RANK.get(one.priority_class, NO_CLASS) for one in instances], np.int64),
        *(plain.priority, plain.guarantee, plain.service, plain.deletion_cost, plain.move_cost),
        np.array([max(one.reserved_at, one.started_at) for one in instances]),
    )
