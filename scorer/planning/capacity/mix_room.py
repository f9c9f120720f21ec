"""Room for a mix: how many more instances fit, cycle by cycle, until the first kind finds no machine. Pure.

The last `GREEDY_MAX` are placed as the profile would place them, kind by kind, in ever smaller batches of cycles, until
one more instance of the cycle is refused. To place 300,000 copies in this way would take a minute. So where more fit,
the first ones are spread over the machines at once, as mean instances of the mix, in proportion to each machine's room.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.rpc.results import Refusal
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.trial import Trial, ranked
from scorer.planning.capacity.room import room
from scorer.ranking.explanation.refusals import refusals
from scorer.snapshot.arrays import Integers

KINDS_MAX = 8
"""The most kinds of a mix; rarer ones are left out."""
CYCLE_MAX = 100
"""The most instances of one cycle."""


@dataclass(frozen=True)
class Kind:
    request: Request
    instances: int
    """How many were placed lately."""
    cycle: int
    """How many a cycle has."""


@dataclass(frozen=True)
class Mix:
    """The kinds of instances that were placed lately, the most frequent first.

    Instances are of one kind when they have the same kind, class and amounts. Where that makes more than `KINDS_MAX`
    kinds, amounts within a factor of about two are one kind, with their mean. Ports, cluster, labels and rules of
    single instances are ignored: they do not predict the next instances.
    """

    kinds: tuple[Kind, ...]
    instances: int
    """How many were placed lately, of rarer kinds too."""

    @property
    def covered(self) -> int:
        """The number of instances of these kinds."""
        return sum(kind.instances for kind in self.kinds)


def mix_of(instances: Iterable[Instance], since_s: float) -> Mix:
    """Return the mix of the instances that were placed since a moment."""
    lately = [one for one in instances if max(one.reserved_at, one.started_at) >= since_s]
    groups = _grouped(lately, exact=True) or _grouped(lately, exact=False)
    most = sorted(groups, key=len, reverse=True)[:KINDS_MAX]
    cycle = _cycle([len(group) for group in most])
    kinds = (Kind(_mean(group), len(group), number) for group, number in zip(most, cycle, strict=True))
    return Mix(tuple(kinds), len(lately))


def mean_of(kinds: Sequence[Kind]) -> Request:
    """Return the mean instance of some kinds of one class, each weighted by its count in a cycle."""
    each = [instance_of(kind.request, "", 0.0) for kind in kinds for _ in range(kind.cycle)]
    return msgspec.structs.replace(_mean(each), kind="")


def _grouped(instances: Sequence[Instance], *, exact: bool) -> list[list[Instance]]:
    """Return the instances grouped by kind; none where exact amounts give too many kinds."""
    groups: dict[Hashable, list[Instance]] = {}
    for one in instances:
        amounts: Hashable = (one.amounts, one.expected, one.maxmemory) if exact else tuple(map(_rough, one.amounts))
        groups.setdefault((one.kind, one.priority_class, amounts), []).append(one)
        if exact and len(groups) > KINDS_MAX:
            return []
    return list(groups.values())


def _rough(amount: float | None) -> int | None:
    """Return the exponent of the power of two nearest to an amount; None for no amount."""
    return round(math.log2(amount)) if amount else None


def _mean(group: Sequence[Instance]) -> Request:
    """Return the request that stands for instances of one kind; its means are rounded once, so alike on each Python."""
    first: Any = group[0]
    amounts: dict[str, Any] = {
        name: math.fsum(one.amounts[at] or 0.0 for one in group) / len(group)
        for at, name in enumerate(RESOURCES)
        if any(one.amounts[at] is not None for one in group)
    }
    given = [one.expected for one in group if one.expected]
    expected: dict[str, Any] = {
        name: math.fsum(each[at] for each in given) / len(given)
        for at, name in enumerate(RESOURCES)
        if len(given) == len(group) and all(each[at] >= 0 for each in given)
    }
    maxmemory = math.fsum(one.maxmemory for one in group) / len(group)
    return Request(
        **amounts, expected=expected, maxmemory=maxmemory, kind=first.kind, priority_class=first.priority_class
    )


def _cycle(counts: Sequence[int]) -> list[int]:
    """Return the count of each kind in a cycle: lowest terms, or shares of `CYCLE_MAX`, at least 1.

    >>> _cycle([6, 4, 2]), _cycle([900, 99, 1])
    ([3, 2, 1], [90, 10, 1])
    """
    total = sum(counts)
    if total > CYCLE_MAX:
        return [max(1, round(CYCLE_MAX * count / total)) for count in counts]
    divisor = math.gcd(*counts) if counts else 1
    return [count // divisor for count in counts]


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
        for _ in range(0 if self.trial.inputs.profile.survive else BULKS_MAX):
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
                return kind, refusals(ranked(kind.request, self.trial.inputs))
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
