"""Batches: many instances in one query, planned as if they were placed one at a time.

Equal requests are planned together, kind by kind in the order in which the kinds first occur (`by_kind`). Kinds that
follow each other and differ in their amounts alone are planned in one loop (``place_copies`` in ``kernel/evaluate.h``).

Chosen: the order by kinds. Rejected: the order of the list, which ranks the fleet for each instance where sizes
alternate.

A batch runs in `Steps`: a generator that pauses so that other queries can be answered.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import ID_DIGITS, InvalidRequest, Request
from scorer.ledger.record.facets import Avoiders, Avoids, Facet, facets_of, rule_of
from scorer.placement.choosing.trial import Trial, best_in, ranked
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import Ranking
from scorer.snapshot.arrays import Bools

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work that may pause between two steps, or be given up by closing the generator."""


def run_to_end(steps: Steps[Result]) -> Result:
    """Return the result of all steps, one after the other.

    >>> def count():
    ...     yield
    ...     return 2
    >>> run_to_end(count())
    2
    """
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result


_TOGETHER_MAX = 8
"""The most instances that are chosen again in one step, so that the plan fits the ledger at one moment."""
KIND = 24
"""To evaluate all machines for one kind costs as much as to choose among them so many times."""
_CHOICES_MAX, _PASSED_MAX = 1_024, 5_000_000
"""So many choices are one step, and so many machines are passed for them: some 8 ms."""
_encode = msgspec.json.encode


@dataclass(frozen=True)
class Plan:
    """The target of each instance of a batch."""

    machines: tuple[str | None, ...]
    """By position in the batch; None when none is feasible, or for all of an all-or-nothing batch that does not fit."""
    ranking: Ranking | None
    """The ranking of the first instance, if one was made."""
    reasons: dict[int, str] = field(default_factory=dict)
    """By position, the reason of each instance without a machine, one line."""
    near: bool = False
    """Whether the choice for any was near the limit of ``survive``."""


def plan(requests: Sequence[Request], inputs: RankingInputs, held: Sequence[str] = ()) -> Plan:
    """Return the result of `plan_steps`, without pauses between the steps."""
    return run_to_end(plan_steps(requests, inputs, held))


def plan_steps(
    requests: Sequence[Request], inputs: RankingInputs, held: Sequence[str] = (), *, explained: bool = True,
    kinds: Sequence[int] | None = None,
) -> Steps[Plan]:  # fmt: skip
    """Return the plan of a batch; ``requests`` has one for each instance (``count`` is expanded by `expand`).

    ``all_or_nothing``, ``machines_max`` and ``machines_min`` are those of the first request: at most, or at least, so
    many different machines. ``held`` has the machine of each instance of the same batch that an earlier call or try has
    placed: those machines count. ``explained``: whether the ranking of the first instance is wanted. ``kinds``: the
    number of each one's kind, if known. Nothing is reserved and the ledger is not changed.

    The ledger may change between two steps: an instance whose chosen machine changed since gets a new choice. So does
    one that a rule beyond one machine ties to an instance that came or left.

    Raises InvalidRequest where `rank` does, or for more different machines than instances.
    """
    wanted, many = requests[0], len(requests) + len(held)
    if wanted.machines_min > many:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} different machines for {many} instances")
    if wanted.machines_max and wanted.machines_min > wanted.machines_max:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} is more than machines_max {wanted.machines_max}")
    first = ranked(wanted, inputs, len(requests)) if explained or inputs.profile.survive else None
    at = inputs.ledger.position
    if first is not None and len(requests) > _TOGETHER_MAX and not inputs.profile.survive:
        yield
    batch = _Batch(requests, kinds or kinds_of(requests), first if inputs.ledger.position == at else None, inputs, held)
    yield from batch.steps()
    found, reasons = batch.found, batch.reasons
    if reasons and wanted.all_or_nothing:
        found = [None] * len(requests)
    return Plan(tuple(found), first, reasons, batch.near)


