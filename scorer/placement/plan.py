"""Batches: many instances in one query, each seeing the ones before, exactly as if they were placed one at a time.

Unlike instances are ranked one after the other, each on an overlay that proposes the ones before. Identical
ones go a faster way where nothing but a machine's own load decides (`scorer.placement.copies`): 1,000 on 5,000 machines
take about as long as 50 single ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np

from schemas.request import InvalidRequest, Request
from scorer.ledger.overlay import Overlay
from scorer.ledger.view import LedgerView, instance_of
from scorer.placement.copies import identical_steps
from scorer.placement.steps import Steps, drain
from scorer.ranking.explain import summary
from scorer.ranking.kept import Kept
from scorer.ranking.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Bools
from scorer.snapshot.snapshot import Snapshot

_TOGETHER_MAX = 8
"""So many are chosen again in one step: the plan is then of the ledger as it is."""


@dataclass(frozen=True)
class Plan:
    """Where each instance of a batch would go."""

    machines: tuple[str | None, ...]
    """By position in the batch; None where none was feasible, or nothing is placed because not all could be."""
    ranking: Ranking
    """The ranking that the first instance saw."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why, one line each, by position, of the instances without a machine."""


def plan(
    requests: Sequence[Request],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
    held: Sequence[str] = (),
    first: Ranking | None = None,
    kept: Kept | None = None,
) -> Plan:
    """Return where the instances go, as `plan_steps` finds it while nothing else happens."""
    return drain(plan_steps(requests, snapshot, ledger, profile, now_s, held, first, kept))


def plan_steps(
    requests: Sequence[Request],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
    held: Sequence[str] = (),
    first: Ranking | None = None,
    kept: Kept | None = None,
) -> Steps[Plan]:
    """Return where the instances go; ``requests`` holds each instance's own (``count`` is expanded by `expand`).

    ``all_or_nothing``, ``machines_max`` and ``machines_min`` are those of the first request: at most, or at least, so
    many different machines. ``held`` has the machine of each instance of the same batch that is placed already, by an
    earlier call or try: those machines count. ``first``: the ranking of the first request on this ledger, where it is
    made already. Nothing is reserved and the ledger is not touched; ``kept`` as for `scorer.ranking.rank.rank`.

    The ledger may change between two steps: what was chosen on a machine that changed since is chosen again.

    Raises InvalidRequest where `rank` does, or for more different machines than instances.
    """
    wanted = requests[0]
    many = len(requests) + len(held)
    if wanted.machines_min > many:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} different machines for {many} instances")
    if wanted.machines_max and wanted.machines_min > wanted.machines_max:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} is more than machines_max {wanted.machines_max}")
    kept = Kept() if kept is None else kept
    first = first or rank(wanted, snapshot, ledger, profile, now_s, kept)
    found: list[str | None] | None = None
    start = ledger.position
    if len(requests) > 1 and not (wanted.machines_max or wanted.machines_min) and identical(requests):
        found = yield from identical_steps(first, len(requests))
    reasons: dict[int, str] = {}
    if found is None or ledger.position != start:
        draft = _Draft(requests, first, snapshot, ledger, profile, now_s, held, kept)
        if found is not None:
            draft.take(found, start)
        yield from draft.steps()
        found, reasons = draft.found, draft.reasons
    elif None in found:
        reasons = _why_missing(requests, found, snapshot, ledger, profile, now_s, kept)
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
    """Return whether the requests differ by their ids at most."""
    first = requests[0]
    plain = msgspec.structs.replace(first, id="")
    return all(request is first or msgspec.structs.replace(request, id="") == plain for request in requests)


