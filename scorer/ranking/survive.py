"""Room for what may be lost: with ``survive`` in a profile, the instances of any one domain find places on the others.

A domain is a machine (``survive = "machine"``), or all machines with one value of a label. `ranked` is `rank`, less the
machines where the new instance would leave the instances of some domain without a place. Three tests, the cheapest one
first. With the *piece*, the largest amounts of all instances, machine m takes k(m) copies of it by all filters. An
instance has the size s(i) = max over resources of amount / piece, at most 1. While one of both holds for each domain d,
any order and any choice of machines finds places for all of its instances:

    sum of max(k(m) - 1, 0) over m not in d  >=  sum of s(i) over i in d         a full machine took more than k(m) - 1
    sum of k(m) over m not in d              >=  number of i in d                or at least k(m) instances

1. One placement lowers the difference by at most 1. So it is computed once for as many placements as the least of these
   differences allows, `AHEAD` kept back for those of other scorers that are not seen yet: a decision compares numbers.
2. Then it is computed for each decision, and machines are refused by it. The script refuses a reservation if the
   ledger has changed since, so scorers do not race each other.
3. Where it refuses, and there are at most `EXACT_MAX` instances, the loss itself is tried (`homeless`), with each
   filter and rule, as ``windward drain --lost`` plans it: by class and score; else the largest first, machines filled
   up. The first machine, best first, is taken that leaves no more instances without a place than before.

An instance is excluded from some machines by its cluster or its ports: as many machines as the largest cluster or the
most used port has instances are left out. Other rules and selectors are seen by the third test alone, which is then
made each time. Above `EXACT_MAX` the planner tells what would find no place (`scorer.planner.proposer`).

Chosen: a bound that a few numbers uphold, and the loss itself where it refuses. Rejected: a flat reserve, which hosts
less than the bound and does not survive; a place kept for each instance, which all scorers would have to agree on.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import DAEMON, Instance, as_request, moved_to, rules_of
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.slots import request_record
from scorer.ledger.view.view import GONE, instance_of
from scorer.ranking.filters.cordon import Cordon
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.kernel.binding import TIE
from scorer.ranking.kernel.layout import CODE
from scorer.ranking.profiles.profile import PlacedFilter, Profile, WeightedScore
from scorer.ranking.rank import Decision, rank
from scorer.ranking.ranking import Ranking, Verdict
from scorer.ranking.scores.most_allocated import MostAllocated
from scorer.snapshot.arrays import Bools, Floats, Integers

AHEAD = 256
"""So many placements of other scorers may not be seen yet."""
EXACT_MAX = 2_000
"""The most instances for which a loss is tried in a decision: about 50 us each."""
TRIES = 16
"""The most machines for which it is tried."""
COPIES_MAX = 4_096
FRESH_S = 10.0
"""Measurements are read again after so long: a snapshot comes up to 20 times a second, and this takes 20 ms."""


@dataclass(frozen=True)
class Survive:
    """Stands for the filters in a ranking's verdict on machines that are refused for the room of a loss."""

    topology: str
    name: ClassVar[str] = "survive"

    def named(self, why: str, _request: Request) -> str:
        return why.format(self.topology)


REASONS = ("keep room for the loss of a {}", "worse, not tried for the loss of a {}")


@dataclass
class Room:
    """How far a fleet is from being too full, M machines, D domains."""

    of: RankingInputs
    """What it was computed for."""
    position: int
    """The position of ledger or overlay up to which changes are counted."""
    piece: Floats
    """[R + 1] The largest amounts, and the largest maxmemory."""
    domains: Integers
    """[M] -1 for a machine without the label."""
    copies: Integers
    """[M] How many pieces each machine takes."""
    by_size: Floats
    by_count: Floats
    """[D] The differences."""
    instances: int
    """How many there are."""
    left: float
    """So many placements were surely possible."""
    changes: int = 0
    """How many changes came since."""

    def follows(self, request: Request, inputs: RankingInputs) -> bool:
        """Count the changes since; return False where it must be computed anew."""
        of, most, records = self.of, self.piece.tolist(), inputs.ledger.slots.records
        if any(one is not other for one, other in zip(_depends(of), _depends(inputs), strict=True)):
            return False
        if not 0 <= inputs.now_s - of.now_s < FRESH_S or _above((*request.amounts(), float(request.maxmemory)), most):
            return False
        position = (inputs.overlay or inputs.ledger).position
        if position == self.position:
            return True
        changes = () if inputs.overlay else inputs.ledger.changes_since(self.position)
        if changes is None:
            return False
        for slot in [slot for _, slot, _ in changes if slot != GONE]:
            if _above((*records["amounts"][slot].tolist(), float(records["maxmemory"][slot])), most):
                return False
        self.changes += position - self.position
        self.position = position
        return True

    def allows(self, request: Request) -> Bools:
        """Return [M]: where the new instance surely leaves room."""
        size = float((_pieces(request_record(request))[:, 0] * _inverse(self.piece)).max())
        own = (self.by_size >= size) | (self.by_count >= 1)
        allowed = np.ones(self.domains.size, np.bool_)
        for least, (less_size, less_count) in enumerate(((0, 0), (0, 1), (1, 1))):
            short = np.flatnonzero((self.by_size < less_size) & (self.by_count < less_count))
            here = self.copies >= 2 if least == 2 else self.copies == least
            if short.size > 1:
                allowed[here] = False
            elif short.size:
                allowed[here & (self.domains != short[0])] = False
        return allowed & ((self.domains < 0) | own[self.domains])


