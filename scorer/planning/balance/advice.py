"""The plan of a fleet by the rule that its profile names.

With rule ``thresholds`` Koordinator's rules (`scorer.planning.thresholds`) choose the instances, the profile their
targets. A target is a machine that the profile's filters allow. Its expected overload stays at or below that of the
source before the move.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from schemas.resources import ALL, RESOURCES
from schemas.rpc.results import RebalanceResult
from scorer.ledger.record.instance import Instance
from scorer.planning.balance.by_overload import Balancing
from scorer.planning.balance.repair import by_overload, repair
from scorer.planning.balance.rounds import NOTHING, Rounds, UnderWay
from scorer.planning.balance.scene import Scene
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
def leaving(inputs: RankingInputs, rounds: Rounds | None = None, under_way: UnderWay = NOTHING) -> RebalanceResult:
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


def advice(inputs: RankingInputs, rounds: Rounds | None = None, under_way: UnderWay = NOTHING) -> RebalanceResult:
    """Return the moves by the profile's ``[rebalance]``; only the state in ``rounds`` is changed.

    ``rounds``: the state of earlier rounds; None: a machine gives instances as soon as it is overloaded.
    """
    rules: dict[str, Callable[..., RebalanceResult]] = {"thresholds": leaving, "repair": repair}
    return rules.get(inputs.profile.rebalance.rule, by_overload)(inputs, rounds, under_way)