def expand(request: Request) -> list[Request]:
    """Return ``count`` single requests: ids from ``first_id`` on, or with the suffixes ``-1``, ``-2``, ...

    >>> [one.id for one in expand(Request(first_id="1ksdg00000000z", count=2))]
    ['1ksdg00000000z', '1ksdg000000010']
    >>> [one.id for one in expand(Request(id="web", count=2))]
    ['web-1', 'web-2']
    """
    if request.first_id:
        return [msgspec.structs.replace(request, count=1, first_id="", id=name) for name in _count_up(request)]
    if request.count == 1:
        return [request]
    return [
        msgspec.structs.replace(request, count=1, id=f"{request.id}-{number}" if request.id else "")
        for number in range(1, request.count + 1)
    ]


def _count_up(request: Request) -> Iterator[str]:
    """Yield ``count`` ids of one length, in order: numbers in base 32 from ``first_id`` on."""
    first, length = 0, len(request.first_id)
    for digit in request.first_id:
        first = first * 32 + ID_DIGITS.index(digit)
    shifts = range(5 * (length - 1), -5, -5)
    for number in range(first, first + request.count):
        yield "".join([ID_DIGITS[number >> shift & 31] for shift in shifts])


def kinds_of(requests: Iterable[Request]) -> list[int]:
    """Return the number of each one's kind: equal requests, except for their ids, are of one.

    >>> kinds_of([Request(id="a", cpu=1), Request(id="b", cpu=2), Request(id="c", cpu=1)])
    [0, 1, 0]
    """
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(_encode(msgspec.structs.replace(one, id="")), len(numbers)) for one in requests]


def by_kind(kinds: Sequence[int], positions: Iterable[int]) -> list[list[int]]:
    """Return the positions grouped by their kinds, in the order in which each kind first occurs.

    >>> by_kind([0, 1, 0], range(3))
    [[0, 2], [1]]
    """
    found: dict[int, list[int]] = {}
    for position in positions:
        found.setdefault(kinds[position], []).append(position)
    return list(found.values())


def shape(request: Request, profile: Profile) -> Request:
    """Return what requests have in common that one call may plan: all but the id and how much of a resource they ask.

    With a filter or score of another package, which may look at amounts, all but the id.
    """
    asked = dict.fromkeys(RESOURCES if profile.built_in else (), None)
    given = {name: amount and 1.0 for name in asked if (amount := getattr(request, name)) is not None}
    return msgspec.structs.replace(request, id="", **asked | given)