def _depends(inputs: RankingInputs) -> tuple[object, ...]:
    return inputs.ledger, inputs.overlay, inputs.profile, inputs.snapshot.rules, inputs.snapshot.roster


def _above(amounts: Iterable[float], most: Iterable[float]) -> bool:
    return any(amount > limit for amount, limit in zip(amounts, most, strict=True))


def ranked(request: Request, inputs: RankingInputs, count: int = 1) -> Ranking:
    """Return the ranking; with ``survive`` in the profile, less the machines that must keep their room.

    ``count``: how many such instances are to be placed. Raises InvalidRequest.
    """
    ranking = rank(request, inputs)
    if inputs.profile.survive and ranking.feasible_count and (found := near(request, inputs, count)) is not None:
        _keep(ranking, found, inputs)
    return ranking


def near(request: Request, inputs: RankingInputs, count: int = 1) -> Room | None:
    """Return how far the fleet is from being too full; None where it surely takes so many more such instances."""
    kept, name, need = inputs.tables.kept, inputs.profile.name, count + AHEAD
    proposed = 0 if inputs.overlay is None else len(inputs.overlay.changes)
    plain = inputs if inputs.overlay is None else dataclasses.replace(inputs, overlay=None)
    found = kept.get((name, False))
    if found is None or not found.follows(request, plain) or (found.changes and found.left - found.changes < need):
        found = kept[name, False] = room(request, plain)
    if proposed and found.left - found.changes < need + proposed:
        found = kept.get((name, True))
        if found is None or not found.follows(request, inputs) or (found.changes and found.left - found.changes < need):
            found = kept[name, True] = room(request, inputs)
        proposed = 0
    ruled = found.instances <= EXACT_MAX and rules_of(request) is not None
    return found if ruled or found.left - found.changes < need + proposed else None


@quiet
def room(request: Request, inputs: RankingInputs) -> Room:
    """Return how far the fleet is from being too full, for instances up to the requested or the largest one."""
    profile, overlay, index = inputs.profile, inputs.overlay, inputs.snapshot.roster.index
    records = inputs.ledger.slots.records
    chosen, rows = inputs.tables.residents(inputs.snapshot, inputs.ledger).seated(records)
    pieces, signs = _pieces(records, chosen), np.ones(rows.size)
    changed = [(index[name], sign, one) for name, sign, one in overlay.difference() if name in index] if overlay else []
    if changed:
        more = [(*(amount or 0.0 for amount in one.amounts), one.maxmemory) for _, _, one in changed]
        pieces = np.concatenate([pieces, np.array(more).T], axis=1)
        rows = np.concatenate([rows, [row for row, _, _ in changed]])
        signs = np.concatenate([signs, [sign for _, sign, _ in changed]])
    piece = np.maximum(_pieces(request_record(request))[:, 0], pieces.max(axis=1, initial=0.0))
    amounts = dict(zip(RESOURCES, piece.tolist(), strict=False))
    asked = Request(**amounts, expected=amounts, maxmemory=float(piece[-1]))
    decision = Decision(asked, inputs.by(dataclasses.replace(profile, rules=())), scores=False)
    decision.evaluate()
    copies = decision.room(COPIES_MAX)
    sizes = signs * np.maximum.reduce(pieces * _inverse(piece)[:, np.newaxis])
    domains, shut = _domains(inputs), _shut(inputs) if rows.size <= EXACT_MAX else 0
    known, here, count = domains[rows] >= 0, domains >= 0, int(domains.max(initial=-1)) + 1

    def difference(of: Integers, needed: Floats) -> Floats:
        needs = np.bincount(domains[rows[known]], needed[known], count)
        rest = of.sum() - np.bincount(domains[here], of[here], count) - shut * of.max(initial=0)
        return np.asarray(rest - needs, np.float64)

    by_size, by_count = difference(np.maximum(copies - 1, 0), sizes), difference(copies, signs)
    left = float(np.maximum(by_size, by_count).min(initial=np.inf))
    position = (overlay or inputs.ledger).position
    return Room(inputs, position, piece, domains, copies, by_size, by_count, rows.size, left)


