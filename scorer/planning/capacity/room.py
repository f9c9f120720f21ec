"""Room: how many more instances of a kind each machine takes, and what then limits it. Pure.

A machine takes copies until a filter refuses the next one. Each filter that ran is asked about all machines at once,
with a number of copies on each (`Machines.take`). The number is found by doubling and halving: about thirty passes,
however many copies fit. The result is that of placing them one by one, while each filter looks at one machine only.
Where one looks at others too (anti-affinity over a topology), the copies are placed one by one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from schemas.rpc.request import Request
from schemas.rpc.results import Refusal
from scorer.placement.choosing.steps import Steps, drain
from scorer.placement.choosing.trial import Trial
from scorer.ranking.explanation.refusals import by_reason, refusals
from scorer.ranking.inputs import quiet
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.plugins import scope_for
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking, Verdict
from scorer.snapshot.arrays import Bools, Integers

MACHINE_MAX = 4_096
"""The most copies counted on one machine."""
ONE_BY_ONE_MAX = 10_000
"""The most copies that are placed one by one."""


@dataclass(frozen=True)
class Room:
    """How many copies fit."""

    machines: tuple[str, ...]
    copies: Integers
    """[M] On each machine."""
    limits: tuple[Refusal, ...]
    """How many machines each filter keeps from one more copy, most first."""
    at_least: bool = False
    """Whether counting ended at a bound before a filter refused."""

    @property
    def total(self) -> int:
        """Copies on all machines."""
        return int(self.copies.sum())


def room(request: Request, trial: Trial) -> Room:
    """Return how many copies of the requested instance fit, and what limits them.

    Copies that are placed one by one stay in the trial. Raises InvalidRequest where `rank` does.
    """
    return drain(room_of_each(rank(request, trial.inputs))) or _one_by_one(request, trial)


def room_of_each(ranking: Ranking) -> Steps[Room | None]:
    """Return the room by asking each filter about all machines; None where one looks at the whole fleet.

    A step is one number of copies on each machine. Nothing is placed: the ranking may be one of the running scorer.
    """
    if any(scope_for(verdict.filter, ranking.request, verdict.machines) == "fleet" for verdict in ranking.verdicts):
        return None
    copies = yield from _most(ranking)
    at_least = bool((copies >= MACHINE_MAX).any())
    return Room(ranking.machines.fleet.snapshot.names, copies, tuple(_limits(ranking, copies)), at_least)


def _most(ranking: Ranking) -> Steps[Integers]:
    """Return [M]: the copies that each machine takes: the least number with which one more is refused."""
    low = ranking.feasible.astype(np.int64)
    high = low.copy()
    rows, copies = np.flatnonzero(ranking.feasible), 1
    while rows.size and copies < MACHINE_MAX:
        further = _allowed(ranking, rows, np.full(rows.size, copies))
        yield
        low[rows[further]] = copies + 1
        high[rows] = np.where(further, MACHINE_MAX, copies)
        rows, copies = rows[further], 2 * copies
    while (rows := np.flatnonzero(low < high)).size:
        middle = (low[rows] + high[rows]) // 2
        further = _allowed(ranking, rows, middle)
        yield
        low[rows] = np.where(further, middle + 1, low[rows])
        high[rows] = np.where(further, high[rows], middle)
    return low


@quiet
def _allowed(ranking: Ranking, rows: Integers, copies: Integers) -> Bools:
    """Return whether each of some machines, with the given copies on it, takes one more."""
    allowed = np.ones(len(rows), np.bool_)
    for verdict in ranking.verdicts:
        allowed &= verdict.filter(ranking.request, _with(verdict, rows, copies))
    return allowed


def _with(verdict: Verdict, rows: Integers, copies: Integers) -> Machines:
    return verdict.machines.take(rows, copies)


@quiet
def _limits(ranking: Ranking, copies: Integers) -> list[Refusal]:
    """Return the refusals of the next copy; each machine counts once, for the first filter that refuses."""
    left = np.arange(len(copies))
    found: Counter[tuple[str, str]] = Counter()
    for verdict in ranking.verdicts:
        seen = _with(verdict, left, copies[left])
        allowed = verdict.filter(ranking.request, seen)
        refused = np.flatnonzero(~allowed)
        if refused.size:
            rows = left[refused]
            why = by_reason(verdict.filter, ranking.request, _with(verdict, rows, copies[rows]), allowed[refused])
            for reason, machines in why.items():
                found[verdict.filter.name, reason] += machines
            left = left[allowed]
    order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Refusal(filter=name, reason=reason, machines=count) for (name, reason), count in order]


def _one_by_one(request: Request, trial: Trial) -> Room:
    """Place copies until none fits; the trial keeps them."""
    names, index = trial.snapshot.names, trial.snapshot.roster.index
    copies = np.zeros(len(names), np.int64)
    for number in range(ONE_BY_ONE_MAX):
        machine = trial.best(request).machine
        if machine is None:
            return Room(names, copies, tuple(refusals(rank(request, trial.inputs))))
        copies[index[machine]] += 1
        trial.propose(request, machine, f"\0copy-{number}")
    return Room(names, copies, (), at_least=True)
