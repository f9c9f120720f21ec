"""A ranking: the verdict on every machine of one decision, as data. `scorer.ranking.explanation` puts it into words."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.rpc.request import Request
from scorer.ledger.record.limits import Limit, one_to_a_port
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.plugins import Filter
from scorer.ranking.profiles.profile import PlacedFilter, Profile, WeightedScore
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.roster import hash_of

TIE = 1e-9
"""Totals closer than this are equal; the machine whose name sorts first is taken."""

BEST = 5
"""How many of the best machines are found at once: to find a few more costs next to nothing."""

_BLOCK = 32
NO_ROWS: Integers = np.empty(0, np.int64)


def at_least(values: Floats, count: int) -> float:
    """Return a bound that the largest ``count`` values reach, and few others: from the largest of each block."""
    if count == 1:
        return float(values.max())
    blocks = values.size // _BLOCK
    if count > blocks:
        return float(np.partition(values, values.size - count)[values.size - count])
    largest = np.maximum.reduce(values[: blocks * _BLOCK].reshape(_BLOCK, blocks), axis=0)
    largest.partition(blocks - count)
    return float(largest[blocks - count])


@dataclass(eq=False)
class Verdict:
    """The verdict of one filter on all machines; read-only. Not frozen: that costs 1 us, 5 times in a decision."""

    placed: PlacedFilter
    seen: Machines
    allowed: Bools
    """[n]"""

    @property
    def filter(self) -> Filter:
        """The filter."""
        return self.placed.filter

    @cached_property
    def machines(self) -> Machines:
        """The machines as the filter saw them."""
        return self.seen.owned_by(self.placed.owner)

    def take(self, rows: Integers) -> Machines:
        """Return some of them, as the filter saw them."""
        machines = self.seen.take(rows)
        machines.owner = self.placed.owner
        return machines


@dataclass(eq=False)
class ScoreTerm:
    """One score's values: its part of the total is ``slope * raw + start``, times the weight's share. Read-only."""

    weighted: WeightedScore
    seen: Machines
    raw: Floats
    slope: float
    start: float

    @cached_property
    def machines(self) -> Machines:
        """The machines as the score saw them."""
        return self.seen.owned_by(self.weighted.owner)

    def value(self, row: int) -> float:
        """Return one machine's normalised value."""
        return float(self.raw[row]) * self.slope + self.start


@dataclass(eq=False)
class Ranking:
    """The verdict on every machine."""

    request: Request
    profile: Profile
    machines: Machines
    feasible: Bools
    """[n]"""
    total: Floats
    """[n] 0 to 100, higher is better; meaningless where not feasible."""
    verdicts: list[Verdict] = field(repr=False)
    terms: list[ScoreTerm] = field(repr=False)
    said: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    """Parts of the explanation that `scorer.ranking.explanation.explain` has made already."""
    _best_rows: Integers = field(default_factory=lambda: NO_ROWS, init=False, repr=False)

    @cached_property
    def feasible_count(self) -> int:
        """How many machines all filters allow."""
        return int(np.count_nonzero(self.feasible))

    @cached_property
    def limits(self) -> list[Limit]:
        """The limits that the ledger must uphold for its request, each for all machines."""
        return self.limits_for(self.request, self.machines)

    def limits_for(self, request: Request, machines: Machines) -> list[Limit]:
        """Return the limits of the profile's filters for a request, and one instance a port."""
        found = [limit for placed in self.profile.filters for limit in plugins.limits(placed.filter, request, machines)]
        known = {limit.measure for limit in found}
        return found + [limit for limit in one_to_a_port(request.ports) if limit.measure not in known]

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
        """Return the rows of the best ``count`` feasible machines, best first; equal ones by the profile's ties."""
        if self._best_rows.size < min(count, self.feasible_count):
            self._best_rows = self._best(self.feasible, self.feasible_count, max(count, BEST))
        return self._best_rows[:count]

    def best_among(self, only: Bools, count: int) -> Integers:
        """Return the rows of the best ``count`` feasible machines among ``only`` [n], best first."""
        feasible = self.feasible & only
        return self._best(feasible, int(np.count_nonzero(feasible)), count)

    def _best(self, feasible: Bools, feasible_count: int, count: int) -> Integers:
        if count < 1 or not feasible_count:
            return NO_ROWS
        total = self.total
        if feasible_count < total.size:
            total = total.copy()
            np.copyto(total, -np.inf, where=~feasible)
        if count < feasible_count:
            (rows,) = (total >= at_least(total, count) - TIE).nonzero()
        else:
            rows = np.flatnonzero(feasible)
        steps = np.rint(total[rows] / TIE)
        names = self.machines.roster.name_order[rows]
        if self.profile.ties == "draw":
            return rows[np.lexsort((names, self._lots(rows), -steps))][:count]
        return rows[np.lexsort((names, -steps))][:count]

    def _lots(self, rows: Integers) -> NDArray[np.uint64]:
        """Return [len(rows)] a hash of machine and instance, by which ties are drawn; the same in every process."""
        lot = self.machines.roster.name_hash[rows] ^ np.uint64(hash_of(self.request.id))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of splitmix64
            lot = (lot ^ (lot >> np.uint64(shift))) * np.uint64(factor)
        return lot ^ (lot >> np.uint64(31))


@dataclass(eq=False)
class ContinuedRanking(Ranking):
    """The ranking that a run of alike placements began with, and the machine that is best after them."""

    base: Ranking
    row: int

    def best(self, count: int) -> Integers:
        """Return the row of the best machine; no others are known."""
        return np.array([self.row][:count], np.int64)
