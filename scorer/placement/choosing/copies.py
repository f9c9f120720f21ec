"""Many identical instances: the same machines as by one ranking after another, at a fraction of the cost.

A machine's scores depend on its own load and on how many copies of the instance it has. Other machines enter only by
means over the fleet, and by the least and largest score of min-max. Where they enter otherwise (spread over a topology,
affinity, a score by rank), the method does not apply, and `Copies.obstacle` is the reason.
"""

from __future__ import annotations

from scorer.placement.choosing.reasons import Reason
from scorer.placement.choosing.shortlist import OutOfRangeError, Shortlist
from scorer.placement.choosing.steps import Steps, drain
from scorer.ranking.inputs import quiet
from scorer.ranking.profiles.plugins import scope_for
from scorer.ranking.ranking import Ranking
from scorer.ranking.scope import Scope

STEP = 64
"""Instances chosen in one step."""


def place_identical(first: Ranking, count: int) -> list[str | None] | None:
    """Return the machine of each of ``count`` instances of the first's request; None where the method does not apply.

    An instance without a feasible machine has None; these are the last.
    """
    return drain(identical_steps(first, count))


def identical_steps(first: Ranking, count: int) -> Steps[list[str | None] | None]:
    """Return `place_identical` in steps of a few instances."""
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

    ``while_reserved``: the chosen instances are in the ledger before the next are asked for. A plugin of scope
    ``instances`` then reads a ledger that has the copies already, so that scope is an obstacle too.
    """

    @quiet
    def __init__(self, first: Ranking, count: int, *, while_reserved: bool = False) -> None:
        self.obstacle = _obstacle(first, ("fleet", "instances") if while_reserved else ("fleet",))
        """Why the method does not apply, or no longer; None: it does."""
        self._shortlist = None if self.obstacle else Shortlist(first, count)

    @quiet
    def next(self, count: int) -> list[int]:
        """Return the rows of the next ``count``; fewer where no more is feasible, none with an obstacle."""
        if self._shortlist is None:
            return []
        try:
            return self._shortlist.next(count)
        except OutOfRangeError:
            self._shortlist, self.obstacle = None, "out_of_range"
            return []


def _obstacle(first: Ranking, closed: tuple[Scope, ...]) -> Reason | None:
    """Return the obstacle in the profile or its plugins; ``closed``: the scopes that are obstacles."""
    if first.profile.ties == "draw":
        return "ties_drawn"
    filters = [scope_for(verdict.filter, first.request, verdict.machines) for verdict in first.verdicts]
    scores = [scope_for(term.weighted.score, first.request, term.machines) for term in first.terms]
    if "means" in filters or any(scope in closed for scope in (*filters, *scores)):
        return "scope"
    return "normalisation" if any(term.weighted.normalise == "rank" for term in first.terms) else None
