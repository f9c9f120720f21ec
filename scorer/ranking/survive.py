"""Room for what may be lost: with ``survive`` in a profile, the instances of any one domain find places on the others.

A domain is a machine (``survive = "machine"``), or all machines with one value of a label. Machines are refused where
the new instance would leave the instances of some domain without a place. Three tests, the cheapest first. The share
s(i) of an instance is the largest of its amounts, each as a part of the mean machine's, and 1 for the largest of all.
Machine m takes f(m) instances of share 1, by all filters, counted in eighths. For each s of 1, 1/2, 1/4, 1/8 and 1/16
one of both must hold. Then the instances of domain d find places, the largest share first, on any machines that take
them:

    sum of max(f(m) - s, 0) over m not in d      >=  sum of s(i) over i in d with s(i) > s/2
    sum of floor(f(m) / s) * s over m not in d   >=  sum of the same, each rounded up to a power of 1/2

A machine that does not take one of share s got more than f(m) - s by then; rounded up, at least floor(f(m) / s) * s.

1. One placement lowers the difference by at most 1. So it is computed once for as many placements as the least of these
   differences allows, `AHEAD` kept back for those of other scorers that are not seen yet: a decision compares numbers.
2. Then it is computed for each decision, and machines are refused by it. The script refuses a reservation if the
   ledger has changed since.
3. Where it refuses, and there are at most `EXACT_MAX` instances, the loss itself is tried (`Homeless`), with each
   filter and rule: the largest first, machines filled up, as ``windward drain --lost`` does where not all find a place
   by class and score. Best first, the first machine is taken that leaves no more instances without a place than before:
   with all filters, and without those of momentary states, since who finds a place changes with the load.

An instance is excluded from some machines by its cluster and its ports: as many machines as these have instances, at
most, are left out. Other rules and selectors are seen by the third test alone, which is then
made each time. Above `EXACT_MAX` the planner tells what would find no place (`scorer.planner.proposer`).

Rejected: a flat reserve, which does not survive; a place kept for each instance, on which all scorers must agree.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from schemas.resources import MEMORY, RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.facets import facets_of
from scorer.ledger.record.instance import Instance, rules_of
from scorer.ledger.view.overlay import Readable
from scorer.ledger.view.view import GONE, instance_of
from scorer.ranking.filters.cordon import Cordon
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.kernel.binding import TIE
from scorer.ranking.kernel.layout import CODE
from scorer.ranking.profiles.plugins import momentary
from scorer.ranking.profiles.profile import PlacedFilter, Profile, WeightedScore
from scorer.ranking.rank import Decision, Ranking, Verdict
from scorer.ranking.scores.most_allocated import MostAllocated
from scorer.snapshot.arrays import Bools, Floats, Integers

AHEAD = 256
"""So many placements of other scorers may not be seen yet."""
EXACT_MAX, TRIES = 2_000, 16
"""The most instances for which a loss is tried in a decision, about 50 us each, and the most machines."""
STEPS, LEVELS = 8, 4
"""Room is counted in eighths of the largest share; shares down to 1/16 of it are told apart."""
COPIES_MAX = 4_096
"""The most eighths that are counted on one machine."""
SMALL_MAX = 1_024
"""So many different amounts are remembered as no larger than the largest: most instances are like others."""
FEW = 2
"""More changes than these are counted by machine; that takes longer than to look at so many instances of each."""
FRESH_S = 30.0
"""Measurements are read again after so long: a snapshot comes up to 20 times a second, and this takes 20 to 70 ms."""

Key = Callable[[Instance], tuple[float, ...]]
Homeless = Callable[[Collection[str], RankingInputs, Sequence[Instance], float], int]
"""Returns how many instances of these machines find no place without them, after further ones; ends above a number."""


@dataclass
class Room:
    """How far a fleet is from being too full, M machines, D domains."""

    of: RankingInputs
    position: int
    """The position of ledger or overlay up to which changes are counted."""
    parts: Sequence[float]
    share: float
    """The largest of all instances."""
    domains: Integers
    """[M] -1 for a machine without the label."""
    free: Floats
    """[M] How many instances of that share each machine takes."""
    difference: Floats
    """[D] The least of all s, of each the larger one of both."""
    instances: int
    shut: int
    """How many machines were left out."""
    left: float
    """So many placements were surely possible when it was computed."""
    changes: int = 0
    """How many changes of the ledger came since."""
    small: set[tuple[tuple[float | None, ...], float]] = field(default_factory=set)
    """Amounts that are no larger than that share."""

    def follows(self, request: Request, inputs: RankingInputs, count: int) -> bool:
        """Count the changes since; return False where it must be computed anew for so many instances."""
        of, view = self.of, inputs.overlay or inputs.ledger
        if of.ledger is not inputs.ledger or of.overlay is not inputs.overlay or of.profile is not inputs.profile:
            return False
        was, now = of.snapshot, inputs.snapshot
        if was.rules is not now.rules or was.roster is not now.roster or not 0 <= inputs.now_s - of.now_s < FRESH_S:
            return False
        changes = view.changes_since(self.position)
        if changes is None or not self._small(request.amounts(), float(request.maxmemory)):
            return False
        machines = [machine for machine, slot, _ in changes if slot != GONE]
        each = Counter(machines) if len(machines) > FEW else dict.fromkeys(machines, FEW)
        came = [one for machine, number in each.items() for one in view.newest_on(machine, number)]
        for one in came:
            if not self._small(one.amounts, one.maxmemory):
                return False
        if self._shuts_more(request, came, view, count):
            return False
        position = view.position
        self.changes += position - self.position
        self.position = position
        return True

    def _small(self, amounts: tuple[float | None, ...], maxmemory: float) -> bool:
        """Return whether an instance is not larger than the largest one was."""
        key = amounts, maxmemory
        if key in self.small:
            return True
        small = share_of(amounts, maxmemory, self.parts) <= self.share
        if small and len(self.small) < SMALL_MAX:
            self.small.add(key)
        return small

    def _shuts_more(self, request: Request, came: Sequence[Instance], view: Readable, count: int) -> bool:
        """Return whether more machines may be shut to one instance than were left out."""
        if self.instances > EXACT_MAX or self.shut >= len(self.free):
            return False
        most = 0
        for one in came:
            if one.rules is not None:
                return True
            most = max(most, _sharing(one, view))
        return max(most, _sharing(request, view)) + _more_shut(request, count) > self.shut

    def allows(self) -> Bools:
        """Return [M]: where the new instance surely leaves room."""
        left = np.append(self.difference - self.changes, [np.inf, np.inf])
        least, own = np.sort(left)[:2], left[self.domains]
        others: Floats = np.where(own == least[0], least[1], least[0])
        return (own >= 1) & (others >= np.minimum(self.free, 1.0))


def near(request: Request, inputs: RankingInputs, count: int = 1) -> Room | None:
    """Return how far the fleet is from being too full; None where it surely takes so many more such instances."""
    proposed = 0 if inputs.overlay is None else len(inputs.overlay.changes)
    plain = inputs if inputs.overlay is None else dataclasses.replace(inputs, overlay=None)
    found = _kept(request, plain, count)
    if proposed and found.left - found.changes - proposed < count + AHEAD:
        found, proposed = _kept(request, inputs, count), 0
    ruled = found.instances <= EXACT_MAX and rules_of(request) is not None
    return found if ruled or found.left - found.changes - proposed < count + AHEAD else None


def _kept(request: Request, inputs: RankingInputs, count: int) -> Room:
    """Return what was computed last; it is computed anew where it is not sure of so many more instances."""
    kept, key = inputs.tables.kept, (inputs.profile.name, inputs.overlay is not None)
    found = kept.get(key)
    if found is None or not found.follows(request, inputs, count) or 0 < found.changes > found.left - count:
        found = kept[key] = room(request, inputs, count)
    return found


@quiet
def room(request: Request, inputs: RankingInputs, count: int) -> Room:
    """Return how far the fleet is from being too full, for instances up to the requested or the largest one."""
    profile, overlay, index, parts = inputs.profile, inputs.overlay, inputs.snapshot.roster.index, parts_of(inputs)
    records = inputs.ledger.slots.records
    chosen, rows = inputs.tables.residents(inputs.snapshot, inputs.ledger).seated(records)
    amounts, signs = records["amounts"][chosen], np.ones(rows.size)
    shares = records["maxmemory"][chosen] * parts[MEMORY]
    used = amounts.any(axis=0) | (np.array(request.amounts()) > 0)
    used[MEMORY] |= shares.any() or bool(request.maxmemory)
    for of, part in zip(amounts.T, parts, strict=True):
        shares = np.maximum(shares, of * part)
    changed = [(index[name], sign, one) for name, sign, one in overlay.difference() if name in index] if overlay else []
    if changed:
        rows = np.concatenate([rows, [row for row, _, _ in changed]])
        signs = np.concatenate([signs, [sign for _, sign, _ in changed]])
        shares = np.concatenate([shares, [share_of(one.amounts, one.maxmemory, parts) for _, _, one in changed]])
    share = max(share_of(request.amounts(), float(request.maxmemory), parts), float(shares.max(initial=0.0)))
    unit: dict[str, Any] = {
        name: share / part / STEPS for name, part, of in zip(RESOURCES, parts, used, strict=True) if of and part
    }
    asked = Request(**unit, expected=unit, maxmemory=unit.get("memory", 0.0))
    decision = Decision(asked, inputs.by(dataclasses.replace(profile, rules=())), scores=False)
    decision.evaluate()
    free, shares = decision.room(COPIES_MAX) / STEPS, shares / (share or 1.0)
    codes, shut = _domains(inputs), _shut(request, inputs, count) if rows.size <= EXACT_MAX else 0
    known, here, number = codes[rows] >= 0, codes >= 0, int(codes.max(initial=-1)) + 1
    level = np.floor(-np.log2(np.maximum(shares[known], 0.5**LEVELS))).astype(np.int64)
    at, levels = level * number + codes[rows[known]], range(LEVELS + 1)

    def difference(of: Sequence[Floats], needed: Floats) -> Floats:
        needs = np.bincount(at, needed, len(of) * number).reshape(len(of), number).cumsum(axis=0)
        rest = [one.sum() - shut * one.max(initial=0.0) - np.bincount(codes[here], one[here], number) for one in of]
        found: Floats = np.array(rest) - needs
        return found

    by_share = difference([np.maximum(free - 0.5**one, 0.0) for one in levels], (signs * shares)[known])
    rounded = difference([np.floor(free * 2.0**one) / 2.0**one for one in levels], signs[known] * 0.5**level)
    differences = np.maximum(by_share, rounded).min(axis=0)
    left, position = float(differences.min(initial=np.inf)), (overlay or inputs.ledger).position
    return Room(inputs, position, parts, share, codes, free, differences, rows.size, shut, left)


def parts_of(inputs: RankingInputs) -> list[float]:
    """Return by resource one by the mean machine's amount; 0 where none has any."""
    amounts = np.nan_to_num(inputs.snapshot.allocatable)
    total, number = amounts.sum(axis=1), (amounts > 0).sum(axis=1)
    return (number / np.where(number, total, 1.0)).tolist()  # type: ignore[no-any-return]


