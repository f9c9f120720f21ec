"""Feasibility and scores of all machines, kept current while copies of the requested instance are placed one by one.

A copy changes the columns of its own machine, and the means of scores of scope ``means``. So filters and scores are
asked about many machines at once (`Machines.take`): those that are likely to be next, with one copy more, two more and
so on. To place a copy then only reads their answers.
"""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import dataclass

import numpy as np

from schemas.rpc.request import Request
from scorer.ranking.normalise import EQUAL
from scorer.ranking.profiles.plugins import parts, scope_for
from scorer.ranking.ranking import Ranking, ScoreTerm
from scorer.snapshot.arrays import Bools, Floats, Integers

DEPTH = 4
"""Filters and scores are asked about a machine with one to this many more copies at once."""


@dataclass
class Part:
    """One score over all machines, ``own - slopes @ means``, and how it enters the total."""

    term: ScoreTerm
    share: float
    """Its weight over the sum of the weights."""
    own: Floats
    """[M]"""
    slopes: Floats
    """[K, M]; K is 0 for a score that uses no mean of the fleet."""
    means: list[float]
    """[K]"""
    steps: Floats
    """[K, M] How much a copy on a machine adds to the means."""
    separable: bool
    """Whether the score is of scope ``means``."""
    spread: bool
    """Whether the profile normalises it over the feasible machines by min-max."""
    low: float = 0.0
    high: float = 0.0

    @property
    def moves(self) -> bool:
        """Whether a copy on one machine changes what this score adds to the total of another."""
        return self.spread or bool(self.means)

    def raw(self, rows: Integers) -> Floats:
        """Return [n]: the score with the copies placed so far."""
        raw = self.own[rows]
        for slope, mean in zip(self.slopes, self.means, strict=True):
            raw = raw - slope[rows] * mean
        return raw

    def line(self, low: float, high: float) -> tuple[float, float]:
        """Return slope and start: this score adds ``slope * raw + start`` to the total, given the ends of min-max."""
        if not self.spread:
            return self.share, 0.0
        if high - low <= EQUAL * max(abs(low), abs(high)):
            return 0.0, 100.0 * self.share
        slope = 100.0 * self.share / (high - low)
        return slope, -low * slope


class IncrementalScores:
    """Feasibility and scores of a ranking's machines, with the copies of its requested instance placed since."""

    def __init__(self, first: Ranking, count: int) -> None:
        machines = len(first.machines)
        self.name_order: Integers = first.machines.roster.name_order
        self.alive: Bools = first.feasible.copy()
        """[M] Whether one more copy is feasible."""
        weights = sum(term.weighted.weight for term in first.terms)
        self.parts = [_part(term, term.weighted.weight / weights) for term in first.terms]
        self.moving = [part for part in self.parts if part.moves]
        self.rest: Floats = np.zeros(machines)
        """[M] The sum of all other scores' parts of the total."""
        for part in self.parts:
            if not part.moves:
                self.rest += part.share * part.own
        self._first = first
        self._request: Request = first.request
        self._depth = min(DEPTH, count)
        self._copies = np.zeros(machines, np.int64)
        self._answers: dict[int, list[tuple[bool, list[float]]]] = {}
        """By row, a list, the last entry for one more copy: whether another is feasible after it, and the scores."""
        self.known: KeysView[int] = self._answers.keys()
        """The rows that filters and scores were asked about: `place` may be called for these."""

    def look_ahead(self, rows: Integers) -> None:
        """Ask filters and scores about these machines with one to `DEPTH` more copies than they have."""
        depths = np.arange(self._depth, 0, -1)
        copies = (self._copies[rows][:, None] + depths).reshape(-1)
        again = np.repeat(rows, self._depth)
        allowed = np.ones(again.size, np.bool_)
        for verdict in self._first.verdicts:
            allowed &= verdict.filter(self._request, verdict.machines.take(again, copies))
        columns = []
        for part in self.parts:
            machines, score = part.term.machines.take(again, copies), part.term.weighted.score
            columns.append(parts(score, machines).own if part.separable else score(self._request, machines))
        values = np.array(columns).T.tolist() if columns else [[] for _ in again]
        answers = list(zip(allowed.tolist(), values, strict=True))
        for place, row in enumerate(rows.tolist()):
            self._answers[row] = answers[place * self._depth : (place + 1) * self._depth]

    def place(self, row: int) -> bool:
        """Place one copy on a machine of `known`; return whether one more is feasible there."""
        answers = self._answers[row]
        feasible, scores = answers.pop()
        if not answers:
            del self._answers[row]
        self._copies[row] += 1
        rest = 0.0
        for part, score in zip(self.parts, scores, strict=True):
            part.own[row] = score
            if part.means:
                for k, step in enumerate(part.steps[:, row].tolist()):
                    part.means[k] += step
            elif not part.spread:
                rest += part.share * score
        self.rest[row] = rest
        self.alive[row] = feasible
        return feasible


def _part(term: ScoreTerm, share: float) -> Part:
    score, spread = term.weighted.score, term.weighted.normalise == "min-max"
    if scope_for(score, term.machines.request, term.machines) == "means":
        own, slopes, means, steps = parts(score, term.machines)
        return Part(term, share, own, slopes, means.tolist(), steps, separable=True, spread=spread)
    none = np.empty((0, len(term.machines)))
    return Part(term, share, term.raw.copy(), none, [], none, separable=False, spread=spread)
