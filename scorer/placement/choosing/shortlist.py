"""The next best machine, found among a few: the change of all other machines' totals is bounded.

Between two looks at the whole fleet only a shortlist is compared: the best machines, and those that mark the ends of
each min-max. The totals of other machines depend on what is placed only by means and ends. So none of them can have
risen by more than means and ends have changed. When the best of the shortlist does not clear that bound, the whole
fleet is looked at again.
"""

from __future__ import annotations

import numpy as np

from scorer.placement.choosing.incremental import IncrementalScores
from scorer.ranking.ranking import TIE, Ranking
from scorer.snapshot.arrays import Floats, Integers

_count = np.count_nonzero

SHORTLIST = 256
"""The number of best machines that are compared."""
ENDS = 16
"""The number of machines at either end of each min-max that are compared, too."""
_ROUNDED = TIE / 2
"""An end of min-max that lies outside by less, in the total, does so by rounding, as in a fleet of alike machines."""
LOOK_AHEAD = 256
"""The most machines that filters and scores are asked about at once."""


class OutOfRangeError(Exception):
    """A score of scope ``means`` would be clipped: machines are loaded beyond what they have."""


class Shortlist:
    """Chooses machines for copies of a ranking's requested instance, and places each copy before the next is chosen."""

    def __init__(self, first: Ranking, count: int) -> None:
        self._look_ahead = min(LOOK_AHEAD, 2 * count)
        self._scores = IncrementalScores(first, count)
        self._moving = self._scores.moving
        self._name_order = self._scores.name_order
        self._rows: Integers = np.empty(0, np.int64)
        """The shortlist."""
        self._out_of_order: set[int] = set()
        """Its machines that an equal one outside it may precede by name: they got a copy since, or are at an end."""
        self._slope_ends: list[tuple[list[float], list[float]]] = [
            (part.slopes.min(axis=1).tolist(), part.slopes.max(axis=1).tolist()) if len(first.machines) else ([], [])
            for part in self._moving
        ]

    def next(self, count: int) -> list[int]:
        """Return the rows of the next ``count`` copies, in order; fewer when no machine is left.

        May be called again. Raises OutOfRangeError.
        """
        chosen = self._choose(count, renewed=False)
        while len(chosen) < count:
            alive = np.flatnonzero(self._scores.alive)
            if not alive.size:
                break
            self._renew(alive)
            chosen += self._choose(count - len(chosen), renewed=True)
        return chosen

    def _renew(self, alive: Integers) -> None:
        """Look at the whole fleet: choose the shortlist, and note the totals of the others."""
        total = self._scores.rest[alive].copy()
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
            self._out_of_order = set(alive[keep].tolist()) - set(alive[best].tolist())
            keep[best] = True
        else:
            self._out_of_order = set()
            keep[:] = True
        self._rows = alive[keep]
        others = ~keep
        self._others = bool(others.any())
        if self._others:
            self._best_other = float(total[others].max())
            self._raw_others = [(float(raw[others].min()), float(raw[others].max())) for raw in raws]
        self._noted = [(list(part.means), *part.line(part.low, part.high)) for part in self._moving]

    def _bound(self, ends: list[tuple[float, float]], lines: list[tuple[float, float]]) -> float | None:
        """Return an upper bound of all totals outside the shortlist; None when an end of min-max may lie there."""
        bound = self._best_other
        for place, part in enumerate(self._moving):
            means, slope_then, start_then = self._noted[place]
            drop = rise = 0.0
            for mean, then, least, largest in zip(part.means, means, *self._slope_ends[place], strict=True):
                one, other = least * (mean - then), largest * (mean - then)
                rise -= one if one < other else other
                drop -= other if one < other else one
            low_then, high_then = self._raw_others[place]
            slope, start = lines[place]
            beyond = max(ends[place][0] - (low_then + drop), high_then + rise - ends[place][1])
            if part.spread and beyond > 0 and not 0.0 < slope * beyond <= _ROUNDED:
                return None
            change = slope - slope_then
            bound += start - start_then + max(change * low_then, change * high_then) + max(slope * rise, slope * drop)
        return bound

    def _choose(self, count: int, renewed: bool) -> list[int]:
        """Place copies while the shortlist certainly has the best machine; ``renewed``: it was just made."""
        scores, moving, rows, out_of_order = self._scores, self._moving, self._rows, self._out_of_order
        own = [part.own[rows] for part in moving]
        slopes = [part.slopes[:, rows] for part in moving]
        rest = scores.rest[rows]
        chosen: list[int] = []
        while len(chosen) < count and rows.size:
            total = rest
            ends: list[tuple[float, float]] = []
            lines: list[tuple[float, float]] = []
            constant = 0.0
            for place, part in enumerate(moving):
                raw = own[place]
                if part.means:
                    raw = raw - np.array(part.means) @ slopes[place]
                low, high = float(raw[raw.argmin()]), float(raw[raw.argmax()])
                if part.means:
                    _check_range(low, high)
                slope, start = part.line(low, high)
                ends.append((low, high))
                lines.append((slope, start))
                constant += start
                total = total + slope * raw
            at, top = self._best(rows, total, constant)
            row = int(rows[at])
            if self._others and (chosen or not renewed):
                bound = self._bound(ends, lines)
                if bound is None or top < bound - TIE or (top <= bound + TIE and row in out_of_order):
                    break
            if row not in scores.known:
                self._ask(rows, total, row)
            chosen.append(row)
            if scores.place(row):
                out_of_order.add(row)
                for place, part in enumerate(moving):
                    own[place][at] = part.own[row]
                rest[at] = scores.rest[row]
            else:
                left = np.ones(rows.size, np.bool_)
                left[at] = False
                self._rows = rows = rows[left]
                rest = rest[left]
                own, slopes = [each[left] for each in own], [each[:, left] for each in slopes]
        return chosen

    def _best(self, rows: Integers, total: Floats, constant: float) -> tuple[int, float]:
        """Return the position of the largest total, by name among equal ones, and that total."""
        at = int(total.argmax())
        top = float(total[at])
        equals = total >= top - TIE
        if _count(equals) > 1:
            near = np.flatnonzero(equals)
            steps = np.rint((total[near] + constant) / TIE)
            at = int(near[np.lexsort((self._name_order[rows[near]], -steps))[0]])
        return at, top + constant

    def _ask(self, rows: Integers, total: Floats, row: int) -> None:
        """Ask filters and scores about the machine chosen, and about the next best ones not asked about yet.

        In the order in which they are chosen: of many alike machines by name.
        """
        near = rows[np.lexsort((self._name_order[rows], -np.rint(total / TIE)))][: 2 * self._look_ahead]
        known = self._scores.known
        wanted = [each for each in near.tolist() if each not in known][: self._look_ahead]
        self._scores.look_ahead(np.array(list(dict.fromkeys([row, *wanted])), np.int64))


def _check_range(low: float, high: float) -> None:
    if low < 0.0 or high > 100.0:
        raise OutOfRangeError
