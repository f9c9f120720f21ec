"""The what-if: the ledger with proposed changes, and a profile's choices on it.

A batch of unlike instances, a drain, a consolidation, a plan of wanted instances and a count of capacity are each made
on one. A step reads it (`best`, `allowed`, `together`) and records the decision (`propose`, `move`, `leave`) for the
steps after it. The ledger itself stays as it is, and must not change meanwhile.

Its rows are patches: the fleet's own rows stay as they are (`scorer.ranking.machines`). Chosen: one value that
owns the overlay. Rejected: seven classes with these parts, each with its own way to put back. It is here and not beside
the plans that commands make, since a batch of a query is a what-if, too.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import msgspec
import numpy as np

from schemas.resources import PRIORITY_CLASSES
from schemas.rpc.request import Request
from scorer.ledger.record.facets import Facet, facets, facets_of
from scorer.ledger.record.instance import CLUSTER, DAEMON, PODS, Instance, as_request, moved_to
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.ranking.explain import summary
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines import Machines
from scorer.ranking.profiles.profile import why_ignored
from scorer.ranking.rank import Decision, Ranking, allowed, rank, refusal_of
from scorer.ranking.survive import Key, keep_room, largest_first, near, packing, with_cordon
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

_STARTS = 8
"""Machines that are tried for the first of a group that moves together."""
_FAR = "one would not be near another that it must be near"

Among = Bools | Callable[[Machines], Bools]
"""[M] Which machines may be chosen besides what the filters say; as a function, of the machines that a score sees."""


@dataclass(frozen=True)
class Found:
    """The best machine for a request, or the reason why there is none."""

    machine: str | None
    why: str = ""


class Trial:
    """A ledger with proposed changes; each step adds to the overlay of its inputs, or to a new one."""

    def __init__(self, inputs: RankingInputs) -> None:
        self._open = inputs.snapshot
        self.overlay = Overlay(inputs.ledger) if inputs.overlay is None else inputs.overlay
        self.inputs = inputs.on(self.overlay)
        """The inputs of its rankings."""
        self.near = False
        """Whether a choice was near the limit of ``survive``."""

    @property
    def snapshot(self) -> Snapshot:
        return self.inputs.snapshot

    # ---- asking

    def best(self, request: Request, among: Among | None = None, otherwise: str = "") -> Found:
        """Return the best feasible machine, of all or ``among`` some; raises InvalidRequest where `rank` does.

        ``otherwise``: the condition in words, the end of "3/5 feasible, none of them ...".
        """
        if why := why_ignored(request, self.inputs.profile):
            return Found(None, why)
        ranking = ranked(request, self.inputs)
        self.near |= ranking.near
        return best_in(ranking, among, otherwise)

    def allowed(self, request: Request) -> Bools:
        """Return [M]: the machines that all filters allow; no score is computed."""
        if why_ignored(request, self.inputs.profile):
            return np.zeros(len(self.snapshot), np.bool_)
        return allowed(request, self.inputs)

    def together(self, kinds: Sequence[tuple[Request, int]]) -> tuple[list[str], str] | None:
        """Return the machines of so many copies of each request, up to the first without one, and why it has none.

        The requests are of one `shape`. Nothing is proposed. Return None where they must be placed one by one: where
        ties are drawn for each, or one more instance changes other machines' figures. The latter holds for spread over
        a topology, affinity, a score by rank, plugins of other packages, and near the limit of ``survive``.
        """
        request, profile = kinds[0][0], self.inputs.profile
        count = sum(many for _, many in kinds)
        if profile.ties != "name":
            return None
        if why := why_ignored(request, profile):
            return [], why
        if profile.survive and any(near(one, self.inputs, count) is not None for one, _ in kinds):
            return None
        decision = Decision(request, self.inputs)
        chosen = None if decision.far else decision.place(kinds)
        if chosen is None:
            return None
        names = [self.snapshot.names[row] for row in chosen.tolist()]
        return names, summary(decision.finish()) if len(names) < count else ""

    def counts(self) -> Floats:
        """Return [M]: the number of instances that hold each machine, including the moves so far."""
        return self.inputs.tables.residents(self.snapshot, self.inputs.ledger).tally(frozenset(), self.overlay)

    def sharing(self, machine: str, labels: Iterable[str]) -> Bools:
        """Return [M]: the machines that share a machine's values of all these labels."""
        row = self.snapshot.roster.index.get(machine)
        shared = np.ones(len(self.snapshot), np.bool_)
        for label in labels:
            codes = np.arange(shared.size) if label == "machine" else self.snapshot.rules.label(label).codes
            shared &= codes == (-1 if row is None else codes[row])
        return shared

    def takes_pod(self, instance: Instance) -> Bools:
        """Return [M]: for a pod the nodes of its own cluster with room for one more pod, else all machines."""
        rules = self.snapshot.rules
        clusters, cluster = rules.label(CLUSTER), instance.labels.get(CLUSTER)
        if cluster not in clusters.values:
            return np.ones(len(self.snapshot), np.bool_)
        most = rules.label(PODS)
        there: Bools = clusters.codes == clusters.values.index(cluster)
        if not most.values:
            return there
        limits = np.array([*(float(one) if one.isdecimal() else np.inf for one in most.values), np.inf])
        there &= self.counts() < limits[most.codes]
        return there

    # ---- changing

    def propose(self, request: Request, machine: str, instance_id: str | None = None) -> None:
        """Add a new instance for a request."""
        self.overlay.propose(instance_of(request, machine, self.inputs.now_s, instance_id))

    def leave(self, instance_id: str) -> None:
        """Remove an instance from its machine; without effect if it is not there."""
        if instance_id in self.overlay:
            self.overlay.leave(instance_id)

    def move(self, instance: Instance, machine: str) -> None:
        """Put an instance on a machine, as reserved there now."""
        self.put(moved_to(instance, machine, self.inputs.now_s))

    def put(self, instance: Instance) -> None:
        """Put an instance on the machine in its record, wherever it is now."""
        self.leave(instance.id)
        self.overlay.propose(instance)

    def cordon(self, machines: Collection[str]) -> None:
        """Treat these machines as cordoned, too, in place of those of an earlier call."""
        self.inputs = replace(self.inputs, snapshot=self._open.with_cordon(machines))


