"""Many identical instances: the same choice as one ranking after another, at a fraction of the cost.

What a machine scores depends on its own load and on how many copies of the newcomer it has; only the fleet's mean, and
the least and largest score that min-max spreads over, tie machines together. So:

- filters and scores are asked of a machine with one more copy on it (`Machines.take`), many machines at once;
- between two looks at the whole fleet only a shortlist is compared: the best machines, and those that mark the ends of
  each min-max. How much any other machine's total can have moved since is bounded, by how far the means and the ends
  have; when the best of the shortlist does not clear that bound, the whole fleet is looked at again.

Where more than that ties machines together (spread over a topology, affinity, a score that looks at the whole fleet and
is not the global variance) there is no short way, and `place_identical` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.request import Request
from scorer.filters.affinity import AntiAffinity, facets
from scorer.plugins import looks_at_fleet
from scorer.rank import EQUAL, TIE, Ranking, ScoreTerm
from scorer.scores.global_variance import GlobalVariance
from scorer.snapshot import Bools, Floats, Integers

_count = np.count_nonzero

SHORTLIST = 256
ENDS = 16
AHEAD = 256
"""So many machines are looked at together,"""
COURSE = 16
"""How far a course looks ahead, at least."""
DEPTH = 4
"""each with one to so many copies more."""


def place_identical(first: Ranking, count: int) -> list[str | None] | None:
    """Return the machine of each of ``count`` instances like the first's request; None where this way is closed."""
    if not _open(first):
        return None
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        try:
            rows = _Race(first, count).run(count)
        except _OutOfRangeError:
            return None
    names = first.machines.roster.names
    placed: list[str | None] = [names[row] for row in rows]
    return placed + [None] * (count - len(placed))


