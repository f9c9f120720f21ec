"""Rank: filters, scores, normalisation, weighted total, order. The same code answers a live query, a file, a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from schemas.request import InvalidRequest, Request
from scorer import explain
from scorer.fleet import Fleet
from scorer.ledger_view import LedgerView
from scorer.machines import Machines
from scorer.plugins import Filter, wanted
from scorer.profile import Normalisation, Profile, Sight, WeightedScore
from scorer.selectors import check_selectors
from scorer.snapshot import Bools, Floats, Integers, Snapshot

TIE = 1e-9
"""Totals closer than this are equal; the machine whose name sorts first is taken."""

EQUAL = 1e-12
"""Raw scores that differ by less, relatively, are equal: min-max must not spread rounding errors over 0-100."""


def rank(request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float) -> Ranking:
    """Return all machines filtered and scored for this request.

    Pure: nothing is reserved, no argument is changed. Raises InvalidRequest naming a field that this fleet or profile
    cannot serve (a window nobody keeps, a selector that cannot be parsed).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        seen = Seen(request, snapshot, ledger, profile, now_s)
        feasible, verdicts = run_filters(request, seen, profile)
        total, terms = run_scores(request, seen, profile, feasible)
    return Ranking(request, profile, seen.machines(profile.sight), feasible, total, verdicts, terms)


def see(request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float) -> None:
    """Bring what is kept of the fleet up to the ledger as it is now, so that the next decision finds it made."""
    seen = Seen(request, snapshot, ledger, profile, now_s)
    own = [each.sight for each in profile.filters] + [each.sight for each in profile.scores]
    for sight in own:
        seen.machines(sight or profile.sight)


def warm(snapshot: Snapshot, profile: Profile, now_s: float) -> None:
    """Make what follows from a new snapshot alone, so that the first decision on it finds it made.

    May run beside decisions on another snapshot.
    """
    for request in (Request(), Request(cpu=1.0, memory=1.0), Request(cpu=1.0, memory=1.0, nic=1.0)):
        rank(request, snapshot, LedgerView(), profile, now_s)


def run_filters(request: Request, seen: Seen, profile: Profile) -> tuple[Bools, list[Verdict]]:
    """Return [n] feasible, and what each filter that ran said of every machine."""
    machines = seen.machines(profile.sight)
    everybody = feasible = machines.everybody
    verdicts = []
    for each in profile.filters:
        machines = seen.machines(each.sight or profile.sight)
        if wanted(each.filter, request, machines):
            allowed = each.filter(request, machines)
            verdicts.append(Verdict(each.filter, machines, allowed))
            if allowed is not machines.everybody:
                feasible = allowed if feasible is everybody else feasible & allowed
    return feasible, verdicts


def run_scores(request: Request, seen: Seen, profile: Profile, feasible: Bools) -> tuple[Floats, list[ScoreTerm]]:
    """Return [n] total, the weighted mean of the scores that ran, and what each of them said."""
    terms = []
    among = Among(feasible)
    seen.machines(profile.sight).feasible = feasible
    for each in profile.scores:
        machines = seen.machines(each.sight or profile.sight)
        machines.feasible = feasible
        if each.weight > 0 and wanted(each.score, request, machines):
            raw = each.score(request, machines)
            terms.append(ScoreTerm(each, machines, *normalise(raw, among, each.normalise)))
    return weighted_mean(terms, len(feasible)), terms


def weighted_mean(terms: Sequence[ScoreTerm], machines: int) -> Floats:
    """Return [n]: the sum of weight times value over the sum of the weights."""
    total: Floats | None = None
    constant = 0.0
    weights = sum(term.weighted.weight for term in terms)
    for term in terms:
        share = term.weighted.weight / weights
        part = term.raw * (term.slope * share)
        constant += term.start * share
        total = part if total is None else np.add(total, part, out=total)
    if total is None:
        return np.zeros(machines)
    return np.add(total, constant, out=total) if constant else total