def share_of(amounts: Iterable[float | None], maxmemory: float, parts: Sequence[float]) -> float:
    """Return the largest amount, each as a part of the mean machine's."""
    shares = [(amount or 0.0) * part for amount, part in zip(amounts, parts, strict=True)]
    return max(maxmemory * parts[MEMORY], *shares)


def _domains(inputs: RankingInputs) -> Integers:
    """Return [M]: the number of each machine's domain; -1 for a machine without the label."""
    if inputs.profile.survive == "machine":
        return np.arange(len(inputs.snapshot))
    return inputs.snapshot.rules.label(inputs.profile.survive).codes


def domains(inputs: RankingInputs) -> list[list[str]]:
    """Return the machines of each domain."""
    names, codes = inputs.snapshot.names, _domains(inputs)
    numbers = range(int(codes.max(initial=-1)) + 1)
    return [[names[row] for row in np.flatnonzero(codes == number).tolist()] for number in numbers]


def _sharing(one: Instance | Request, view: Readable) -> int:
    """Return how many instances have the cluster or a port of one."""
    if not one.cluster and not one.ports:
        return 0
    return sum(len(view.holders(frozenset([key]))) for key in facets_of(one) if key[0] in ("cluster", "port"))


def _shut(request: Request, inputs: RankingInputs, count: int) -> int:
    """Return how many machines the clusters and ports of others may shut to one instance; with rules, all of them."""
    live: list[Instance | Request] = [*inputs.ledger.instances.values(), request]
    live += [one for _, sign, one in inputs.overlay.difference() if sign > 0] if inputs.overlay else []
    if inputs.profile.rules or any(one.rules is not None for one in live if isinstance(one, Instance)):
        return len(inputs.snapshot)
    shared = Counter[Any](key for one in live for key in (*one.ports, one.cluster) if key)
    return max(sum(shared[key] for key in (*one.ports, one.cluster)) for one in live) + _more_shut(request, count)


