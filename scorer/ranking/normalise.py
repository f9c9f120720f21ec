"""Normalisation: how the scores of one ranking are spread over the feasible machines and added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scorer.ranking.profiles.profile import Normalisation
from scorer.ranking.ranking import TIE, ScoreTerm
from scorer.snapshot.arrays import Bools, Floats, Integers

EQUAL = 1e-12
"""Raw scores that differ by less, relatively, are equal: min-max must not spread rounding errors over 0-100."""


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
            if self._feasible[least] and self._feasible[largest]:  # the usual case, in which nothing is copied
                return float(values[least]), float(values[largest])
        among = self.of(values)
        return (float(among.min()), float(among.max())) if among.size else None


def normalise(raw: Floats, among: Among, how: Normalisation) -> tuple[Floats, float, float]:
    """Return values, slope and start: ``slope * values + start`` is in 0-100 for each feasible machine.

    ``none``: as they are; ``min-max``: the least becomes 0, the largest 100; ``rank``: the same by place, equal values
    sharing one. When all are equal, each becomes 100. The result of a machine that is not feasible has no meaning.
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