class Among:
    """The feasible machines, for scores that are spread over them."""

    def __init__(self, feasible: Bools) -> None:
        self._feasible = feasible
        self._rows: Integers | None = None
        self._all = bool(feasible.all())

    def of(self, values: Floats) -> Floats:
        """Return the values of the feasible machines."""
        if self._all:
            return values
        if self._rows is None:
            self._rows = np.flatnonzero(self._feasible)
        return values.take(self._rows)

    def ends(self, values: Floats) -> tuple[float, float] | None:
        """Return the least and the largest value of a feasible machine; None when there is none."""
        if values.size:
            least, largest = values.argmin(), values.argmax()
            if self._feasible[least] and self._feasible[largest]:  # mostly so, and then nothing need be copied
                return float(values[least]), float(values[largest])
        among = self.of(values)
        return (float(among.min()), float(among.max())) if among.size else None


def normalise(raw: Floats, among: Among, how: Normalisation) -> tuple[Floats, float, float]:
    """Return values, slope and start: ``slope * values + start`` is in 0-100 for each feasible machine.

    ``none``: as they are; ``min-max``: the least becomes 0, the largest 100; ``rank``: the same by place, equals
    sharing one. All equal: 100. For a machine that is not feasible the result means nothing.
    """
    if how == "none":
        return raw, 1.0, 0.0
    ends = among.ends(raw)
    if ends is None:
        return raw, 1.0, 0.0
    if how == "rank":
        levels = np.unique(np.rint(among.of(raw) / TIE))
        if levels.size == 1:
            return raw, 0.0, 100.0
        places: Floats = np.searchsorted(levels, np.rint(raw / TIE), side="right").astype(np.float64) - 1.0
        return places, 100.0 / (levels.size - 1), 0.0
    low, high = ends
    if high - low <= EQUAL * max(abs(low), abs(high)):
        return raw, 0.0, 100.0
    slope = 100.0 / (high - low)
    return raw, slope, -low * slope


def _any_fresh(snapshot: Snapshot, profile: Profile, now_s: float) -> bool:
    """Return whether the pipeline gave any machine data lately."""
    seen_at = snapshot.seen_at
    return bool(seen_at.size) and bool(now_s - seen_at.max() <= profile.stale_s)


class Seen:
    """The machines under each sight that a profile uses; a sight's fleet is kept while snapshot and ledger stay."""

    def __init__(
        self, request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float
    ) -> None:
        self._request = request
        self._profile = profile
        self._snapshot = snapshot
        self._ledger = ledger
        self._now_s = now_s
        self._requests_alone = profile.stale == "requests" and not _any_fresh(snapshot, profile, now_s)
        self._machines: dict[int, Machines] = {}
        check_selectors(request)

    def machines(self, sight: Sight) -> Machines:
        """Return the machines under one sight; the request's own window is for the profile's."""
        machines = self._machines.get(id(sight))
        if machines is None:
            window_s = self._request.window_s if sight is self._profile.sight else 0
            fleet = fleet_of(self._snapshot, self._ledger, sight, window_s, self._requests_alone)
            machines = self._machines[id(sight)] = Machines(fleet, self._request, self._now_s)
            fleet.watch(machines)
        return machines


def fleet_of(
    snapshot: Snapshot, ledger: LedgerView, sight: Sight, window_s: int = 0, requests_alone: bool = False
) -> Fleet:
    """Return the fleet under one sight, the kept one while neither snapshot nor ledger changed.

    Raises InvalidRequest for a ``window_s`` that the snapshot does not have.
    """
    if window_s and snapshot.windows_s and window_s not in snapshot.windows_s:
        there = ", ".join(map(str, snapshot.windows_s))
        raise InvalidRequest(f"window_s: no window of {window_s} s is kept; there are {there}")
    wanted_s = window_s if window_s and snapshot.windows_s else sight.window_s(snapshot.windows_s)
    ledger.seat(snapshot.roster)
    fleets = ledger.fleets(snapshot)
    key = (wanted_s, sight.credits, sight.estimate.key, requests_alone)
    fleet: Fleet | None = fleets.get(key)
    if fleet is None:
        fleet = fleets[key] = Fleet(
            snapshot,
            ledger,
            window_s=wanted_s,
            credits=sight.credits,
            estimate=sight.estimate,
            requests_alone=requests_alone,
        )
    current = fleet.current()
    if current is not fleet:
        fleets[key] = current
    return current


BEST = 5
"""So many of the best machines are found at once: more cost next to nothing."""


