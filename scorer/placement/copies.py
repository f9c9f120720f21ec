"""Many identical instances: the same machines as one ranking after another, at a fraction of the cost.

What a machine scores depends on its own load and on how many copies of the instance it has. Only means over the fleet,
and the least and largest score that min-max spreads over, tie machines together. Where more than that does (spread over
a topology, affinity, a score by rank), there is no short way, and `Copies.obstacle` states why.
"""

from __future__ import annotations

import numpy as np

from scorer.placement.reasons import Reason
from scorer.placement.shortlist import OutOfRangeError, Shortlist
from scorer.placement.steps import Steps, drain
from scorer.ranking.plugins import scope_for
from scorer.ranking.ranking import Ranking
from scorer.ranking.scope import Scope

STEP = 64
"""Instances chosen in one step."""


def place_identical(first: Ranking, count: int) -> list[str | None] | None:
    """Return the machine of each of ``count`` instances like the first's request; None where there is no short way.

    An instance for which no machine is left has None; those are the last.
    """
    return drain(identical_steps(first, count))


def identical_steps(first: Ranking, count: int) -> Steps[list[str | None] | None]:
    """Return the same in steps of a few instances."""
    copies, rows = Copies(first, count), list[int]()
    while copies.obstacle is None and len(rows) < count:
        more = copies.next(min(STEP, count - len(rows)))
        rows += more
        if not more:
            break
        if len(rows) < count:
            yield
    if copies.obstacle is not None:
        return None
    names = first.machines.roster.names
    placed: list[str | None] = [names[row] for row in rows]
    return placed + [None] * (count - len(placed))


class Copies:
    """The machines of identical instances, a few at a time.

    ``while_reserved``: the ledger takes in what was chosen before the next are asked for. Which instances are on a
    machine is then read from a ledger that has the copies already, so scope ``instances`` is an obstacle too.
    """

    def __init__(self, first: Ranking, count: int, *, while_reserved: bool = False) -> None:
        self.obstacle = _obstacle(first, ("fleet", "instances") if while_reserved else ("fleet",))
        """Why there is no short way, or none any more; None: there is."""
        self._shortlist: Shortlist | None = None
        if self.obstacle is None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                self._shortlist = Shortlist(first, count)

    def next(self, count: int) -> list[int]:
        """Return the rows of the next ``count``; fewer where no machine is left, none where there is an obstacle."""
        if self._shortlist is None:
            return []
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            try:
                return self._shortlist.next(count)
            except OutOfRangeError:
                self._shortlist, self.obstacle = None, "out_of_range"
                return []


def _obstacle(first: Ranking, closed: tuple[Scope, ...]) -> Reason | None:
    """Return what in the profile, or in what ran of it, stands in the way; ``closed``: the scopes that do."""
    if first.profile.ties == "draw":
        return "ties_drawn"
    filters = [scope_for(verdict.filter, first.request, verdict.machines) for verdict in first.verdicts]
    scores = [scope_for(term.weighted.score, first.request, term.machines) for term in first.terms]
    if "means" in filters or any(scope in closed for scope in (*filters, *scores)):
        return "scope"
    return "normalisation" if any(term.weighted.normalise == "rank" for term in first.terms) else None