def _more_shut(request: Request, count: int) -> int:
    return (count - 1) * (len(request.ports) + bool(request.cluster))


def keep_room(ranking: Ranking, found: Room, inputs: RankingInputs, homeless: Homeless) -> None:
    """Refuse the machines that must keep their room, and those that were not tried since a better one may be taken."""
    request, profile = ranking.request, inputs.profile
    allowed, code = found.allows(), (len(profile.filters) + 1) * CODE
    rows = np.flatnonzero(ranking.refused == 0)
    if found.instances <= EXACT_MAX:
        allowed &= rules_of(request) is None
        rows = rows[np.lexsort((ranking.order[rows], -np.rint(ranking.total[rows] / TIE)))]
        loss = _Loss(request, found, inputs, homeless)
        for tries, row in enumerate(rows.tolist()):
            allowed[row] = allowed[row] or (tries < TRIES and loss.leaves_room(row))
            if allowed[row]:
                ranking.refused[rows[tries:][~allowed[rows[tries:]]]] = code + 2
                rows = rows[:tries]
                break
    ranking.refused[rows[~allowed[rows]]] = code + 1
    ranking.near = True
    reasons = tuple(f"{why} for the loss of a {profile.survive}" for why in ("keep room", "worse, not tried"))
    placed = PlacedFilter(SimpleNamespace(name="survive"))
    ranking.add(Verdict(placed, ranking.machines, code, reasons, -1, ranking.refused < code))


