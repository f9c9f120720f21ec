"""The plan of a fleet by the rule that its profile names.

With rule ``thresholds`` Koordinator's rules (`scorer.planning.thresholds`) choose the instances, the profile their
targets. A target is a machine that the profile's filters allow. Its expected overload stays at or below that of the
source before the move.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from schemas.resources import ALL, RESOURCES
from schemas.rpc.results import RebalanceMove, RebalanceResult
from scorer.ledger.record.instance import Instance
from scorer.planning.balance.by_overload import Balancing, Plan, Swap
from scorer.planning.balance.repair import by_overload, repair
from scorer.planning.balance.rounds import NOTHING, Rounds, UnderWay
from scorer.planning.balance.scene import Scene
from scorer.planning.balance.tentative import Step
from scorer.planning.thresholds import (
    CLASS_RANK,
    NO_CLASS,
    Pool,
    Rules,
    SideDetectors,
    compared,
    low_node_load,
)
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.profiles.rebalance_section import INSTANCES, Rebalancing
from scorer.snapshot.arrays import Bools, Floats, Integers, known_or

_UNITS: Mapping[str, float] = {resource.name: 10.0 ** min(resource.decimals, 3) for resource in ALL}
"""Whole units of an amount, thousandths at the finest: thresholds are cut to them."""


@quiet
def leaving(inputs: RankingInputs, rounds: Rounds | None = None, under_way: UnderWay = NOTHING) -> Plan:
    """Return the moves in order; each target is chosen with the moves before it.

    Usage of a machine is the mean of the profile's load model; of an instance, its measured usage, or else the usage
    that the profile expects.
    """
    settings, snapshot = inputs.profile.rebalance, inputs.snapshot
    balancing = Balancing(inputs, rounds, under_way)
    scene, draft = balancing.scene, balancing.draft
    rules = Rules(settings, None if rounds is None else rounds.condition, balancing.left)
    memory = SideDetectors() if rounds is None else rounds.thresholds
    gone = dict(balancing.on_way) | {n: at for n, at in balancing.leaving if at is not None}
    pool = pool_of(scene, settings, draft.free, gone)
    rows = np.array([snapshot.roster.index[name] for name in pool.machines], np.int64)

    def fits(instance: int, targets: Integers) -> Integers:
        return targets[balancing.allowed(balancing.place[pool.instances[instance]])[rows[targets]]]

    unplaced: list[tuple[Instance, str]] = []
    for eviction in low_node_load(pool, rules, fits, memory, inputs.now_s):
        at = balancing.place[eviction.instance]
        if not draft.may_go(at):
            continue
        best = balancing.best(at, draft.targets(at, under_limit=False)[1])
        if best is None:
            unplaced.append((scene.instances[at], eviction.reason))
        else:
            draft.keep(replace(draft.step(at, best), reason=eviction.reason))
    return balancing.plan(unplaced)


def pool_of(scene: Scene, settings: Rebalancing, movable: Bools, on_way: Mapping[int, int]) -> Pool:
    """Return the machines and instances as columns for the rules; moving instances count on their targets."""
    instances = scene.instances
    names = compared(settings)
    usage = _amounts(names, scene.usage)
    of_instances = np.array([np.bincount(scene.placed.rows, each, len(scene.snapshot)) for each in usage])
    machine = scene.placed.rows.copy()
    for instance, target in on_way.items():
        machine[instance] = target
    whole = Pool(
        resources=tuple(names),
        machines=scene.snapshot.names,
        capacity=_amounts(names, scene.machines.allocatable, settings.instances_full),
        schedulable=~scene.machines.cordon,
        system=_amounts(names, scene.machines.mean) - of_instances,
        instances=tuple(one.id for one in instances),
        machine=machine,
        usage=usage,
        prod=np.array([one.priority_class == "prod" for one in instances], np.bool_),
        movable=movable,
        class_rank=np.array([CLASS_RANK.get(one.priority_class, NO_CLASS) for one in instances], np.int64),
        since=np.array([max(one.reserved_at, one.started_at) for one in instances]),
        known=scene.fresh,
    )
    return whole.fresh()


def _amounts(names: Sequence[str], columns: Floats, instances: float = 0.0) -> Floats:
    """Return [K, n]: columns [R, n] in whole units, 0 where unknown; for ``instances`` the number of instances."""
    found = np.full((len(names), columns.shape[1]), instances)
    for k, name in enumerate(names):
        if name != INSTANCES:
            found[k] = known_or(columns[RESOURCES.index(name)], 0.0) * _UNITS.get(name, 1.0)
    return found


def advice(inputs: RankingInputs, rounds: Rounds | None = None, under_way: UnderWay = NOTHING) -> Plan:
    """Return the moves by the profile's ``[rebalance]``; only the state in ``rounds`` is changed.

    ``rounds``: the state of earlier rounds; None: a machine gives instances as soon as it is overloaded.
    """
    rules: Mapping[str, Callable[..., Plan]] = {"thresholds": leaving, "repair": repair, "overload": by_overload}
    rule = rules[inputs.profile.rebalance.rule]
    return rule(inputs, rounds, under_way)


def told(plan: Plan, inputs: RankingInputs) -> RebalanceResult:
    """Return a plan, made from these inputs, in the form of an answer; instances without a target come last."""
    settings = inputs.profile.rebalance
    moves = [_exchange(one) for one in plan.swaps]
    moves += [_move(instance, step, plan) for instance, step in zip(plan.instances, plan.steps, strict=True)]
    moves += [
        RebalanceMove(id=one.id, generation=one.generation, source=one.machine, target=None, reason=reason)
        for one, reason in plan.unplaced
    ]
    return RebalanceResult(
        rule=settings.rule,
        objective="overload",
        profile=inputs.profile.name,
        machines=len(inputs.snapshot),
        instances=len(inputs.ledger),
        at=inputs.now_s,
        movable=plan.movable,
        measured=plan.measured,
        moved_in_hour=plan.in_hour,
        hour_max=plan.hour_max,
        moves=moves,
        totals={name: list(pair) for name, pair in plan.totals.items()},
        std={name: list(pair) for name, pair in plan.spread.items()},
        why=plan.why,
    )


def _exchange(swap: Swap) -> RebalanceMove:
    one, other = swap.instance, swap.other
    return RebalanceMove(
        id=one.id, generation=one.generation, source=one.machine, target=None, swap_role_with=other.id, role=other.role,
        reason=swap.reason,
    )  # fmt: skip


def _move(instance: Instance, step: Step, plan: Plan) -> RebalanceMove:
    loads = {
        side: {name: [_known(x) for x in step.utilization[at, :, k]] for k, name in enumerate(plan.resources)}
        for at, side in enumerate(("source", "target"))
    }
    overload = {
        "source": [step.source_before, step.source_after],
        "target": [step.target_before, step.target_after],
    }
    return RebalanceMove(
        id=instance.id, generation=instance.generation, source=instance.machine, target=plan.machines[step.target],
        gain=step.gain, cost=step.cost, copy_bytes=step.copy_bytes, copy_s=step.copy_s,
        reason=step.reason or _why(loads["source"]), overload=overload, utilization=loads,
    )  # fmt: skip


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _why(loads: dict[str, list[float | None]]) -> str:
    falls = {name: (before or 0.0, after or 0.0) for name, (before, after) in loads.items()}
    name, (before, after) = max(falls.items(), key=lambda item: item[1][0] - item[1][1])
    return f"{name} of the source {100 * before:.0f}% -> {100 * after:.0f}%"
