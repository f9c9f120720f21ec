"""A ranking: the verdict on every machine of one decision, as data. `scorer.ranking.explanation` puts it into words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.rpc.request import Request
from scorer.ranking.kernel.binding import TIE, Uses, best_among, explain, explain_all
from scorer.ranking.kernel.layout import CODE
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.profile import PlacedFilter, Profile, WeightedScore
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.rules import Roster, hash_of

BEST = 5
"""How many of the best machines are found at once: to find a few more costs next to nothing."""
_SORTED = 64
"""More are found by sorting all."""
NO_ROWS: Integers = np.empty(0, np.int64)
Codes = NDArray[np.int32]


@dataclass(eq=False)
class Verdict:
    """One filter that ran."""

    placed: PlacedFilter
    machines: Machines
    """The machines as it saw them."""
    code: int
    """What is added to the number of its reason in `Ranking.refused`."""
    reasons: Sequence[str]
    """By number, from 1."""
    use: int
    """Its place among the C functions of the ranking; -1 for a filter of another package."""
    allowed: Bools | None = None
    """[n] of a filter of another package."""

    @property
    def filter(self) -> Any:
        return self.placed.filter

    def reason(self, number: int) -> str:
        why, named = self.reasons[number - 1], getattr(self.filter, "named", None)
        return why if named is None else str(named(why, self.machines.request))


@dataclass(eq=False)
class ScoreTerm:
    """One score's values: its part of the total is ``slope * raw + start``, times the weight's share. Read-only."""

    weighted: WeightedScore
    machines: Machines
    """The machines as it saw them."""
    raw: Floats
    slope: float
    start: float
    use: int
    """Its place among the C functions of the ranking; -1 for a score of another package."""

    def value(self, row: int) -> float:
        """Return one machine's normalised value."""
        return float(self.raw[row]) * self.slope + self.start


@dataclass(eq=False)
class Ranking:
    """The verdict on every machine."""

    request: Request
    profile: Profile
    machines: Machines
    refused: Codes
    """[n] For the first filter that refused a machine its code and the number of its reason; 0 where none did."""
    total: Floats
    """[n] 0 to 100, higher is better; meaningless where not feasible."""
    verdicts: list[Verdict] = field(repr=False)
    terms: list[ScoreTerm] = field(repr=False)
    counts: Integers = field(repr=False)
    """How many machines each refusal has, by its number in ``refused``."""
    order: NDArray[np.uint64] = field(repr=False)
    """[n] Of equal totals the lowest comes first."""
    uses: tuple[Uses, Uses] = field(repr=False)
    """The C functions of filters and scores, with what they read."""
    _best_rows: Integers = field(default_factory=lambda: NO_ROWS, repr=False)
    near: bool = False
    """Whether the fleet is near the limit of a profile's ``survive``: a change of any machine matters."""

    @cached_property
    def feasible(self) -> Bools:
        """[n] Whether all filters allow a machine."""
        found: Bools = self.refused == 0
        return found

    @property
    def feasible_count(self) -> int:
        """The number of machines that all filters allow."""
        return int(self.counts[0])

    @property
    def chosen(self) -> str | None:
        """The best machine, None when none is feasible."""
        rows = self.best(1)
        return self.machines.name(int(rows[0])) if rows.size else None

    @cached_property
    def best_first(self) -> Integers:
        """Rows of all feasible machines, best first."""
        return self.best(len(self.machines))

    def best(self, count: int) -> Integers:
        """Return the rows of the ``count`` best feasible machines, best first; ties by the profile's rule."""
        if self._best_rows.size < min(count, self.feasible_count):
            self._best_rows = self._best(count, None)
        return self._best_rows[:count]

    def best_among(self, only: Bools, count: int) -> Integers:
        """Return the rows of the best ``count`` feasible machines among ``only`` [n], best first."""
        return self._best(count, np.ascontiguousarray(only))

    def _best(self, count: int, only: Bools | None) -> Integers:
        if count <= _SORTED:
            return best_among(self.refused, self.total, self.order, only, count)
        (rows,) = (self.feasible if only is None else self.feasible & only).nonzero()
        steps = np.rint(self.total[rows] / TIE)
        found: Integers = rows[np.lexsort((self.order[rows], -steps))][:count]
        return found

    def add(self, verdict: Verdict) -> None:
        """Add a verdict whose refusals are in ``refused`` already."""
        self.verdicts.append(verdict)
        self.total[self.refused != 0] = 0.0
        self.counts = np.bincount(self.refused, minlength=self.counts.size + CODE)
        self._best_rows = NO_ROWS

    # ---- one machine

    def said(self, verdict: Verdict | ScoreTerm, row: int) -> tuple[float, Floats | None]:
        """Return a built-in plugin's verdict on one machine, and the numbers behind it, by the function that ranked.

        None for a plugin of another package, which is called by `scorer.ranking.profiles.plugins.detail`.
        """
        if verdict.use < 0:
            return 0.0, None
        is_score = isinstance(verdict, ScoreTerm)
        patch = verdict.machines.what_if.place.get(row, -1)
        return explain(self.uses[is_score], verdict.use, row, patch, is_score=is_score)

    def said_of_all(self, term: ScoreTerm) -> Floats:
        """Return [n, ...]: the numbers behind a built-in score's values, by machine."""
        return explain_all(self.uses[1], term.use, len(self.machines), is_score=True)

    def verdict_of(self, row: int) -> tuple[Verdict, str] | None:
        """Return the first filter that refuses a machine, and its reason; None where none does."""
        code = int(self.refused[row])
        return verdict_of(self.verdicts, code) if code else None


def verdict_of(verdicts: Sequence[Verdict], code: int) -> tuple[Verdict, str]:
    """Return the filter of a refusal, and its reason in words."""
    verdict = next(each for each in verdicts if each.code == code // CODE * CODE)
    return verdict, verdict.reason(code % CODE)


def order_of(roster: Roster, ties: str, request_id: str) -> NDArray[np.uint64]:
    """Return [n] the order of equal machines: by name, or random by machine and instance, equal in all processes."""
    if ties == "name":
        return roster.name_order
    lot = roster.name_hash ^ np.uint64(hash_of(request_id))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of splitmix64
        lot = (lot ^ (lot >> np.uint64(shift))) * np.uint64(factor)
    return lot ^ (lot >> np.uint64(31))