class _Loss:
    """Tries the loss of each domain with a new instance on some machine."""

    def __init__(self, request: Request, found: Room, inputs: RankingInputs, homeless: Homeless) -> None:
        self._request, self._found, self._inputs, self._homeless = request, found, inputs, homeless
        self._before: dict[tuple[str, int], int] = {}
        """By the first machine of a domain and the number of filters, how many find no place without the instance."""

    @cached_property
    def _domains(self) -> list[list[str]]:
        """The domains that are not sure to find places, the one with the least room first."""
        left, machines = self._found.difference - self._found.changes, domains(self._inputs)
        tight = np.argsort(left, kind="stable")[: None if rules_of(self._request) else (left < 1).sum()]
        return [machines[one] for one in tight.tolist()]

    def leaves_room(self, row: int) -> bool:
        """Return whether no more instances find no place: by what lasts, and with the load of this moment, too."""
        inputs, filters = self._inputs, self._inputs.profile.filters
        one = instance_of(self._request, inputs.snapshot.names[row], inputs.now_s, "\0new")
        lasting = tuple(each for each in filters if isinstance(each.filter, Cordon) or not momentary(each.filter))
        ways = [lasting, filters] if len(lasting) < len(filters) else [filters]
        return all(self._leaves_room(one, inputs.by(dataclasses.replace(inputs.profile, filters=way))) for way in ways)

    def _leaves_room(self, one: Instance, inputs: RankingInputs) -> bool:
        """A domain that decides is the first one the next time."""
        for place, machines in enumerate(self._domains):
            if not self._homeless(machines, inputs, [one], 0):
                continue
            self._domains.insert(0, self._domains.pop(place))
            key = machines[0], len(inputs.profile.filters)
            if key not in self._before:
                self._before[key] = self._homeless(machines, inputs, (), math.inf)
            before = self._before[key]
            if not before or self._homeless(machines, inputs, [one], before) > before:
                return False
        return True


def with_cordon(profile: Profile) -> Profile:
    """Return the profile for instances that leave: with the filter of cordoned machines, without room for a loss."""
    profile = dataclasses.replace(profile, survive="") if profile.survive else profile
    if profile.find(Cordon) is not None:
        return profile
    return dataclasses.replace(profile, filters=(PlacedFilter(Cordon()), *profile.filters))


def packing(profile: Profile) -> Profile:
    """Return the profile that fills machines up: more finds a place than where the load is spread."""
    return dataclasses.replace(profile, scores=(WeightedScore(MostAllocated()),))


def largest_first(inputs: RankingInputs) -> Key:
    """Return the sort key of the largest share."""
    parts = parts_of(inputs)
    return lambda one: (share_of(one.amounts, one.maxmemory, parts),)