def best_in(ranking: Ranking, among: Among | None = None, otherwise: str = "") -> Found:
    """Return the best machine of a ranking, as `Trial.best` does."""
    if among is None:
        rows = ranking.best(1)
    else:
        rows = ranking.best_among(among(ranking.machines) if callable(among) else among, 1)
    if rows.size:
        return Found(ranking.machines.name(int(rows[0])))
    beside = f", none of them {otherwise}" if otherwise and ranking.feasible_count else ""
    return Found(None, summary(ranking) + beside)


# ---- placing anew


@dataclass(frozen=True)
class Anew:
    """An instance before the move, its target (None: no machine is feasible), and the reason if there is no target."""

    instance: Instance
    target: str | None
    why: str = ""


@dataclass(frozen=True)
class Apart:
    """The condition on a target: no other instance of the cluster, equal labels of ``same``, room for a pod.

    Some may share their machine with another of their cluster when no other target is feasible.
    """

    trial: Trial
    same: Collection[str] = ()
    together: Collection[str] = ()
    """Ids of instances that may: they share their machine with another of their cluster, or it is lost."""

    def concerns(self, instance: Instance) -> bool:
        """Return whether the instance has a cluster, or ``same`` names labels."""
        return bool(self.same or instance.cluster or CLUSTER in instance.labels)

    def allowed(self, instance: Instance, machines: Machines) -> Bools:
        allowed = self.trial.sharing(instance.machine, self.same) & self.trial.takes_pod(instance)
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


def place_alike(
    request: Request, group: Sequence[Instance], trial: Trial, condition: Apart | None, *, gone: bool = False
) -> list[Anew]:
    """Place instances that have equal requests: together, or one by one where that is not possible."""
    bound = condition if condition is not None and condition.concerns(group[0]) else None
    if len(group) > 1 and bound is None:
        for instance in group:
            trial.leave(instance.id)
        together = trial.together([(request, len(group))])
        targets = [*(together[0] if together else ()), *[None] * len(group)][: len(group)]
        for instance, target in zip(group, targets, strict=True):
            _put(instance, target, trial, gone=gone)
        if together is not None:
            why = trial.best(request).why if None in targets else ""
            return [Anew(one, at, "" if at else why) for one, at in zip(group, targets, strict=True)]
    placed = []
    for instance in sorted(group, key=lambda one: bound is not None and one.id in bound.together):
        trial.leave(instance.id)
        found = best_for(instance, request, trial, condition)
        _put(instance, found.machine, trial, gone=gone)
        placed.append(Anew(instance, found.machine, found.why))
    return placed