class Course:
    """The same, a few at a time, while the ledger takes in what was chosen.

    Everything that is read of the ledger is read when the course is made; so it is closed too for a request, filter or
    score that counts instances (ports, clusters, affinity) or is not one of ours.
    """

    def __init__(self, first: Ranking, count: int = COURSE) -> None:
        self._race: _Race | None = None
        if _open(first) and _counts_nothing(first):
            self._race = _Race(first, max(count, COURSE))

    def take(self, count: int) -> list[int]:
        """Return the rows of the next ``count``; fewer where this way is closed, or no machine is left."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            try:
                return self._race.run(count) if self._race else []
            except _OutOfRangeError:
                self._race = None
                return []


def _counts_nothing(first: Ranking) -> bool:
    request = first.request
    plugins = [verdict.filter for verdict in first.verdicts], [term.weighted.score for term in first.terms]
    return not (request.ports or request.cluster or request.anti_affinity) and all(
        type(plugin).__module__.startswith("scorer.") for each in plugins for plugin in each
    )


def _open(first: Ranking) -> bool:
    request = first.request
    return (
        not request.affinity
        and not any(
            term.topology != "machine" and facets(term) <= first.machines.facets for term in request.anti_affinity
        )
        and all(_separable(term) for term in first.terms)
        and not any(
            looks_at_fleet(verdict.filter) and not isinstance(verdict.filter, AntiAffinity)
            for verdict in first.verdicts
        )
    )


def _separable(term: ScoreTerm) -> bool:
    score = term.weighted.score
    if isinstance(score, GlobalVariance):
        return score.over == "all" and term.weighted.normalise != "rank"
    return not looks_at_fleet(score) and term.weighted.normalise != "rank"


class _OutOfRangeError(Exception):
    """A global variance would be clipped: only where machines are loaded beyond what they have."""


def _check_range(low: float, high: float) -> None:
    if low < 0.0 or high > 100.0:
        raise _OutOfRangeError


@dataclass
class _Part:
    """One score over all machines: ``own - slopes @ means``, and how it enters the total."""

    term: ScoreTerm
    share: float
    own: Floats
    slopes: Floats
    """[K, M]; K 0 for a score that knows no fleet."""
    means: list[float]
    steps: Floats
    spread: bool
    low: float = 0.0
    high: float = 0.0

    def raw(self, rows: Integers) -> Floats:
        """Return [n]: the score as it is now."""
        raw = self.own[rows]
        for slope, mean in zip(self.slopes, self.means, strict=True):
            raw = raw - slope[rows] * mean
        return raw

    def line(self, low: float, high: float) -> tuple[float, float]:
        """Return slope and start of this part of the total between these ends."""
        if not self.spread:
            return self.share, 0.0
        if high - low <= EQUAL * max(abs(low), abs(high)):
            return 0.0, 100.0 * self.share
        slope = 100.0 * self.share / (high - low)
        return slope, -low * slope


class _Race:
    """The placing of one batch."""

    def __init__(self, first: Ranking, count: int) -> None:
        self._first = first
        self._ahead, self._depth = min(AHEAD, 2 * count), min(DEPTH, count)
        self._request: Request = first.request
        machines = len(first.machines)
        self._alive: Bools = first.feasible.copy()
        self._copies = np.zeros(machines, np.int64)
        self._name_order = first.machines.roster.name_order
        weights = sum(term.weighted.weight for term in first.terms)
        self._parts = [self._part(term, term.weighted.weight / weights) for term in first.terms]
        self._spread = [part for part in self._parts if part.spread]
        self._rest: Floats = np.zeros(machines)
        """[M] What the scores without min-max and fleet give together."""
        for part in self._parts:
            if not part.spread and not part.means:
                self._rest += part.share * part.own
        self._rows: Integers = np.empty(0, np.int64)
        """The shortlist."""
        self._moved: set[int] = set()
        """Those of it that got a copy since it was made."""
        self._moving = [part for part in self._parts if part.spread or part.means]
        self._next: dict[int, list[tuple[bool, list[float]]]] = {}
        """By row, for one more copy last: whether it would leave the machine feasible, and its scores then."""
        self._ends: list[tuple[list[float], list[float]]] = [
            (part.slopes.min(axis=1).tolist(), part.slopes.max(axis=1).tolist()) if machines else ([], [])
            for part in self._moving
        ]

    def _part(self, term: ScoreTerm, share: float) -> _Part:
        machines = len(self._first.machines)
        spread = term.weighted.normalise == "min-max"
        if isinstance(term.weighted.score, GlobalVariance):
            own, slopes, means, steps = term.weighted.score.parts(term.machines)
            return _Part(term, share, own, slopes, means.tolist(), steps, spread)
        nothing = np.empty((0, machines))
        return _Part(term, share, term.raw.copy(), nothing, [], nothing, spread)

    # ---- looking at one more copy

    def _look_ahead(self, rows: Integers) -> None:
        """Ask filters and scores of these machines with one to `_depth` copies more than they have."""
        depths = np.arange(self._depth, 0, -1)
        copies = (self._copies[rows][:, None] + depths).reshape(-1)
        again = np.repeat(rows, self._depth)
        allowed = np.ones(again.size, np.bool_)
        for verdict in self._first.verdicts:
            allowed &= verdict.filter(self._request, verdict.machines.take(again, copies))
        columns = []
        for part in self._parts:
            machines = part.term.machines.take(again, copies)
            score = part.term.weighted.score
            if isinstance(score, GlobalVariance):
                columns.append(score.parts(machines)[0])
            else:
                columns.append(score(self._request, machines))
        values = np.array(columns).T.tolist() if columns else [[] for _ in again]
        looks = list(zip(allowed.tolist(), values, strict=True))
        for place, row in enumerate(rows.tolist()):
            self._next[row] = looks[place * self._depth : (place + 1) * self._depth]

    def _put(self, row: int) -> bool:
        """Place one copy; return whether the machine can take another."""
        looks = self._next[row]
        good, scores = looks.pop()
        if not looks:
            del self._next[row]
        self._copies[row] += 1
        rest = 0.0
        for part, score in zip(self._parts, scores, strict=True):
            part.own[row] = score
            if part.means:
                for k, step in enumerate(part.steps[:, row].tolist()):
                    part.means[k] += step
            elif not part.spread:
                rest += part.share * score
        self._rest[row] = rest
        self._alive[row] = good
        return good

    # ---- the shortlist

    def run(self, count: int) -> list[int]:
        """Return the rows of the next ``count``, in order; fewer when no machine is left. May be called again."""
        chosen = self._sprint(count, sure=False)
        while len(chosen) < count:
            alive = np.flatnonzero(self._alive)
            if not alive.size:
                break
            self._refresh(alive)
            chosen += self._sprint(count - len(chosen), sure=True)
        return chosen

    def _refresh(self, alive: Integers) -> None:
        """Look at the whole fleet: choose the shortlist, and note what the others had."""
        total = self._rest[alive].copy()
        keep = np.zeros(alive.size, np.bool_)
        raws = []
        for part in self._moving:
            raw = part.raw(alive)
            raws.append(raw)
            if part.means:
                _check_range(float(raw.min()), float(raw.max()))
            if part.spread:
                part.low, part.high = float(raw.min()), float(raw.max())
                if alive.size > 2 * ENDS:
                    order = np.argpartition(raw, (ENDS, alive.size - ENDS))
                    keep[order[:ENDS]] = keep[order[-ENDS:]] = True
            slope, start = part.line(part.low, part.high)
            total += slope * raw + start
        steps = np.rint(total / TIE)
        if alive.size > SHORTLIST:
            least = np.partition(steps, alive.size - SHORTLIST)[alive.size - SHORTLIST]
            near = np.flatnonzero(steps >= least)
            best = near[np.lexsort((self._name_order[alive[near]], -steps[near]))][:SHORTLIST]
            keep[best] = True
        else:
            keep[:] = True
        self._rows = alive[keep]
        self._moved.clear()
        others = ~keep
        self._others = bool(others.any())
        if self._others:
            self._best_other = float(total[others].max())
            self._raw_others = [(float(raw[others].min()), float(raw[others].max())) for raw in raws]
        self._reference = [(list(part.means), *part.line(part.low, part.high)) for part in self._moving]

    def _bound(self, ends: list[tuple[float, float]], lines: list[tuple[float, float]]) -> float | None:
        """Return what no machine outside the shortlist can exceed now; None when an end may lie among them."""
        bound = self._best_other
        for place, part in enumerate(self._moving):
            means, slope_then, start_then = self._reference[place]
            drop = rise = 0.0
            for mean, then, least, largest in zip(part.means, means, *self._ends[place], strict=True):
                one, other = least * (mean - then), largest * (mean - then)
                rise -= one if one < other else other
                drop -= other if one < other else one
            low_then, high_then = self._raw_others[place]
            if part.spread and (low_then + drop < ends[place][0] or high_then + rise > ends[place][1]):
                return None
            slope, start = lines[place]
            change = slope - slope_then
            bound += start - start_then + max(change * low_then, change * high_then) + max(slope * rise, slope * drop)
        return bound

    def _sprint(self, count: int, sure: bool) -> list[int]:
        """Place copies as long as the shortlist is sure to hold the best machine; ``sure``: it is just made."""
        rows = self._rows
        own = [part.own[rows] for part in self._moving]
        slopes = [part.slopes[:, rows] for part in self._moving]
        rest = self._rest[rows]
        moved = self._moved
        chosen: list[int] = []
        while len(chosen) < count and rows.size:
            total = rest
            ends: list[tuple[float, float]] = []
            lines: list[tuple[float, float]] = []
            constant = 0.0
            for place, part in enumerate(self._moving):
                raw = own[place]
                if part.means:
                    raw = raw - np.array(part.means) @ slopes[place]
                low, high = float(raw[raw.argmin()]), float(raw[raw.argmax()])
                if part.means and (low < 0.0 or high > 100.0):
                    raise _OutOfRangeError
                slope, start = part.line(low, high)
                ends.append((low, high))
                lines.append((slope, start))
                constant += start
                total = total + slope * raw
            at = int(total.argmax())
            top = float(total[at])
            equals = total >= top - TIE
            if _count(equals) > 1:
                near = np.flatnonzero(equals)
                steps = np.rint((total[near] + constant) / TIE)
                at = int(near[np.lexsort((self._name_order[rows[near]], -steps))[0]])
            row = int(rows[at])
            if self._others and (chosen or not sure):
                bound = self._bound(ends, lines)
                top += constant
                if bound is None or top < bound - TIE or (top <= bound + TIE and row in moved):
                    break
            if row not in self._next:
                self._prepare(rows, total, at)
            chosen.append(row)
            if self._put(row):
                moved.add(row)
                for place, part in enumerate(self._moving):
                    own[place][at] = part.own[row]
                rest[at] = self._rest[row]
            else:
                left = np.ones(rows.size, np.bool_)
                left[at] = False
                rows, rest = rows[left], rest[left]
                self._rows = rows
                own, slopes = [each[left] for each in own], [each[:, left] for each in slopes]
        return chosen

    def _prepare(self, rows: Integers, total: Floats, at: int) -> None:
        """Look ahead for the machine chosen and for the next best ones that nobody looked at yet."""
        many = 2 * self._ahead
        near = rows[np.argpartition(-total, many)[:many]] if total.size > many else rows
        wanted = [row for row in near.tolist() if row not in self._next][: self._ahead]
        row = int(rows[at])
        self._look_ahead(np.array(list(dict.fromkeys([row, *wanted])), np.int64))