def at_least(values: Floats, count: int) -> float:
    """Return a bound that the largest ``count`` values reach, and few others: from the largest of each block."""
    if count == 1:
        return float(values.max())
    blocks = values.size // _BLOCK
    if count > blocks:
        return float(np.partition(values, values.size - count)[values.size - count])
    largest = values[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    return float(np.partition(largest, blocks - count)[blocks - count])


_BLOCK = 32


@dataclass(frozen=True, eq=False)
class Verdict:
    """What one filter said."""

    filter: Filter
    machines: Machines
    allowed: Bools
    """[n]"""


@dataclass(frozen=True, eq=False)
class ScoreTerm:
    """What one score said: its part of the total is ``slope * raw + start``, times the weight's share."""

    weighted: WeightedScore
    machines: Machines
    raw: Floats
    slope: float
    start: float

    def value(self, row: int) -> float:
        """Return one machine's normalised value."""
        return float(self.raw[row]) * self.slope + self.start


@dataclass(eq=False)
class Ranking:
    """The verdict on every machine, and how to tell it."""

    request: Request
    profile: Profile
    machines: Machines
    feasible: Bools
    """[n]"""
    total: Floats
    """[n] 0 to 100, higher is better; meaningless where not feasible."""
    verdicts: list[Verdict] = field(repr=False)
    terms: list[ScoreTerm] = field(repr=False)
    _answers: dict[tuple[int, bool], dict[str, Any]] = field(default_factory=dict, init=False, repr=False)
    _best_rows: Integers = field(default_factory=lambda: np.empty(0, np.int64), init=False, repr=False)

    @cached_property
    def feasible_count(self) -> int:
        """How many machines all filters allow."""
        return int(np.count_nonzero(self.feasible))

    @property
    def chosen(self) -> str | None:
        """The best machine, None when none is feasible."""
        rows = self.best(1)
        return self.machines.name(int(rows[0])) if rows.size else None

    @cached_property
    def order(self) -> Integers:
        """Rows of all feasible machines, best first."""
        return self.best(len(self.machines))

    def best(self, count: int) -> Integers:
        """Return the rows of the best ``count`` feasible machines, best first; equals by name."""
        if self._best_rows.size < min(count, self.feasible_count):
            self._best_rows = self._best(self.feasible, self.feasible_count, max(count, BEST))
        return self._best_rows[:count]

    def best_among(self, only: Bools, count: int) -> Integers:
        """Return the rows of the best feasible machines among ``only`` [n]."""
        feasible = self.feasible & only
        return self._best(feasible, int(np.count_nonzero(feasible)), count)

    def _best(self, feasible: Bools, feasible_count: int, count: int) -> Integers:
        if count < 1 or not feasible_count:
            return np.empty(0, np.int64)
        total = self.total
        if feasible_count < total.size:
            total = total.copy()
            total[~feasible] = -np.inf
        if count < feasible_count:
            rows = np.flatnonzero(total >= at_least(total, count) - TIE)
        else:
            rows = np.flatnonzero(feasible)
        steps = np.rint(total[rows] / TIE)
        names = self.machines.roster.name_order[rows]
        return rows[np.lexsort((names, -steps))][:count]

    @cached_property
    def refusals(self) -> list[explain.Refusal]:
        """How many machines each filter refused first, by reason, most first."""
        return explain.refusals(self)

    @cached_property
    def summary(self) -> str:
        """One line: ``3/5 feasible: 2 stale``."""
        return explain.summary(self)

    def answer(self, top: int | None = None, explain_all: bool | None = None) -> dict[str, Any]:
        """Return the answer, JSON-ready (`scorer.explain.answer`)."""
        request = self.request
        how = (request.top if top is None else top, request.explain if explain_all is None else explain_all)
        if how not in self._answers:
            self._answers[how] = explain.answer(self, *how)
        return dict(self._answers[how])

    def answer_for(self, row: int) -> dict[str, Any]:
        """Return the answer with this machine chosen: one of a batch that began with this ranking went there."""
        answer, machine = self.answer(), self.machines.name(row)
        if answer["machine"] != machine:
            mine = self.candidate(row)
            others = [each for each in answer["candidates"] if each["machine"] != machine]
            answer |= {"machine": machine, "score": mine["score"], "warnings": explain.warnings(self, row)}
            answer["candidates"] = [mine, *others][: max(1, len(answer["candidates"]))]
        return answer

    def candidate(self, row: int) -> Mapping[str, Any]:
        """Return one machine's terms, JSON-ready."""
        return explain.described(self, [row])[0]