def best_for(
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


def _put(instance: Instance, target: str | None, trial: Trial, *, gone: bool) -> None:
    """Put the instance on its target or, without one, back on its machine, for the instances placed after it."""
    if target is not None:
        trial.move(instance, target)
    elif not gone:
        trial.put(instance)


def place_anew(
    instances: Iterable[Instance],
    trial: Trial,
    *,
    gone: bool = False,
    condition: Apart | None = None,
    by_class: bool = False,
    first: Mapping[str, int] | None = None,
    key: Key | None = None,
    most: float = math.inf,
) -> list[Anew]:
    """Return the target of each instance, in the order of placing; the trial then includes the moves.

    The largest come first, by cpu and then by memory, since they are the hardest to place. Equal requests are placed
    together where they change no other machine's figures. Instances that must be near each other, and near no others,
    leave together: all of them find a machine, or none does. An instance whose neighbour leaves or comes after it is
    placed once more.

    ``gone``: their machines are lost, so they count nowhere before they are placed. Otherwise each stays on its machine
    until its turn, and afterwards when no machine is feasible. ``by_class``: higher classes before lower ones, within a
    class masters first; groups that move together stay first. ``first``: by id a rank, the highest first,
    before larger ones. ``key``: of the largest, in place of cpu and memory. ``most``: ends where more find no machine.

    Raises InvalidRequest where `rank` does.
    """
    instances, found, alone = list(instances), list[Anew](), list[Anew]()
    for instance in instances if gone else ():
        trial.leave(instance.id)
    for bound in [] if gone else _bound(instances, trial):
        found += _all_or_none(bound, trial, condition)
    done = {one.instance.id for one in found}
    for request, group in alike([one for one in instances if one.id not in done], first, by_class=by_class, key=key):
        placed = place_alike(request, group, trial, condition, gone=gone)
        none = [one for one in placed if one.target is None]
        found += placed
        if request.affinity:
            alone += none
        elif (most := most - len(none)) < 0:
            return found
    for one in [] if gone else stranded(found, trial) + alone:
        found.remove(one)
        request = msgspec.structs.replace(as_request(one.instance), id="")
        found += place_alike(request, [one.instance], trial, condition, gone=gone)
    return found


def stranded(moves: Iterable[Anew], trial: Trial) -> list[Anew]:
    """Return the moves of instances that a later move has left without a neighbour that they must have."""
    found = []
    for one in moves:
        if one.target is None or one.instance.rules is None or not one.instance.rules.affinity:
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
    near = replace(inputs.profile, filters=tuple(x for x in inputs.profile.filters if x.filter.name == "affinity"))
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
        near = {one.id for one in instances if wanted <= facets_of(one)}
        if near and len(near) == len(trial.overlay.holders(wanted)):
            joined = set().union(near, ids, *(group_of.get(name, ()) for name in (*near, *ids)))
            group_of.update(dict.fromkeys(joined, joined))
    groups = {id(group): group for group in group_of.values() if len(group) > 1}
    ordered = [sorted((by_id[name] for name in group), key=goes_first, reverse=True) for group in groups.values()]
    return sorted(ordered, key=lambda group: goes_first(group[0]), reverse=True)


def goes_first(instance: Instance) -> tuple[bool, bool, tuple[float, ...], bytes]:
    """Return the sort key of instances that leave together, the highest first: those that need no other lead."""
    request = msgspec.structs.replace(as_request(instance), id="")
    far = all(term.topology != "machine" for term in request.affinity)
    return not request.affinity, far, size(instance), _encode(request)


def leading(request: Request, group: Sequence[Instance], overlay: Overlay) -> Request:
    """Return the request without the affinity that a group alone satisfies, for the first of the group that moves.

    ``overlay``: without the group. A pod keeps it: kube-scheduler lets none be the first.
    """
    if CLUSTER in request.labels:
        return request
    of_group = [facets_of(one) for one in group]
    left = tuple(
        term
        for term in request.affinity
        if overlay.holders(facets(term)) or not any(facets(term) <= found for found in of_group)
    )
    return msgspec.structs.replace(request, affinity=left)


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
                request = requests[one.id] if placed else leading(requests[one.id], group, trial.overlay)
                found = best_for(one, request, trial, condition, () if placed else shut)
                if found.machine is not None:
                    break
                why = why or found.why
            else:
                reasons.append(why)
                break
            trial.move(one, found.machine)
            placed.append(Anew(one, found.machine))
            left.remove(one)
        if not left and not stranded(placed, trial):
            return placed
        for one in group:
            trial.put(one)
        if not placed:
            break
        shut.append(str(placed[0].target))
    why = f"{len(group)} instances move together or none does: {(reasons or [_FAR])[0]}"
    return [Anew(one, None, why) for one in group]


def ranked(request: Request, inputs: RankingInputs, count: int = 1) -> Ranking:
    """Return the ranking less the machines that must keep room, for so many such instances; raises InvalidRequest."""
    ranking = rank(request, inputs)
    if inputs.profile.survive and ranking.feasible_count and (found := near(request, inputs, count)) is not None:
        keep_room(ranking, found, inputs, homeless)
    return ranking


def homeless(
    machines: Collection[str], inputs: RankingInputs, more: Sequence[Instance] = (), most: float = math.inf
) -> int:
    """Return how many instances of these machines find no place without them, after ``more``; ends above ``most``.

    The largest first, and machines are filled up: so the result does not depend on the load or the time.
    """
    trial = Trial(replace(inputs, overlay=Overlay(inputs.ledger), profile=packing(with_cordon(inputs.profile))))
    trial.cordon(machines)
    for _, sign, one in sorted(inputs.overlay.difference() if inputs.overlay else (), key=itemgetter(1)):
        if sign > 0:
            trial.overlay.propose(one)
        else:
            trial.leave(one.id)
    for one in more:
        trial.overlay.propose(one)
    held = {one.id: one for name in machines for one in trial.overlay.held_on(name)}
    lost = [one for one in held.values() if one.moving is None and one.labels.get(DAEMON) != "true"]
    condition = Apart(trial, together=held.keys())
    found = place_anew(lost, trial, condition=condition, key=largest_first(inputs), most=most)
    return sum(one.target is None for one in found)


def side_by_side(instances: Sequence[Instance]) -> frozenset[str]:
    """Return the ids of instances that share their machine with another of their cluster."""
    counts = Counter((one.machine, one.cluster) for one in instances if one.cluster)
    return frozenset(one.id for one in instances if counts[one.machine, one.cluster] > 1)


def alike(
    instances: Sequence[Instance], first: Mapping[str, int] | None = None, *, by_class: bool, key: Key | None = None
) -> list[tuple[Request, list[Instance]]]:
    """Return the instances grouped by equal requests, the largest first; by the ranks ``first`` before that."""
    groups: dict[bytes, tuple[Request, list[Instance]]] = {}
    for instance in instances:
        request = msgspec.structs.replace(as_request(instance), id="")
        group = groups.setdefault(_encode(request), (request, []))
        group[1].append(instance)
    ordered = [groups[encoded] for encoded in (sorted(groups) if key else groups)]  # by a key: however instances come
    ordered.sort(key=lambda group: (key or size)(group[1][0]), reverse=True)
    if first:
        ordered.sort(key=lambda group: max(first.get(one.id, 0) for one in group[1]), reverse=True)
    return sorted(ordered, key=lambda group: class_first(group[1][0])) if by_class else ordered


def class_first(instance: Instance) -> tuple[int, bool]:
    """Return the sort key of the higher class, and of masters in it."""
    return PRIORITY_CLASSES.index(instance.priority_class), instance.role != "master"


def size(instance: Instance) -> tuple[float, ...]:
    """Return the sort key of an instance: cpu, then memory; 0 where not given."""
    return tuple(amount or 0.0 for amount in instance.amounts[:2])


_encode = msgspec.json.Encoder(order="deterministic").encode
