"""Limits for an instance that changes: on its growth where it is, and on the machines that it may move to."""

from __future__ import annotations

import msgspec

from schemas.rpc.results import RankResult
from scorer.ledger.record.as_request import as_request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, one_to_a_port
from scorer.ledger.record.transition import Candidate
from scorer.ledger.store.follower import Follower
from scorer.ledger.view.overlay import Overlay
from scorer.placement.offers.limits import limits, of_growth
from scorer.ranking.explanation import explain
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.catalogue import Profiles
from scorer.ranking.rank import rank
from scorer.rpc.methods.errors import CallError
from scorer.snapshot.snapshot import Snapshot


def limits_of_growth(
    old: Instance,
    new: Instance,
    machine: str,
    profile: str,
    follower: Follower,
    snapshot: Snapshot,
    profiles: Profiles,
    now_s: float,
    kept: Kept | None,
) -> tuple[Limit, ...]:
    """Return the limits on the amounts that grow, on a machine that the instance holds."""
    grows = any((b or 0.0) > (a or 0.0) for a, b in zip(old.amounts, new.amounts, strict=True))
    if not grows and new.maxmemory <= old.maxmemory:
        return of_growth(one_to_a_port(new.ports), old, new)
    row = snapshot.roster.index.get(machine)
    if row is None:
        raise CallError("RESOURCE_EXHAUSTED", f"machine {machine!r} is not known: its limits cannot be checked")
    request = as_request(new, machine)
    ranking = rank(
        request,
        RankingInputs(snapshot, follower.view, profiles.choose(profile), now_s, Kept() if kept is None else kept),
    )
    return of_growth(limits(ranking, [row], request)[0], old, new)


def targets(
    old: Instance,
    new: Instance,
    machine: str,
    profile: str,
    other: Instance | None,
    follower: Follower,
    snapshot: Snapshot,
    profiles: Profiles,
    now_s: float,
    kept: Kept | None,
) -> tuple[list[Candidate], RankResult]:
    """Return the machines that an instance may move to, best first, and the explained ranking.

    The ranking is made as if the instance were not placed. ``machine``: the only one allowed, "" for any. Raises
    CallError when there is none.
    """
    request = as_request(new, machine)
    inputs = RankingInputs(snapshot, follower.view, profiles.choose(profile), now_s, Kept() if kept is None else kept)
    ranking = rank(request, inputs.on(Overlay(follower.view, without=[old.id])))
    rows = [int(row) for row in ranking.best(8)]
    terms = explain.answer(ranking)
    candidates = []
    for row in rows:
        name = ranking.machines.name(row)
        if machine and name != machine:
            continue
        (allowed,) = limits(ranking, [row], request)
        if other is not None:  # it may arrive with the other's role
            allowed += limits(ranking, [row], msgspec.structs.replace(request, role=other.role))[0]
        candidates.append(Candidate(name, follower.version(name), allowed))
    if not candidates:
        why = "none of that name fits" if rows else terms.summary
        raise CallError("RESOURCE_EXHAUSTED", f"no machine for {old.id!r}: {why}")
    return candidates, terms