def _pieces(records: NDArray[np.void], chosen: Integers | slice = slice(None)) -> Floats:
    """Return [R + 1, K]: the amounts and the maxmemory of instances."""
    return np.vstack([records["amounts"][chosen].T, records["maxmemory"][chosen]])


def _inverse(piece: Floats) -> Floats:
    return np.divide(1.0, piece, out=np.zeros(piece.size), where=piece > 0)


def _domains(inputs: RankingInputs) -> Integers:
    """Return [M]: the number of each machine's domain; -1 for a machine without the label."""
    if inputs.profile.survive == "machine":
        return np.arange(len(inputs.snapshot))
    return inputs.snapshot.rules.label(inputs.profile.survive).codes


def domains(inputs: RankingInputs) -> list[list[str]]:
    """Return the machines of each domain."""
    codes = _domains(inputs).tolist()
    found: list[list[str]] = [[] for _ in range(max(codes, default=-1) + 1)]
    for name, code in zip(inputs.snapshot.names, codes, strict=True):
        if code >= 0:
            found[code].append(name)
    return found


def _shut(inputs: RankingInputs) -> int:
    """Return how many machines the cluster or the ports of others may shut to one instance; with rules, all of them."""
    live = [*inputs.ledger.instances.values()]
    live += [one for _, sign, one in inputs.overlay.difference() if sign > 0] if inputs.overlay else []
    if inputs.profile.rules or any(one.rules is not None for one in live):
        return len(inputs.snapshot)
    shared = Counter[Any](port for one in live for port in one.ports)
    shared.update(one.cluster for one in live if one.cluster)
    return 1 + max(shared.values(), default=0)


def _keep(ranking: Ranking, found: Room, inputs: RankingInputs) -> None:
    """Refuse the machines that must keep their room, and those that were not tried since a better one may be taken."""
    request, profile = ranking.request, inputs.profile
    allowed, code = found.allows(request), (len(profile.filters) + 1) * CODE
    rows = np.flatnonzero(ranking.refused == 0)
    if found.instances <= EXACT_MAX:
        allowed &= rules_of(request) is None
        rows = rows[np.lexsort((ranking.order[rows], -np.rint(ranking.total[rows] / TIE)))]
        loss = _Loss(request, found, inputs)
        for tries, row in enumerate(rows.tolist()):
            allowed[row] = allowed[row] or (tries < TRIES and loss.leaves_room(row))
            if allowed[row]:
                ranking.refused[rows[tries:][~allowed[rows[tries:]]]] = code + 2
                rows = rows[:tries]
                break
    ranking.refused[rows[~allowed[rows]]] = code + 1
    ranking.near = True
    placed = PlacedFilter(Survive(profile.survive))
    ranking.add(Verdict(placed, ranking.machines, code, REASONS, -1, ranking.refused < code))


class _Loss:
    """Tries the loss of each domain with a new instance on some machine."""

    def __init__(self, request: Request, found: Room, inputs: RankingInputs) -> None:
        self._request, self._inputs, machines = request, inputs, domains(inputs)
        order = np.argsort(np.maximum(found.by_size, found.by_count), kind="stable").tolist()
        self._domains = [machines[domain] for domain in order]
        self._before: dict[str, int] = {}
        """By the first machine of a domain, how many find no place without the new instance."""

    def leaves_room(self, row: int) -> bool:
        """Return whether no more instances find no place; a domain that decides is the first one the next time."""
        inputs = self._inputs
        one = instance_of(self._request, inputs.snapshot.names[row], inputs.now_s, "\0new")
        for place, machines in enumerate(self._domains):
            if not homeless(machines, inputs, [one], most=0):
                continue
            self._domains.insert(0, self._domains.pop(place))
            if machines[0] not in self._before:
                self._before[machines[0]] = homeless(machines, inputs)
            before = self._before[machines[0]]
            if not before or homeless(machines, inputs, [one], most=before) > before:
                return False
        return True


