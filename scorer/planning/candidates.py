"""The instances that may move, and their feasible targets: shared by both rules of balancing."""

from collections.abc import Collection, Iterable

import numpy as np

from scorer.ledger.record.facets import facets
from scorer.ledger.record.instance import MOVABLE, Instance
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.placement.choosing.trial import Trial
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.snapshot.arrays import Bools
from scorer.snapshot.snapshot import Snapshot


def instances_on(snapshot: Snapshot, ledger: LedgerView) -> tuple[list[Instance], PlacedInstances]:
    """Return the live instances on known machines, and their columns; ``rows``: the row of each one's machine."""
    index = snapshot.roster.index
    instances = [one for one in ledger.instances.values() if one.machine in index]
    places = [index[one.machine] for one in instances]
    slots = [ledger.slot_of(one.id) for one in instances]
    return instances, ledger.slots.take(np.array(slots, np.int64), np.array(places, np.int64))


def may_move(instances: list[Instance], settings: Rebalancing, stay: Collection[str], now_s: float) -> Bools:
    """Return [N]: whether each is confirmed, not moving, of a class that may move, not in ``stay``, and rested."""
    found = [
        one.state == "confirmed"
        and one.moving is None
        and one.labels.get(MOVABLE) != "false"
        and (not settings.classes or one.priority_class in settings.classes)
        and one.id not in stay
        and now_s - max(one.reserved_at, one.started_at, one.swapped_at) >= settings.rest_s
        for one in instances
    ]
    return np.array(found, np.bool_)


def elsewhere(trial: Trial, instance: Instance, fresh: Bools, same: Iterable[str]) -> Bools:
    """Return [M]: the machines with ``fresh`` data and equal labels of ``same``, without the instance's own."""
    there: Bools = fresh & trial.sharing(instance.machine, same) & trial.takes_pod(instance)
    there[trial.snapshot.roster.index[instance.machine]] = False
    return there


def followers(instance: Instance, inputs: RankingInputs) -> list[Instance]:
    """Return the instances that follow an instance from its cordoned machine, because it must be near them."""
    row = inputs.snapshot.roster.index.get(instance.machine)
    if instance.rules is None or row is None or not inputs.snapshot.rules.cordon[row]:
        return []
    near = {name for term in instance.rules.affinity for name in inputs.ledger.matching(facets(term))}
    there = (inputs.ledger.instances[name] for name in sorted(near - {instance.id}))
    return [one for one in there if one.machine == instance.machine and one.moving is None]