class _Batch:
    """A plan in progress: a machine for each instance in turn, chosen again when that machine has changed.

    Each request is ranked on the ledger plus the proposed instances before it.
    """

    def __init__(
        self, requests: Sequence[Request], kinds: Sequence[int], first: Ranking | None, inputs: RankingInputs,
        held: Sequence[str],
    ) -> None:  # fmt: skip
        self.found: list[str | None] = [None] * len(requests)
        self.reasons: dict[int, str] = {}
        self._requests, self._kinds, self._inputs = requests, kinds, inputs
        self._first = first
        self.near = first is not None and first.near
        self._used = Counter(machine for machine in held if machine in inputs.snapshot.roster.index)
        self._chosen_at = [inputs.ledger.position] * len(requests)
        """By instance, the ledger's position when its machine was chosen."""
        self._trial, self._trial_at = Trial(inputs), inputs.ledger.position
        self._waiting: list[int] = []
        """Positions that have a machine and are not proposed in the trial yet."""
        self._next = list(range(len(requests)))

    def steps(self) -> Steps[None]:
        """Choose a machine for each; again where that has changed since, or a new instance is near it by a rule."""
        while self._next:
            few = len(self._next) <= _TOGETHER_MAX
            for position in self._next:
                self._withdraw(position)
            left = len(self._next)
            for run in self._runs():
                self._choose_together(run, left)
                left -= sum(map(len, run))
                if not few:
                    yield
            self._next = self._outdated()

    def _runs(self) -> Iterator[list[list[int]]]:
        """Yield the choices of one step: kinds of one shape, or one where the number of machines is bounded."""
        if self._requests[0].machines_max or self._requests[0].machines_min:
            yield from ([[position]] for position in self._next)
            return
        most = max(KIND + 1, min(_CHOICES_MAX, _PASSED_MAX // max(1, len(self._inputs.snapshot))))
        run, choices, last = list[list[int]](), 0, None
        for kind in by_kind(self._kinds, self._next):
            of, left = shape(self._requests[kind[0]], self._inputs.profile), kind
            while left:
                if run and (of != last or choices + KIND >= most):
                    yield run
                    run, choices = [], 0
                free = most - choices - KIND
                run.append(left[:free])
                choices += KIND + len(run[-1])
                left, last = left[free:], of
        if run:
            yield run

    def _choose_together(self, run: Sequence[list[int]], left: int) -> None:
        """Choose the machines for kinds of one shape: together, or one by one where that is not possible."""
        positions = list(chain.from_iterable(run))
        together = None
        if len(positions) > 1:
            together = self._proposed().together([(self._requests[kind[0]], len(kind)) for kind in run])
        if together is None:
            for done, position in enumerate(positions):
                self._choose(position, left - done)
            return
        self._first = None
        chosen, why = together
        for position, machine in zip(positions, chosen, strict=False):
            self._note(position, machine)
        rest = len(chosen)
        for number, kind in enumerate(run):
            for position in kind[rest:]:
                self._note(position, None)
                self.reasons[position] = why
            if rest < len(kind):
                if later := run[number + 1 :]:
                    self._choose_together(later, left)
                return
            rest -= len(kind)

    def _withdraw(self, position: int) -> None:
        machine = self.found[position]
        self.reasons.pop(position, None)
        if machine is not None:
            self._used -= Counter([machine])
            self.found[position], self._trial_at = None, -1

    def _choose(self, position: int, left: int) -> None:
        request, trial, bound = self._requests[position], self._proposed(), self._bound(left)
        found = trial.best(request, *bound) if self._first is None else best_in(self._first, *bound)
        self.near |= trial.near
        self._first = None
        self._note(position, found.machine)
        if found.machine is None:
            self.reasons[position] = found.why

    def _note(self, position: int, machine: str | None) -> None:
        """Record the choice for an instance; it is added to the trial when that is used next."""
        self._chosen_at[position], self.found[position] = self._trial_at, machine
        if machine is not None:
            self._used[machine] += 1
            self._waiting.append(position)

    def _bound(self, left: int) -> tuple[Bools, str] | tuple[()]:
        """Return [M] the machines that a bound on their number leaves, and these in words; () where it leaves all."""
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
            self._trial, self._trial_at = Trial(self._inputs), self._inputs.ledger.position
            self._waiting = list(range(len(self.found)))
        for position in self._waiting:
            machine = self.found[position]
            if machine is not None:
                self._trial.propose(self._requests[position], machine, f"\0batch-{position}")  # no other has it
        self._waiting.clear()
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
        limited = [rules for rules in ledger.avoiders if any(rule.counts for rule in rules.all())]
        limits = [_limits(one, limited) for one in self._requests]
        ruled = any(limits) or any(one.affinity or one.anti_affinity for one in self._requests)
        came_at = {
            came: start + number
            for number, (_, _, came) in enumerate(changes, 1)
            if ruled or any(isinstance(one, Avoids) for one in came)
        }
        return [
            position
            for position, (machine, at) in enumerate(zip(self.found, self._chosen_at, strict=True))
            if machine is not None
            and (
                changed_at.get(machine, 0) > at
                or any(
                    later > at and _minds(self._requests[position], limits[position], came)
                    for came, later in came_at.items()
                )
            )
        ]


def _limits(request: Request, rules: Sequence[Avoiders]) -> list[Avoids]:
    """Return the rules of placed instances by which no more than so many like the requested one may be near them."""
    of = facets_of(request) if rules else frozenset()
    return [rule for each in rules for rule in each.of(of) if rule.counts]


def _minds(request: Request, limits: Sequence[Avoids], came: frozenset[Facet]) -> bool:
    """Return whether a rule beyond one machine, of the request, of ``limits`` or of what came, is about the other."""
    rules = [(rule_of(term), came) for term in (*request.affinity, *request.anti_affinity)]
    rules += [(one, came) for one in limits]
    rules += [(one, facets_of(request)) for one in came if isinstance(one, Avoids)]
    return any(rule.far and rule.facets <= of for rule, of in rules)
