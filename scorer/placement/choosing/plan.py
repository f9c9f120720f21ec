"""Batches: many instances in one query, each seeing the ones before, as if they were placed one at a time.

Unlike instances are ranked one after the other, each on an overlay with the ones before. For identical ones there is a
faster method where only a machine's own load decides (`scorer.placement.choosing.copies`): 1,000 on 5,000 machines take
about as long as 50 single ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from schemas.rpc.request import InvalidRequest, Request
from scorer.placement.choosing.copies import identical_steps
from scorer.placement.choosing.steps import Steps, drain
from scorer.placement.choosing.trial import Trial, best_in
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Bools

_TOGETHER_MAX = 8
"""The most instances that are chosen again in one step, so that the plan fits the ledger at one moment."""


@dataclass(frozen=True)
class Plan:
    """The target of each instance of a batch."""

    machines: tuple[str | None, ...]
    """By position in the batch; None when none is feasible, or for all of an all-or-nothing batch that does not fit."""
    ranking: Ranking
    """The ranking of the first instance."""
    reasons: dict[int, str] = field(default_factory=dict)
    """By position, the reason of each instance without a machine, one line."""


def plan(
    requests: Sequence[Request], inputs: RankingInputs, held: Sequence[str] = (), first: Ranking | None = None
) -> Plan:
    """Return the plan of `plan_steps`, made without pauses between its steps."""
    return drain(plan_steps(requests, inputs, held, first))


def plan_steps(
    requests: Sequence[Request], inputs: RankingInputs, held: Sequence[str] = (), first: Ranking | None = None
) -> Steps[Plan]:
    """Return the plan of a batch; ``requests`` has one for each instance (``count`` is expanded by `expand`).

    ``all_or_nothing``, ``machines_max`` and ``machines_min`` are those of the first request: at most, or at least, so
    many different machines. ``held`` has the machine of each instance of the same batch that an earlier call or try has
    placed: those machines count. ``first``: the ranking of the first request on this ledger, if it exists. Nothing is
    reserved and the ledger is not changed.

    The ledger may change between two steps: an instance whose chosen machine changed since gets a new choice.

    Raises InvalidRequest where `rank` does, or for more different machines than instances.
    """
    wanted, ledger = requests[0], inputs.ledger
    many = len(requests) + len(held)
    if wanted.machines_min > many:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} different machines for {many} instances")
    if wanted.machines_max and wanted.machines_min > wanted.machines_max:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} is more than machines_max {wanted.machines_max}")
    first = first or rank(wanted, inputs)
    found: list[str | None] | None = None
    start = ledger.position
    if len(requests) > 1 and not (wanted.machines_max or wanted.machines_min) and identical(requests):
        found = yield from identical_steps(first, len(requests))
    reasons: dict[int, str] = {}
    if found is None or ledger.position != start:
        batch = _Batch(requests, first, inputs, held)
        if found is not None:
            batch.take(found, start)
        yield from batch.steps()
        found, reasons = batch.found, batch.reasons
    elif None in found:  # the last ones: no machine is feasible after all that were placed
        why = _with(requests, found, inputs).best(wanted).why
        reasons = {position: why for position, machine in enumerate(found) if machine is None}
    if reasons and wanted.all_or_nothing:
        found = [None] * len(requests)
    return Plan(tuple(found), first, reasons)


def expand(request: Request) -> list[Request]:
    """Return ``count`` single requests; with more than one, ids get the suffixes ``-1``, ``-2``, ..."""
    if request.count == 1:
        return [request]
    return [
        msgspec.structs.replace(request, count=1, id=f"{request.id}-{number}" if request.id else "")
        for number in range(1, request.count + 1)
    ]


def identical(requests: Sequence[Request]) -> bool:
    """Return whether the requests are equal except for their ids."""
    first = requests[0]
    plain = msgspec.structs.replace(first, id="")
    return all(request is first or msgspec.structs.replace(request, id="") == plain for request in requests)


class _Batch:
    """A plan that is being made: a machine for each instance in turn, chosen again when that machine has changed.

    Each request is ranked on the ledger plus the proposed instances before it.
    """

    def __init__(self, requests: Sequence[Request], first: Ranking, inputs: RankingInputs, held: Sequence[str]) -> None:
        self.found: list[str | None] = [None] * len(requests)
        self.reasons: dict[int, str] = {}
        self._requests, self._inputs = requests, inputs
        self._first: Ranking | None = first
        self._used = Counter(machine for machine in held if machine in inputs.snapshot.roster.index)
        self._chosen_at = [inputs.ledger.position] * len(requests)
        """By instance, the ledger's position when its machine was chosen."""
        self._trial, self._trial_at = Trial(inputs), inputs.ledger.position
        self._next = list(range(len(requests)))

    def take(self, found: Sequence[str | None], position: int) -> None:
        """Begin with machines chosen at this position of the ledger."""
        self.found, self._chosen_at = list(found), [position] * len(found)
        self._used.update(machine for machine in found if machine is not None)
        self._first, self._next = None, self._outdated()

    def steps(self) -> Steps[None]:
        """Choose a machine for each, and again for those whose machine has changed since."""
        while self._next:
            few = len(self._next) <= _TOGETHER_MAX
            for position in self._next:
                self._withdraw(position)
            for done, position in enumerate(self._next):
                self._choose(position, len(self._next) - done)
                if not few:
                    yield
            self._next = self._outdated()

    def _withdraw(self, position: int) -> None:
        machine = self.found[position]
        self.reasons.pop(position, None)
        if machine is not None:
            self._used -= Counter([machine])
            self.found[position], self._trial_at = None, -1

    def _choose(self, position: int, left: int) -> None:
        request, trial = self._requests[position], self._proposed()
        bound = self._bound(left)
        if self._first is not None and not position:
            found = best_in(self._first, *bound)
        else:
            found = trial.best(request, *bound)
        self._first = None
        self._chosen_at[position] = self._trial_at
        self.found[position] = found.machine
        if found.machine is None:
            self.reasons[position] = found.why
            return
        self._used[found.machine] += 1
        trial.propose(request, found.machine, proposed_id(position))

    def _bound(self, left: int) -> tuple[Bools, str] | tuple[()]:
        """Return which machines may be chosen so that the batch has as many different ones as asked for, in words."""
        wanted, used = self._requests[0], self._used
        if wanted.machines_max and len(used) >= wanted.machines_max:
            return self._among_used(), f"among the {wanted.machines_max} machines of the batch"
        if wanted.machines_min - len(used) >= left:
            return ~self._among_used(), f"beside the {len(used)} machines of the batch"
        return ()

    def _among_used(self) -> Bools:
        index = self._inputs.snapshot.roster.index
        only = np.zeros(len(self._inputs.snapshot), np.bool_)
        only[[index[machine] for machine in self._used]] = True
        return only

    def _proposed(self) -> Trial:
        """Return the present ledger with the chosen instances."""
        if self._trial_at != self._inputs.ledger.position:
            self._trial, self._trial_at = _with(self._requests, self.found, self._inputs), self._inputs.ledger.position
        return self._trial

    def _outdated(self) -> list[int]:
        """Return the positions whose machine changed after it was chosen."""
        ledger, start = self._inputs.ledger, min(self._chosen_at)
        if start == ledger.position:
            return []
        changes = ledger.changes_since(start)
        if changes is None:
            return [position for position, machine in enumerate(self.found) if machine is not None]
        changed_at = {machine: start + number for number, (machine, _, _) in enumerate(changes, 1)}
        return [
            position
            for position, machine in enumerate(self.found)
            if machine is not None and changed_at.get(machine, 0) > self._chosen_at[position]
        ]


def proposed_id(position: int) -> str:
    """Return the id of the proposed instance at a position of the batch; no real instance can have it."""
    return f"\0batch-{position}"


def _with(requests: Sequence[Request], found: Sequence[str | None], inputs: RankingInputs) -> Trial:
    """Return the ledger with those instances of a batch that have a machine."""
    trial = Trial(inputs)
    for position, (request, machine) in enumerate(zip(requests, found, strict=True)):
        if machine is not None:
            trial.propose(request, machine, proposed_id(position))
    return trial