class _Draft:
    """Ranks each request on the ledger with the ones before proposed."""

    def __init__(
        self,
        requests: Sequence[Request],
        first: Ranking,
        snapshot: Snapshot,
        ledger: LedgerView,
        profile: Profile,
        now_s: float,
        held: Sequence[str],
        kept: Kept,
    ) -> None:
        self.found: list[str | None] = [None] * len(requests)
        self.reasons: dict[int, str] = {}
        self._requests, self._ledger, self._now_s = requests, ledger, now_s
        self._first: Ranking | None = first
        self._rank = partial(rank, snapshot=snapshot, profile=profile, now_s=now_s, kept=kept)
        self._roster = first.machines.roster
        self._used = Counter(row for machine in held if (row := self._roster.index.get(machine)) is not None)
        self._chosen_at = [ledger.position] * len(requests)
        """The ledger's position when each was chosen."""
        self._overlay, self._overlay_at = Overlay(ledger), ledger.position
        self._next = list(range(len(requests)))

    def take(self, found: Sequence[str | None], position: int) -> None:
        """Begin with machines that were chosen when the ledger was at this position."""
        self.found, self._chosen_at = list(found), [position] * len(found)
        self._used.update(self._roster.index[machine] for machine in found if machine is not None)
        self._first, self._next = None, self._outdated()

    def steps(self) -> Steps[None]:
        """Choose for each, and again for those whose machine has changed since."""
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
            row = self._roster.index[machine]
            self._used[row] -= 1
            if not self._used[row]:
                del self._used[row]
            self.found[position], self._overlay_at = None, -1

    def _choose(self, position: int, left: int) -> None:
        request, proposed = self._requests[position], self._proposed()
        ranking = self._rank(request, ledger=proposed) if self._first is None or position else self._first
        self._first = None
        row, why = _choose(ranking, self._requests[0], self._used.keys(), left)
        del ranking  # while it is held, what is kept for it is copied
        self._chosen_at[position] = self._overlay_at
        if row is None:
            self.reasons[position] = why
            return
        self._used[row] += 1
        self.found[position] = machine = self._roster.names[row]
        proposed.propose(instance_of(request, machine, self._now_s, _proposed_id(position)))

    def _proposed(self) -> Overlay:
        """Return the ledger as it is now with what was chosen proposed."""
        if self._overlay_at != self._ledger.position:
            self._overlay, self._overlay_at = Overlay(self._ledger), self._ledger.position
            for position, machine in enumerate(self.found):
                if machine is not None:
                    record = instance_of(self._requests[position], machine, self._now_s, _proposed_id(position))
                    self._overlay.propose(record)
        return self._overlay

    def _outdated(self) -> list[int]:
        """Return the positions whose machine changed after it was chosen."""
        start = min(self._chosen_at)
        if start == self._ledger.position:
            return []
        changes = self._ledger.changes_since(start)
        if changes is None:
            return [position for position, machine in enumerate(self.found) if machine is not None]
        changed_at = {machine: start + number for number, (machine, _, _) in enumerate(changes, 1)}
        return [
            position
            for position, machine in enumerate(self.found)
            if machine is not None and changed_at.get(machine, 0) > self._chosen_at[position]
        ]


def _proposed_id(position: int) -> str:
    return f"\0batch-{position}"


def _choose(ranking: Ranking, wanted: Request, used: Collection[int], left: int) -> tuple[int | None, str]:
    """Return the best row that keeps to the number of different machines, or why there is none."""
    only: Bools | None = None
    why = ""
    if wanted.machines_max and len(used) >= wanted.machines_max:
        only = np.zeros(len(ranking.machines), np.bool_)
        only[list(used)] = True
        why = f", none of them among the {wanted.machines_max} machines of the batch"
    elif wanted.machines_min - len(used) >= left:
        only = np.ones(len(ranking.machines), np.bool_)
        only[list(used)] = False
        why = f", none of them beside the {len(used)} machines of the batch"
    rows = ranking.best(1) if only is None else ranking.best_among(only, 1)
    return (int(rows[0]), "") if rows.size else (None, summary(ranking) + why * bool(ranking.feasible_count))


def _why_missing(
    requests: Sequence[Request],
    found: Sequence[str | None],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
    kept: Kept,
) -> dict[int, str]:
    """Return why the last ones have no machine: how a ranking after all that were placed sums it up."""
    proposed = Overlay(ledger)
    for position, (request, machine) in enumerate(zip(requests, found, strict=True)):
        if machine is not None:
            proposed.propose(instance_of(request, machine, now_s, _proposed_id(position)))
    line = summary(rank(requests[0], snapshot, proposed, profile, now_s, kept))
    return {position: line for position, machine in enumerate(found) if machine is None}
