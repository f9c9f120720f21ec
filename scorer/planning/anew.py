"""Places instances anew, each with those before it on their targets; a reason where no machine is feasible. Pure.

The largest come first, by cpu and then by memory, since they are the hardest to place. Equal requests are placed
together where they change no other machine's figures (`scorer.placement.choosing.trial`).

Instances that must be near each other, and near no others, leave together: all of them find a machine, or none does.
An instance whose neighbour leaves after it is placed once more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from scorer.ledger.record.facets import Facet, facets
from scorer.ledger.record.instance import Instance, as_request
from scorer.placement.choosing.trial import Anew, Apart, Trial, alike, best_for, place_alike, size
from scorer.ranking.filters.affinity import Affinity
from scorer.ranking.rank import refusal_of
from scorer.ranking.survive import Key

_STARTS = 8
"""Machines that are tried for the first of a group that moves together."""


def place_anew(
    instances: Iterable[Instance],
    trial: Trial,
    *,
    gone: bool = False,
    condition: Apart | None = None,
    by_class: bool = False,
    first: Mapping[str, int] | None = None,
    key: Key | None = None,
) -> list[Anew]:
    """Return the target of each instance, in the order of placing; the trial then includes the moves.

    ``gone``: their machines are lost, so they count nowhere before they are placed. Otherwise each stays on its machine
    until its turn, and afterwards when no machine is feasible. ``by_class``: higher classes before lower ones, within a
    class masters first; groups that move together stay first. ``first``: by id a rank, the highest first,
    before larger ones. ``key``: of the largest, in place of cpu and memory.

    Raises InvalidRequest where `rank` does.
    """
    instances, found = list(instances), list[Anew]()
    for instance in instances if gone else ():
        trial.leave(instance.id)
    for bound in [] if gone else _bound(instances, trial):
        found += _all_or_none(bound, trial, condition)
    done = {one.instance.id for one in found}
    for request, group in alike([one for one in instances if one.id not in done], first, by_class=by_class, key=key):
        found += place_alike(request, group, trial, condition, gone=gone)
    for one in [] if gone else stranded(found, trial):
        found.remove(one)
        request = msgspec.structs.replace(as_request(one.instance), id="")
        found += place_alike(request, [one.instance], trial, condition, gone=gone)
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
                found = best_for(one, requests[one.id], trial, condition, () if placed else shut)
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
