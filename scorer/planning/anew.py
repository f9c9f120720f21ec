"""Places instances anew, each with those before it on their targets; a reason where no machine is feasible. Pure.

The largest come first, by cpu and then by memory, since they are the hardest to place. Equal requests are placed
together where they change no other machine's figures (`scorer.placement.choosing.trial`).

Instances that must be near each other, and near no others, leave together: all of them find a machine, or none does.
An instance whose neighbour leaves after it is placed once more.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.facets import Facet, facets
from scorer.ledger.record.instance import CLUSTER, Instance, as_request
from scorer.placement.choosing.trial import Found, Trial
from scorer.planning.candidates import takes_pod
from scorer.ranking.filters.affinity import Affinity
from scorer.ranking.machines.machines import Machines
from scorer.ranking.rank import refusal_of
from scorer.ranking.survive import Key, alike, size
from scorer.snapshot.arrays import Bools

_STARTS = 8
"""Machines that are tried for the first of a group that moves together."""


@dataclass(frozen=True)
class Apart:
    """The condition on a target: no other instance of the cluster, equal labels of ``same``, room for a pod.

    An instance that shares its machine with another of its cluster may do so again when no other target is feasible.
    """

    trial: Trial
    same: Collection[str] = ()
    together: Collection[str] = ()
    """Ids of instances that share their machine with another of their cluster."""

    def concerns(self, instance: Instance) -> bool:
        """Return whether the instance has a cluster, or ``same`` names labels."""
        return bool(self.same or instance.cluster or CLUSTER in instance.labels)

    def allowed(self, instance: Instance, machines: Machines) -> Bools:
        allowed = self.trial.sharing(instance.machine, self.same) & takes_pod(self.trial, instance)
        if instance.cluster:
            apart = allowed & (machines.tally(frozenset([("cluster", instance.cluster)])) == 0)
            if instance.id not in self.together or (apart & machines.feasible).any():
                allowed = apart
        return allowed

    def words(self, instance: Instance) -> str:
        pods = [f"a node of {instance.labels[CLUSTER]!r} for one more pod"] if CLUSTER in instance.labels else []
        parts = [f"without another instance of cluster {instance.cluster!r}"] if instance.cluster else []
        parts += [f"with the {key} of {instance.machine}" for key in self.same]
        return " and ".join(parts + pods)


@dataclass(frozen=True)
class Anew:
    """An instance before the move, its target (None: no machine is feasible), and the reason if there is no target."""

    instance: Instance
    target: str | None
    why: str = ""


def place_anew(
    instances: Iterable[Instance],
    trial: Trial,
    *,
    gone: bool = False,
    condition: Apart | None = None,
    by_class: bool = False,
    first: Collection[str] = (),
    key: Key | None = None,
) -> list[Anew]:
    """Return the target of each instance, in the order of placing; the trial then includes the moves.

    ``gone``: their machines are lost, so they count nowhere before they are placed. Otherwise each stays on its machine
    until its turn, and afterwards when no machine is feasible. ``by_class``: higher classes before lower ones, within a
    class masters first; groups that move together stay first. ``first``: ids of instances before larger ones.
    ``key``: of the largest, in place of cpu and memory.

    Raises InvalidRequest where `rank` does.
    """
    instances, found = list(instances), list[Anew]()
    for instance in instances if gone else ():
        trial.leave(instance.id)
    for bound in [] if gone else _bound(instances, trial):
        found += _all_or_none(bound, trial, condition)
    done = {one.instance.id for one in found}
    for request, group in alike([one for one in instances if one.id not in done], first, by_class=by_class, key=key):
        found += _placed(request, group, trial, condition, gone=gone)
    for one in [] if gone else stranded(found, trial):
        found.remove(one)
        request = msgspec.structs.replace(as_request(one.instance), id="")
        found += _placed(request, [one.instance], trial, condition, gone=gone)
    return found


def stranded(moves: Iterable[Anew], trial: Trial) -> list[Anew]:
    """Return the moves of instances that a later move has left without a neighbour that they must have."""
    found = []
    for one in moves:
        if one.target is None:
            continue
        trial.leave(one.instance.id)
        if is_alone(one.instance, one.target, trial):
            found.append(one)
        trial.move(one.instance, one.target)
    return found


def is_alone(instance: Instance, machine: str, trial: Trial) -> bool:
    """Return whether an instance, taken out of the trial, lacks a neighbour on a machine that it must have."""
    inputs = trial.inputs
    if instance.rules is None or not instance.rules.affinity:
        return False
    near = replace(inputs.profile, filters=tuple(x for x in inputs.profile.filters if isinstance(x.filter, Affinity)))
    request = msgspec.structs.replace(as_request(instance), id="")
    return bool(refusal_of(request, inputs.by(near), trial.snapshot.roster.index[machine]))


def _placed(
    request: Request, group: Sequence[Instance], trial: Trial, condition: Apart | None, *, gone: bool
) -> list[Anew]:
    """Place instances that have equal requests: together, or one by one where that is not possible."""
    bound = condition if condition is not None and condition.concerns(group[0]) else None
    if len(group) > 1 and bound is None:
        for instance in group:
            trial.leave(instance.id)
        targets = trial.together(request, len(group))
        for instance, target in zip(group, targets or [None] * len(group), strict=True):
            _put(instance, target, trial, gone=gone)
        if targets is not None:
            why = trial.best(request).why if None in targets else ""
            return [Anew(one, at, "" if at else why) for one, at in zip(group, targets, strict=True)]
    placed = []
    for instance in group:
        trial.leave(instance.id)
        found = _target(instance, request, trial, condition)
        _put(instance, found.machine, trial, gone=gone)
        placed.append(Anew(instance, found.machine, found.why))
    return placed


def _target(
    instance: Instance, request: Request, trial: Trial, condition: Apart | None, shut: Collection[str] = ()
) -> Found:
    """Return the best machine for an instance under its condition; none of the machines in ``shut``."""
    bound = condition if condition is not None and condition.concerns(instance) else None
    if bound is None and not shut:
        return trial.best(request)

    def allowed(machines: Machines) -> Bools:
        found = np.ones(len(machines), np.bool_) if bound is None else bound.allowed(instance, machines).copy()
        found[[trial.snapshot.roster.index[name] for name in shut]] = False
        return found

    return trial.best(request, allowed, bound.words(instance) if bound is not None else "tried before")


def _bound(instances: Sequence[Instance], trial: Trial) -> list[list[Instance]]:
    """Return groups of instances whose affinity only other instances of the group satisfy: none could leave alone."""
    by_id = {one.id: one for one in instances}
    asking: dict[frozenset[Facet], list[str]] = {}
    for one in instances:
        for term in one.rules.affinity if one.rules is not None else ():
            asking.setdefault(facets(term), []).append(one.id)
    group_of: dict[str, set[str]] = {}
    for wanted, ids in asking.items():
        near = {*trial.overlay.base.matching(wanted)}
        if near and near <= by_id.keys():
            joined = set().union(near, ids, *(group_of.get(name, ()) for name in (*near, *ids)))
            group_of.update(dict.fromkeys(joined, joined))
    groups = {id(group): group for group in group_of.values() if len(group) > 1}
    return [sorted((by_id[name] for name in group), key=goes_first, reverse=True) for group in groups.values()]


def goes_first(instance: Instance) -> tuple[bool, tuple[float, ...]]:
    """Return the sort key of instances that leave together: the highest first; instances that need no other lead."""
    return instance.rules is None or not instance.rules.affinity, size(instance)


def _all_or_none(group: Sequence[Instance], trial: Trial, condition: Apart | None) -> list[Anew]:
    """Place a group that moves together; several machines are tried for its first instance."""
    requests = {one.id: msgspec.structs.replace(as_request(one), id="") for one in group}
    shut: list[str] = []
    reasons: list[str] = []
    while len(shut) < _STARTS:
        for one in group:
            trial.leave(one.id)
        left, placed = list(group), list[Anew]()
        while left:
            why = ""
            for one in left:
                found = _target(one, requests[one.id], trial, condition, () if placed else shut)
                if found.machine is not None:
                    break
                why = why or found.why
            else:
                reasons.append(why)
                break
            trial.move(one, found.machine)
            placed.append(Anew(one, found.machine))
            left.remove(one)
        if not left:
            return placed
        for one in group:
            trial.put(one)
        if not placed:
            break
        shut.append(str(placed[0].target))
    return [Anew(one, None, f"{len(group)} instances move together or none does: {reasons[0]}") for one in group]


def _put(instance: Instance, target: str | None, trial: Trial, *, gone: bool) -> None:
    """Put the instance on its target or, without one, back on its machine, for the instances placed after it."""
    if target is not None:
        trial.move(instance, target)
    elif not gone:
        trial.put(instance)
