"""Room for a mix: how many more instances fit, cycle by cycle, until the first kind finds no machine. Pure.

The last `GREEDY_MAX` are placed as the profile would place them, kind by kind, in ever smaller batches of cycles, until
one more instance of the cycle is refused. To place 300,000 copies in this way would take a minute. So where more fit,
the first ones are spread over the machines at once, as mean instances of the mix, in proportion to each machine's room.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np

from schemas.rpc.request import Request
from schemas.rpc.results import Refusal
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.trial import Trial
from scorer.planning.capacity.mix import Kind, Mix, mean_of
from scorer.planning.capacity.room import room
from scorer.ranking.explanation.refusals import refusals
from scorer.ranking.rank import rank
from scorer.snapshot.arrays import Integers

GREEDY_MAX = 1_500
"""Instances placed by ranking; up to four times as many where the estimate was too low."""
ONE_BY_ONE_MAX = 500
"""The most of these that are placed one by one, after the last batch of cycles."""
BULKS_MAX = 8
"""The most steps of spreading: with several classes each step takes half of what seems to fit."""


@dataclass(frozen=True)
class MixRoom:
    fit: tuple[int, ...]
    """How many instances of each kind fit."""
    by_machine: Counter[str]
    spread: int
    """How many of all were spread over the machines at once."""
    first: Kind | None
    """The first kind that no longer fits; None: counting ended before."""
    limits: tuple[Refusal, ...]
    """How many machines refuse it, and why."""

    @property
    def total(self) -> int:
        return sum(self.fit)


def mix_room(mix: Mix, trial: Trial, greedy_max: int = GREEDY_MAX) -> MixRoom:
    """Return how many more instances of a mix fit, and what limits the first kind that no longer fits.

    The trial keeps them. Raises InvalidRequest where `rank` does.
    """
    if not mix.kinds:
        return MixRoom((), Counter(), 0, None, ())
    filling = _Filling(mix.kinds, trial, greedy_max)
    filling.spread()
    spread = sum(filling.fit)
    filling.cycles()
    first, limits = filling.one_by_one()
    return MixRoom(tuple(filling.fit), filling.by_machine, spread, first, tuple(limits))


@dataclass
class _Filling:
    """How many of each kind the trial has taken so far."""

    kinds: Sequence[Kind]
    trial: Trial
    greedy_max: int
    fit: list[int] = field(default_factory=list)
    by_machine: Counter[str] = field(default_factory=Counter)
    number: int = 0
    """The number of the next copy."""

    def __post_init__(self) -> None:
        self.fit = [0] * len(self.kinds)
        self.largest_first = sorted(self.kinds, key=lambda kind: kind.request.amounts()[:2], reverse=True)
        """By cpu and then by memory: the largest are the hardest to place."""

    def spread(self) -> None:
        """Spread mean instances over the machines, until so few fit that they can be placed one by one."""
        classes: dict[str, list[int]] = {}
        for at, kind in enumerate(self.kinds):
            classes.setdefault(kind.request.priority_class, []).append(at)
        copies = sum(kind.cycle for kind in self.kinds)
        for _ in range(BULKS_MAX):
            rooms = []
            for places in classes.values():
                mean = mean_of([self.kinds[at] for at in places])
                share = sum(self.kinds[at].cycle for at in places) / copies
                rooms.append((places, mean, share, room(mean, self.trial)))
            most = min(found.total / share for _, _, share, found in rooms)
            if most <= 1.2 * self.greedy_max:
                return
            more = (most - self.greedy_max) / (1 if len(classes) == 1 else 2)
            for places, mean, share, found in rooms:
                parts = np.cumsum(
                    found.copies * (more * share / found.total)
                )  # rounded as running sums, to keep the total
                self._spread(places, mean, np.diff(np.floor(parts), prepend=0.0).astype(np.int64))

    def _spread(self, places: Sequence[int], mean: Request, copies: Integers) -> None:
        for row in np.flatnonzero(copies).tolist():
            times, machine = int(copies[row]), self.trial.snapshot.names[row]
            one = instance_of(mean, machine, self.trial.inputs.now_s, self._next())
            many = copy_with(
                one,
                amounts=tuple(None if amount is None else amount * times for amount in one.amounts),
                expected=tuple(amount * times if amount >= 0 else amount for amount in one.expected),
                maxmemory=one.maxmemory * times,
            )
            self.trial.put(many)
            self.by_machine[machine] += times
        total, of_all = int(copies.sum()), sum(self.kinds[at].cycle for at in places)
        before = 0
        for at in places:
            upto = before + self.kinds[at].cycle
            self.fit[at] += total * upto // of_all - total * before // of_all
            before = upto

    def cycles(self) -> None:
        """Place whole cycles: twice as many each time, and half as many after the first failure."""
        batch, growing, placed = 1, True, 0
        copies = sum(kind.cycle for kind in self.kinds)
        while batch and placed < 4 * self.greedy_max:
            if self._placed(batch):
                placed += batch * copies
                batch = 2 * batch if growing else batch // 2
            else:
                growing, batch = False, batch // 2

    def _placed(self, batch: int) -> bool:
        """Place a number of cycles, all or none; return whether they fit."""
        done: list[tuple[str, str]] = []
        for kind in self.largest_first:
            targets = self._identical(kind.request, batch * kind.cycle)
            for target in targets:
                if target is None:
                    for instance_id, _ in done:
                        self.trial.leave(instance_id)
                    return False
                done.append((self._propose(kind.request, target), target))
        self.by_machine.update(target for _, target in done)
        for at, kind in enumerate(self.kinds):
            self.fit[at] += batch * kind.cycle
        return True

    def _identical(self, request: Request, count: int) -> Iterator[str | None]:
        """Yield the target of each copy: chosen together where possible, else by one ranking after another."""
        found = self.trial.together(request, count)
        if found is not None:
            yield from found
            return
        for _ in range(count):
            yield self.trial.best(request).machine

    def one_by_one(self) -> tuple[Kind | None, list[Refusal]]:
        """Place one instance after the other until one finds no machine; return its kind and the refusals."""
        turns = in_turn([kind.cycle for kind in self.kinds])
        for at in islice(cycle(turns), ONE_BY_ONE_MAX):
            kind = self.kinds[at]
            target = self.trial.best(kind.request).machine
            if target is None:
                return kind, refusals(rank(kind.request, self.trial.inputs))
            self._propose(kind.request, target)
            self.by_machine[target] += 1
            self.fit[at] += 1
        return None, []

    def _propose(self, request: Request, target: str) -> str:
        instance_id = self._next()
        self.trial.propose(request, target, instance_id)
        return instance_id

    def _next(self) -> str:
        self.number += 1
        return f"\0mix-{self.number}"


def in_turn(cycle: Sequence[int]) -> list[int]:
    """Return the indices of the kinds in one cycle, each kind spread evenly over it.

    >>> in_turn([3, 1])
    [0, 0, 1, 0]
    """
    total, credit, order = sum(cycle), [0.0] * len(cycle), []
    for _ in range(total):
        credit = [have + number for have, number in zip(credit, cycle, strict=True)]
        best = max(range(len(cycle)), key=lambda at: credit[at])
        credit[best] -= total
        order.append(best)
    return order
