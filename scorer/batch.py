"""Batches: many instances in one query, each seeing the ones before, exactly as if they were placed one at a time.

Unlike instances are ranked one after the other, each on a ledger that holds the ones before for the moment. Identical
ones go a faster way where nothing but a machine's own load decides (`scorer.identical`): 1,000 on 5,000 machines take
about as long as 50 single ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from schemas.request import InvalidRequest, Request
from scorer.identical import place_identical
from scorer.ledger_view import LedgerView, instance_of
from scorer.profile import Profile
from scorer.rank import Ranking, rank
from scorer.snapshot import Bools, Snapshot


@dataclass(frozen=True)
class Plan:
    """Where each instance of a batch would go."""

    machines: tuple[str | None, ...]
    """By position in the batch; None where none was feasible, or nothing is placed because not all could be."""
    missing: tuple[str, ...]
    """Why, one line each, of the instances without a machine."""
    ranking: Ranking
    """The ranking that the first instance saw."""
    reasons: dict[int, str] = field(default_factory=dict)
    """The same by position."""

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
    held: Sequence[str] = (),
    place_alike: Callable[[Ranking, int], list[str | None] | None] = place_identical,
) -> Plan:
    """Return where the instances go; ``requests`` holds each instance's own (``count`` is expanded by `expand`).

    ``all_or_nothing``, ``machines_max`` and ``machines_min`` are those of the first request: at most, or at least, so
    many different machines. ``held`` has the machine of each instance of the same batch that is placed already, by an
    earlier call or try: those machines count. Nothing is reserved and the ledger is as before afterwards. Raises
    InvalidRequest where `rank` does, or for more different machines than instances.
    """
    wanted = requests[0]
    many = len(requests) + len(held)
    if wanted.machines_min > many:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} different machines for {many} instances")
    if wanted.machines_max and wanted.machines_min > wanted.machines_max:
        raise InvalidRequest(f"machines_min: {wanted.machines_min} is more than machines_max {wanted.machines_max}")
    first = rank(wanted, snapshot, ledger, profile, now_s)
    found: list[str | None] | None = None
    if len(requests) > 1 and not (wanted.machines_max or wanted.machines_min) and identical(requests):
        found = place_alike(first, len(requests))
    reasons: dict[int, str] = {}
    if found is None:
        found, reasons = _one_by_one(requests, first, snapshot, ledger, profile, now_s, held)
    elif None in found:
        reasons = _why_missing(requests, found, snapshot, ledger, profile, now_s)
    if reasons and wanted.all_or_nothing:
        found = [None] * len(requests)
    return Plan(tuple(found), tuple(reasons[position] for position in sorted(reasons)), first, reasons)


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


def _one_by_one(
    requests: Sequence[Request],
    first: Ranking,
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
    held: Sequence[str],
) -> tuple[list[str | None], dict[int, str]]:
    """Rank each request on the ledger with the ones before."""
    found: list[str | None] = []
    reasons: dict[int, str] = {}
    used = {row for machine in held if (row := first.machines.roster.index.get(machine)) is not None}
    with ledger.trial() as add:
        for position, request in enumerate(requests):
            ranking = first if position == 0 else rank(request, snapshot, ledger, profile, now_s)
            row, why = _choose(ranking, requests[0], used, len(requests) - position)
            if row is None:
                reasons[position] = why
                found.append(None)
                continue
            used.add(row)
            machine = ranking.machines.name(row)
            found.append(machine)
            add(instance_of(request, machine, now_s, _trial_id(position)))
    return found, reasons


def _trial_id(position: int) -> str:
    return f"\0batch-{position}"


def _choose(ranking: Ranking, wanted: Request, used: set[int], left: int) -> tuple[int | None, str]:
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
    return (int(rows[0]), "") if rows.size else (None, ranking.summary + why * bool(ranking.feasible_count))


def _why_missing(
    requests: Sequence[Request],
    found: Sequence[str | None],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
) -> dict[int, str]:
    """Return why the last ones have no machine: how a ranking after all that were placed sums it up."""
    with ledger.trial(
        instance_of(request, machine, now_s, _trial_id(position))
        for position, (request, machine) in enumerate(zip(requests, found, strict=True))
        if machine is not None
    ):
        line = rank(requests[0], snapshot, ledger, profile, now_s).summary
    return {position: line for position, machine in enumerate(found) if machine is None}
