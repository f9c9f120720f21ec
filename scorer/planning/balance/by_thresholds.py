"""The moves of a fleet by thresholds: Koordinator's rules choose the instances, the profile their targets.

Nothing is reserved and nothing is changed. A target is a machine that the profile's filters allow. Its expected
overload stays at or below what the source had before the step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from schemas.resources import ALL, RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import LedgerView
from scorer.planning.balance.by_overload import Plan, bounds_of, hosts_of, leaving_in, movable_of, on_way_in, wish_of
from scorer.planning.balance.rounds import Rounds
from scorer.planning.balance.scene import Scene, scene_of
from scorer.planning.balance.tentative import Draft
from scorer.planning.balance.totals import spread, totals
from scorer.planning.candidates import Taking
from scorer.planning.thresholds.eviction_order import CLASS_RANK, NO_CLASS, OrderColumns
from scorer.planning.thresholds.low_node_load import Rules, low_node_load
from scorer.planning.thresholds.pool import INSTANCES, Pool
from scorer.planning.thresholds.sides import Memory
from scorer.planning.thresholds.thresholds import Settings
from scorer.ranking.formulas.rounding import known_or
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.snapshot import Snapshot

_UNITS: Mapping[str, float] = {resource.name: 10.0 ** min(resource.decimals, 3) for resource in ALL}
"""Whole units of an amount, thousandths at the finest: thresholds are cut to them."""


def rules_of(settings: Rebalancing, moves_max: int, rounds: Rounds | None) -> Rules:
    """Return the rules of a profile's settings; without ``rounds`` a machine that is over is a source."""
    thresholds = Settings(settings.low, settings.high, settings.prod_low, settings.prod_high, settings.deviation)
    return Rules(thresholds, condition=None if rounds is None else rounds.condition, moves_max=moves_max)


def leaving(
    snapshot: Snapshot, ledger: LedgerView, profile: Profile, settings: Rebalancing, now_s: float,
    rounds: Rounds | None = None, pending: Mapping[str, str] | None = None, stay: Collection[str] = (),
) -> Plan:  # fmt: skip
    """Return the moves in order; each target is chosen with the moves before it.

    Usage of a machine is the mean of the profile's load model; of an instance, its measured usage, or else the usage
    that the profile expects.
    """
    kept = Kept()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scene = scene_of(snapshot, ledger, profile, now_s, kept)
        wish, bounds = wish_of(settings, stay), bounds_of(settings, len(ledger))
        hosts, in_hour = hosts_of(scene, ledger, settings, bounds, now_s)
        movable = movable_of(scene, wish, now_s)
        taking = Taking(snapshot, ledger, profile, scene.instances, wish, scene.fresh, now_s, kept)
        draft = Draft(scene.loads.copy(), movable, bounds, hosts, taking.moved)
        on_way = on_way_in(scene, pending or {})
        for instance, target in on_way:
            draft.take_as_made(instance, target)
        for instance, at in leaving_in(scene):
            draft.see_leaving(instance, at)
        before = draft.loads.copy()
        left = bounds.moves_max if bounds.hour_max is None else min(bounds.moves_max, bounds.hour_max - in_hour)
        left = max(left - len(on_way), 0)
        rules = rules_of(settings, left, rounds)
        memory = Memory() if rounds is None else rounds.thresholds
        gone = dict(on_way) | {n: at for n, at in leaving_in(scene) if at is not None}
        pool = pool_of(scene, rules.thresholds.resources(), draft.free, gone)
        place = {one.id: n for n, one in enumerate(scene.instances)}
        rows = np.array([snapshot.roster.index[name] for name in pool.machines], np.int64)

        def fits(instance: int, targets: Integers) -> Integers:
            return targets[taking.allowed(place[pool.instances[instance]])[rows[targets]]]

        unplaced: list[tuple[Instance, str]] = []
        for eviction in low_node_load(pool, rules, fits, memory, now_s):
            at = place[eviction.instance]
            if not draft.may_go(at):
                continue
            best = taking.best(at, draft.targets(at, under_limit=False)[1])
            if best is None:
                unplaced.append((scene.instances[at], eviction.reason))
            else:
                draft.keep(replace(draft.step(at, best), reason=eviction.reason))
    return Plan(
        tuple(scene.instances[step.instance] for step in draft.steps),
        snapshot.names,
        tuple(draft.steps),
        scene.resources,
        totals(before, draft.loads),
        int(movable.free.sum()),
        int(scene.measured.sum()),
        spread(scene.resources, before, draft.loads),
        tuple(unplaced),
        in_hour,
        bounds.hour_max,
    )


def pool_of(scene: Scene, names: Sequence[str], movable: Bools, on_way: Mapping[int, int]) -> Pool:
    """Return the machines and instances as columns of the rules; instances under way are on their targets."""
    usage = _amounts(names, scene.usage)
    of_instances = np.array([np.bincount(scene.placed.rows, each, len(scene.snapshot)) for each in usage])
    machine = scene.placed.rows.copy()
    for instance, target in on_way.items():
        machine[instance] = target
    whole = Pool(
        resources=tuple(names),
        machines=scene.snapshot.names,
        capacity=_amounts(names, scene.machines.allocatable),
        schedulable=~scene.machines.cordon,
        system=_amounts(names, scene.machines.mean) - of_instances,
        instances=tuple(one.id for one in scene.instances),
        machine=machine,
        usage=usage,
        measured=np.ones(len(scene.instances), np.bool_),
        prod=np.array([one.priority_class == "prod" for one in scene.instances], np.bool_),
        movable=movable,
        order=_order(scene.instances),
        known=scene.fresh,
    )
    return whole.fresh()


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
