"""Reliability: the chances of load above the limit that `expected_overload` states, compared with what is observed.

While a profile with that score places, every ``EVERY_MINUTES`` the score is asked for each machine without a requested
instance. The stated chance p is the one that its explanation shows. The observed value is f, the share of the next
``AHEAD_MINUTES`` in which the machine's CPU demand is above the limit.

Cases are gathered in bins of p. Over all cases, with y whether the drawn minute is above the limit:

    Brier score = E (p - y)² = mean of p² - 2 p f + f,   skill = 1 - Brier / (base (1 - base)),   base = mean of f

A skill above 0 is better than stating the base rate always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ops.replay.play.roles import Moment, Policy
from ops.replay.play.simulation import Outcome
from ops.replay.report.measures import utilization
from schemas.rpc.request import Request
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.tables import Tables
from scorer.snapshot.arrays import Floats

EVERY_MINUTES = 20
AHEAD_MINUTES = 30
BINS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
CASES_MIN = 500
"""A bin of fewer cases is not judged."""
STATED_MIN, POINTS, PART = 0.05, 0.02, 0.2
"""The least stated chance of a bin that is judged: it is right within two points, or a fifth of the chance."""


class Stated:
    """Records the chances that a profile's score states, as an observer of a simulation."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._tables = Tables()
        self._next = EVERY_MINUTES
        self.minutes: list[int] = []
        self.chances: list[Floats] = []
        """[M] each."""

    def __call__(self, moment: Moment) -> None:
        """Record the chances, if `EVERY_MINUTES` have passed."""
        if moment.minute < self._next:
            return
        self._next = moment.minute + EVERY_MINUTES
        ranking = rank(Request(), moment.inputs(self._profile, self._tables))
        stated = self._profile.find(ExpectedOverload)
        term = next(one for one in ranking.terms if one.weighted.score is stated)
        self.minutes.append(moment.minute)
        said, detail = ranking.said_of_all(term), term.weighted.score.detail
        self.chances.append(np.array([_chance(detail(each, Request(), term.machines, 0)) for each in said], np.float64))


def _chance(shown: Mapping[str, Any]) -> float:
    stated: Mapping[str, float | None] = next(of for name, of in shown.items() if name.startswith("chance_above"))
    found = stated.get("cpu")
    return float("nan") if found is None else found


def cases(stated: Stated, outcome: Outcome, limit: float) -> tuple[Floats, Floats]:
    """Return [N] stated chances and [N] observed shares, after the fill."""
    demand = utilization(outcome)
    chances, shares = [np.zeros(0)], [np.zeros(0)]
    for minute, chance in zip(stated.minutes, stated.chances, strict=True):
        if outcome.workload.fill_minutes <= minute <= outcome.workload.minutes - AHEAD_MINUTES:
            chances.append(chance)
            shares.append((demand[:, minute : minute + AHEAD_MINUTES] > limit).mean(axis=1))
    return np.concatenate(chances), np.concatenate(shares)


@dataclass(frozen=True)
class Bin:
    """The cases whose stated chance lies between two bounds."""

    low: float
    high: float
    cases: int
    stated: float
    observed: float
    """Means over the cases."""

    @property
    def right(self) -> bool | None:
        """Return whether stated and observed agree; None when that is not judged."""
        if self.cases < CASES_MIN or self.stated <= STATED_MIN:
            return None
        return abs(self.observed - self.stated) <= max(POINTS, PART * self.stated)


@dataclass(frozen=True)
class Reliability:
    """The reliability of stated chances."""

    bins: Sequence[Bin]
    brier: float
    base: float

    @property
    def skill(self) -> float:
        """1 is perfect, 0 is the base rate's; NaN where all cases are alike, or there are none."""
        variance = self.base * (1.0 - self.base)
        return 1.0 - self.brier / variance if variance else float("nan")


def reliability(stated: Floats, observed: Floats) -> Reliability:
    """Return bins and scores of some cases.

    >>> found = reliability(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    >>> [(one.cases, one.observed) for one in found.bins], found.skill
    ([(2, 0.5)], 0.0)
    """
    known = np.isfinite(stated)
    stated, observed = stated[known], observed[known]
    place = np.clip(np.searchsorted(BINS, stated, side="right") - 1, 0, len(BINS) - 2)
    bins = [
        Bin(BINS[at], BINS[at + 1], int(here.sum()), float(stated[here].mean()), float(observed[here].mean()))
        for at in range(len(BINS) - 1)
        if (here := place == at).any()
    ]
    brier = float((stated * stated - 2.0 * stated * observed + observed).mean()) if stated.size else 0.0
    return Reliability(bins, brier, float(observed.mean()) if observed.size else 0.0)


class Chances:
    """Gathers the cases of one profile over many worlds."""

    def __init__(self, profile: Profile) -> None:
        score = profile.find(ExpectedOverload)
        if score is None:
            raise ValueError(f"profile {profile.name} does not use expected_overload")
        self._profile, self._limit = profile, score.limit
        self._stated: list[Floats] = []
        self._observed: list[Floats] = []

    def of(self, policy: Policy) -> Stated | None:
        """Return an observer of this policy's next simulation; None if it is not the profile's."""
        return Stated(self._profile) if policy.profile is self._profile else None

    def take(self, stated: Stated, outcome: Outcome) -> None:
        """Add the cases of one world."""
        chance, share = cases(stated, outcome, self._limit)
        self._stated.append(chance)
        self._observed.append(share)

    def found(self) -> Reliability:
        """Return the reliability over all worlds."""
        none = [np.zeros(0)]
        return reliability(np.concatenate(none + self._stated), np.concatenate(none + self._observed))
