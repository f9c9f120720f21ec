"""Rank: filters, scores, normalisation, weighted total, order. The same code answers a live query, a file, a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from schemas.request import InvalidRequest, Request
from scorer import explain
from scorer.ledger_view import LedgerView
from scorer.machines import Fleet, Machines
from scorer.plugins import Filter, wanted
from scorer.profile import Normalisation, Profile, Sight, WeightedScore
from scorer.snapshot import Bools, Floats, Integers, Snapshot

TIE = 1e-9
"""Totals closer than this are equal; the machine whose name sorts first is taken."""


def rank(request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float) -> Ranking:
    """Return all machines filtered and scored for this request.

    Pure: nothing is reserved, no argument is changed. Raises InvalidRequest naming a field that this fleet or profile
    cannot serve (a window nobody keeps, a selector that cannot be parsed).
    """
    seen = Seen(request, snapshot, ledger, profile, now_s)
    machines = seen.machines(profile.sight)
    feasible, verdicts = run_filters(request, seen, profile)
    total, terms = run_scores(request, seen, profile, feasible)
    return Ranking(request, profile, machines, feasible, total, verdicts, terms)


def run_filters(request: Request, seen: Seen, profile: Profile) -> tuple[Bools, list[Verdict]]:
    """Return [n] feasible, and what each filter that ran said of every machine."""
    feasible: Bools | None = None
    verdicts = []
    for each in profile.filters:
        machines = seen.machines(each.sight or profile.sight)
        if wanted(each.filter, request, machines):
            allowed = each.filter(request, machines)
            verdicts.append(Verdict(each.filter, machines, allowed))
            feasible = allowed if feasible is None else feasible & allowed
    return np.ones(len(seen.machines(profile.sight)), np.bool_) if feasible is None else feasible, verdicts


def run_scores(request: Request, seen: Seen, profile: Profile, feasible: Bools) -> tuple[Floats, list[ScoreTerm]]:
    """Return [n] total, and each score that ran with its raw and normalised values."""
    total: Floats | None = None
    terms = []
    weights = 0.0
    for each in profile.scores:
        machines = seen.machines(each.sight or profile.sight).with_feasible(feasible)
        if each.weight > 0 and wanted(each.score, request, machines):
            raw = each.score(request, machines)
            value = normalise(raw, feasible, each.normalise)
            part = value * each.weight
            total = part if total is None else total + part
            weights += each.weight
            terms.append(ScoreTerm(each, machines, raw, value))
    if total is None:
        return np.zeros(len(feasible)), terms
    return total / weights, terms


def normalise(raw: Floats, feasible: Bools, how: Normalisation) -> Floats:
    """Return [n] in 0-100 over the feasible machines: as they are, min-max, or by rank; all equal: 100.

    The others get what the same line gives them, clipped.
    """
    if how == "none":
        return raw
    among = raw if feasible.all() else raw[feasible]
    if among.size == 0:
        return raw
    if how == "rank":
        levels = np.unique(among)
        if levels.size == 1:
            return np.full(raw.shape, 100.0)
        return 100.0 * np.clip(np.searchsorted(levels, raw, side="right") - 1, 0, None) / (levels.size - 1)
    low, high = float(among.min()), float(among.max())
    if high - low <= TIE * max(abs(low), abs(high)) * 1e-3:
        return np.full(raw.shape, 100.0)
    scaled = (raw - low) * (100.0 / (high - low))
    return scaled if among is raw else np.clip(scaled, 0.0, 100.0)


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

    def machines(self, sight: Sight) -> Machines:
        """Return the machines under one sight; the request's own window is for the profile's."""
        machines = self._machines.get(id(sight))
        if machines is None:
            window_s = self._request.window_s if sight is self._profile.sight else 0
            fleet = fleet_of(self._snapshot, self._ledger, sight, window_s, self._requests_alone)
            machines = self._machines[id(sight)] = Machines(fleet, self._request, self._now_s)
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
    return fleet


@dataclass(frozen=True, eq=False)
class Verdict:
    """What one filter said."""

    filter: Filter
    machines: Machines
    allowed: Bools
    """[n]"""


@dataclass(frozen=True, eq=False)
class ScoreTerm:
    """What one score said."""

    weighted: WeightedScore
    machines: Machines
    raw: Floats
    value: Floats
    """[n] after normalisation."""


@dataclass(frozen=True, eq=False)
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
        rows = np.flatnonzero(self.feasible)
        if not rows.size or count < 1:
            return rows[:0]
        total = self.total[rows]
        if count < rows.size:
            least = np.partition(total, rows.size - count)[rows.size - count] if count > 1 else total.max()
            near = np.flatnonzero(total >= least - TIE)
            rows, total = rows[near], total[near]
        steps = np.rint(total / TIE)
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
        return explain.answer(
            self, request.top if top is None else top, request.explain if explain_all is None else explain_all
        )

    def candidate(self, row: int) -> Mapping[str, Any]:
        """Return one machine's terms, JSON-ready."""
        return explain.candidate(self, row)
