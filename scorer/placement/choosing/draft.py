"""A plan that is being made: a machine for each instance in turn, chosen again when that machine has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.steps import Steps
from scorer.ranking.explanation.explain import summary
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Bools
from scorer.snapshot.snapshot import Snapshot

_TOGETHER_MAX = 8
"""The most instances that are chosen again in one step, so that the plan fits the ledger at one moment."""


class Draft:
    """Ranks each request on the ledger plus the proposed instances before it."""

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
        """By instance, the ledger's position when its machine was chosen."""
        self._overlay, self._overlay_at = Overlay(ledger), ledger.position
        self._next = list(range(len(requests)))

    def take(self, found: Sequence[str | None], position: int) -> None:
        """Begin with machines chosen at this position of the ledger."""
        self.found, self._chosen_at = list(found), [position] * len(found)
        self._used.update(self._roster.index[machine] for machine in found if machine is not None)
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
        del ranking  # a held ranking makes the next change copy its columns
        self._chosen_at[position] = self._overlay_at
        if row is None:
            self.reasons[position] = why
            return
        self._used[row] += 1
        self.found[position] = machine = self._roster.names[row]
        proposed.propose(instance_of(request, machine, self._now_s, proposed_id(position)))

    def _proposed(self) -> Overlay:
        """Return an overlay of the present ledger with the chosen instances."""
        if self._overlay_at != self._ledger.position:
            self._overlay, self._overlay_at = Overlay(self._ledger), self._ledger.position
            for position, machine in enumerate(self.found):
                if machine is not None:
                    record = instance_of(self._requests[position], machine, self._now_s, proposed_id(position))
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


def proposed_id(position: int) -> str:
    """Return the id of the proposed instance at a position of the batch; no real instance can have it."""
    return f"\0batch-{position}"


def _choose(ranking: Ranking, wanted: Request, used: Collection[int], left: int) -> tuple[int | None, str]:
    """Return the best row within the bounds on different machines, or the reason why there is none."""
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