def homeless(
    machines: Collection[str], inputs: RankingInputs, more: Sequence[Instance] = (), most: float = math.inf
) -> int:
    """Return how many instances of these machines find no place without them; counting ends above ``most``.

    ``more`` are placed, too.
    """
    profile, snapshot, counts = with_cordon(inputs.profile), inputs.snapshot.with_cordon(machines), list[int]()
    for by_class, how in ((True, profile), (False, packing(profile))):
        overlay = Overlay(inputs.ledger)
        for _, sign, one in sorted(inputs.overlay.difference() if inputs.overlay else (), key=itemgetter(1)):
            if sign > 0:
                overlay.propose(one)
            elif one.id in overlay:
                overlay.leave(one.id)
        for one in more:
            overlay.propose(one)
        held = {one.id: one for name in machines for one in overlay.held_on(name)}
        lost = [one for one in held.values() if one.moving is None and one.labels.get(DAEMON) != "true"]
        at = dataclasses.replace(inputs, overlay=overlay, snapshot=snapshot, profile=how)
        counts.append(_without_place(alike(lost, by_class=by_class), at, most))
        if counts[-1] == 0:
            break
    return min(counts)


def _without_place(groups: Sequence[tuple[Request, list[Instance]]], at: RankingInputs, most: float) -> int:
    """Place lost instances; return how many find no machine. Those that must be near others are tried once more."""
    together = Counter((one.machine, one.cluster) for _, group in groups for one in group if one.cluster)
    count, again = 0, list[tuple[Request, list[Instance]]]()
    for request, group in groups:
        rest = _unplaced(request, group, at, together)
        if rest and request.affinity:
            again.append((request, rest))
        else:
            count += len(rest)
        if count > most:
            return count
    return count + sum(len(_unplaced(request, rest, at, together)) for request, rest in again)


def _unplaced(
    request: Request, group: Sequence[Instance], at: RankingInputs, together: Counter[tuple[str, str]]
) -> list[Instance]:
    """Place lost instances with equal requests; return those that find no machine."""
    overlay, names = at.overlay, at.snapshot.names
    assert overlay is not None
    if len(group) < 2 or request.cluster or at.profile.ties != "name" or Decision(request, at).far:
        return [one for one in group if not _placed(one, request, at, together)]
    for one in group:
        overlay.leave(one.id)
    decision = Decision(request, at)
    decision.evaluate()
    rows = decision.place(len(group)).tolist()
    for one, row in zip(group, rows, strict=False):
        overlay.propose(moved_to(one, names[row], at.now_s))
    for one in group[len(rows) :]:
        overlay.propose(one)
    return list(group[len(rows) :])


def _placed(one: Instance, request: Request, at: RankingInputs, together: Counter[tuple[str, str]]) -> bool:
    """Place a lost instance; return whether it found a machine: without others of its cluster, where it had none."""
    overlay = at.overlay
    assert overlay is not None
    overlay.leave(one.id)
    ranking = rank(request, at)
    rows = ranking.best(1)
    if one.cluster and rows.size:
        apart = ranking.machines.tally(frozenset([("cluster", one.cluster)])) == 0
        others = ranking.best_among(apart, 1)
        rows = others if others.size or together[one.machine, one.cluster] < 2 else rows
    overlay.propose(moved_to(one, ranking.machines.name(int(rows[0])), at.now_s) if rows.size else one)
    return bool(rows.size)


def with_cordon(profile: Profile) -> Profile:
    """Return the profile for instances that leave: with the filter of cordoned machines, without room for a loss."""
    if profile.survive:
        profile = dataclasses.replace(profile, survive="")
    if profile.find(Cordon) is not None:
        return profile
    return dataclasses.replace(profile, filters=(PlacedFilter(Cordon()), *profile.filters))


def packing(profile: Profile) -> Profile:
    """Return the profile that fills machines up: more finds a place than where the load is spread."""
    return dataclasses.replace(profile, scores=(WeightedScore(MostAllocated()),))


def alike(
    instances: Sequence[Instance], first: Collection[str] = (), *, by_class: bool
) -> list[tuple[Request, list[Instance]]]:
    """Return the instances grouped by equal requests, the largest first; groups with one of ``first`` before them."""
    groups: dict[bytes, tuple[Request, list[Instance]]] = {}
    for instance in instances:
        request = msgspec.structs.replace(as_request(instance), id="")
        group = groups.setdefault(_encode(request), (request, []))
        group[1].append(instance)
    ordered = sorted(groups.values(), key=lambda group: size(group[1][0]), reverse=True)
    ordered.sort(key=lambda group: all(one.id not in first for one in group[1]))
    return sorted(ordered, key=lambda group: class_first(group[1][0])) if by_class else ordered


def class_first(instance: Instance) -> tuple[int, bool]:
    """Return the sort key of the higher class, and of masters in it."""
    return PRIORITY_CLASSES.index(instance.priority_class), instance.role != "master"


def size(instance: Instance) -> tuple[float, ...]:
    """Return the sort key of an instance: cpu, then memory; 0 where not given."""
    return tuple(amount or 0.0 for amount in instance.amounts[:2])


_encode = msgspec.json.Encoder().encode
