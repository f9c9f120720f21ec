"""Batches: many instances in one query, each seeing the ones before, exactly as if they were placed one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from schemas.request import Request
from scorer.ledger_view import LedgerView, instance_of
from scorer.profile import Profile
from scorer.rank import Ranking, rank
from scorer.snapshot import Snapshot


@dataclass(frozen=True)
class Plan:
    """Where each instance of a batch would go."""

    machines: tuple[str | None, ...]
    """By position in the batch; None where none was feasible, or nothing is placed because not all could be."""
    missing: tuple[str, ...]
    """Why, one line each, of the instances without a machine."""
    ranking: Ranking
    """The ranking that the first instance saw."""

    @property
    def complete(self) -> bool:
        """Whether every instance has a machine."""
        return all(machine is not None for machine in self.machines)


def plan(
    requests: Sequence[Request],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
) -> Plan:
    """Return where the instances go; ``requests`` holds each instance's own (``count`` is expanded by `expand`).

    ``all_or_nothing``, ``machines_max`` and ``machines_min`` are those of the first request. Nothing is reserved and
    the ledger is as before afterwards.
    """
    first = rank(requests[0], snapshot, ledger, profile, now_s)
    machines: list[str | None] = []
    missing: list[str] = []
    with ledger.trial() as add:
        for position, request in enumerate(requests):
            ranking = first if position == 0 else rank(request, snapshot, ledger, profile, now_s)
            machine = ranking.chosen
            machines.append(machine)
            if machine is None:
                missing.append(ranking.summary)
            else:
                add(instance_of(request, machine, now_s, f"\0batch-{position}"))
    if missing and requests[0].all_or_nothing:
        machines = [None] * len(requests)
    return Plan(tuple(machines), tuple(missing), first)


def expand(request: Request) -> list[Request]:
    """Return ``count`` single requests; with more than one, ids get the suffixes ``-1``, ``-2``, ..."""
    if request.count == 1:
        return [request]
    return [
        msgspec.structs.replace(request, count=1, id=f"{request.id}-{number}" if request.id else "")
        for number in range(1, request.count + 1)
    ]
