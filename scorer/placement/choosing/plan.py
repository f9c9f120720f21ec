"""Batches: many instances in one query, each seeing the ones before, as if they were placed one at a time.

Unlike instances are ranked one after the other, each on an overlay with the ones before. For identical ones there is a
faster method where only a machine's own load decides (`scorer.placement.choosing.copies`): 1,000 on 5,000 machines take
about as long as 50 single ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.copies import identical_steps
from scorer.placement.choosing.draft import Draft, proposed_id
from scorer.placement.choosing.steps import Steps, drain
from scorer.ranking.explanation.explain import summary
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.snapshot.snapshot import Snapshot


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
    requests: Sequence[Request],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
    held: Sequence[str] = (),
    first: Ranking | None = None,
    kept: Kept | None = None,
) -> Plan:
    """Return the plan of `plan_steps`, made without pauses between its steps."""
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
    """Return the plan of a batch; ``requests`` has one for each instance (``count`` is expanded by `expand`).

    ``all_or_nothing``, ``machines_max`` and ``machines_min`` are those of the first request: at most, or at least, so
    many different machines. ``held`` has the machine of each instance of the same batch that an earlier call or try has
    placed: those machines count. ``first``: the ranking of the first request on this ledger, if it exists. Nothing is
    reserved and the ledger is not changed; ``kept`` as for `scorer.ranking.rank.rank`.

    The ledger may change between two steps: an instance whose chosen machine changed since gets a new choice.

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
        draft = Draft(requests, first, snapshot, ledger, profile, now_s, held, kept)
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
    """Return whether the requests are equal except for their ids."""
    first = requests[0]
    plain = msgspec.structs.replace(first, id="")
    return all(request is first or msgspec.structs.replace(request, id="") == plain for request in requests)


def _why_missing(
    requests: Sequence[Request],
    found: Sequence[str | None],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
    kept: Kept,
) -> dict[int, str]:
    """Return why the last ones have no machine: the summary of a ranking after all that were placed."""
    proposed = Overlay(ledger)
    for position, (request, machine) in enumerate(zip(requests, found, strict=True)):
        if machine is not None:
            proposed.propose(instance_of(request, machine, now_s, proposed_id(position)))
    line = summary(rank(requests[0], snapshot, proposed, profile, now_s, kept))
    return {position: line for position, machine in enumerate(found) if machine is None}
