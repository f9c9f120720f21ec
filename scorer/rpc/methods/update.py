"""Update: changes a confirmed instance in one transition; a move is ranked like a placement."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.rpc.parameters import Update
from schemas.rpc.request import InvalidRequest, check_labels
from schemas.rpc.results import RankResult, UpdateResult
from scorer.ledger.record.as_request import as_request
from scorer.ledger.record.instance import Instance, machines_of
from scorer.ledger.record.transition import CHANGED, NO_QUERY, Call, Candidate, Change
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.placement.offers.offer import expected_change
from scorer.placement.offers.placement import Conflict
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.catalogue import Profiles
from scorer.rpc.methods.changes import changed
from scorer.rpc.methods.errors import CallError
from scorer.rpc.methods.move import limits_of_growth, targets
from scorer.rpc.methods.moving import begin_move, cancel_move, check_alone, refuse_other_size, refuse_while_moving
from scorer.rpc.methods.records import answer_to, confirmed, other_generation, with_terms
from scorer.rpc.query import read_params
from scorer.snapshot.snapshot import Snapshot

ATTEMPTS_MAX = 10


def update(
    ledger: Ledger,
    follower: Follower,
    params: dict[str, Any],
    snapshot: Snapshot,
    profiles: Profiles,
    now_s: float,
    kept: Kept | None = None,
    call: Call = NO_QUERY,
) -> UpdateResult:
    """Move, resize or change the role of a confirmed instance.

    A move and a growth are checked like a placement; a change of role is a fact and is not refused. The answer to a
    move has the terms of the ranking that chose the machine, as that of `place`. A move is done at once; with ``move``
    it has two steps (`scorer.rpc.methods.moving`).
    """
    asked: Update = read_params(Update, params)
    check_labels(asked.labels or {})
    if asked.move or asked.cancel_move:
        check_alone(asked)
    if ledger.acted("update", asked.id, call):  # it is not done again, even if the instance has changed since
        old = confirmed(ledger, follower, asked.id)
        transition = ledger.update([Change(old, old, [])], generation=asked.generation, call=call)
        follower.absorb(transition)
        return answer_to(UpdateResult, transition, asked.id, "update", asked.dry_run)
    if asked.move:
        return begin_move(ledger, follower, asked, snapshot, profiles, now_s, kept, call)
    if asked.cancel_move:
        return cancel_move(ledger, follower, asked, call)
    for _ in range(ATTEMPTS_MAX):
        old = confirmed(ledger, follower, asked.id)
        if asked.generation is not None and old.generation != asked.generation:
            raise CallError("FAILED_PRECONDITION", other_generation(old))
        at = follower.change
        other = confirmed(ledger, follower, asked.swap_role_with) if asked.swap_role_with else None
        change, terms = _change(old, asked, other, follower, snapshot, profiles, now_s, kept)
        known = expected_change(at, as_request(change.new)) if terms else -1
        changes = _swap(change, other, asked.role) if other is not None else [change]
        if all(_same(change) for change in changes):
            changes = [Change(old, old, [])]
        transition = ledger.update(
            changes, generation=asked.generation, expected_change=known, call=call, dry_run=asked.dry_run
        )
        follower.absorb(transition)
        kind, reasons = transition.outcomes[0].kind, transition.outcomes[0].reasons
        if kind == "stale" or (kind == "conflict" and CHANGED in reasons):
            continue
        if kind == "conflict":
            reason = ", ".join(dict.fromkeys(reasons))
            raise CallError("RESOURCE_EXHAUSTED", f"{asked.id!r} cannot be updated: {reason}")
        answer = answer_to(UpdateResult, transition, asked.id, "update", asked.dry_run)
        if terms is None or kind == "repeat" or answer.machine == old.machine:
            return answer
        return with_terms(answer, terms, old.machine)
    raise Conflict(f"{asked.id!r} was changed by others {ATTEMPTS_MAX} times")


def _change(
    old: Instance, asked: Update, other: Instance | None, follower: Follower, snapshot: Snapshot, profiles: Profiles,
    now_s: float, kept: Kept | None,
) -> tuple[Change, RankResult | None]:  # fmt: skip
    """Return the change, and the explained ranking when the instance moves."""
    new = changed(old, asked)
    if old.moving is not None and old.moving.new is not None:
        refuse_other_size(old, new)
    if asked.machine is None or asked.machine == old.machine:
        stays = [
            Candidate(at, -1, limits_of_growth(old, new, at, asked.profile, follower, snapshot, profiles, now_s, kept))
            for at in machines_of(old)
        ]
        return Change(old, new, stays), None
    refuse_while_moving(old)
    candidates, terms = targets(
        old, new, asked.machine, asked.profile, other, follower, snapshot, profiles, now_s, kept
    )
    return Change(old, new, candidates), terms


def _swap(change: Change, other: Instance, role: str | None) -> list[Change]:
    """Return the changes by which two instances exchange roles; only the first when this call did so before."""
    old, new = change.old, change.new
    if other.cluster != old.cluster or not old.cluster:
        raise CallError("FAILED_PRECONDITION", f"{other.id!r} is not of {old.id!r}'s cluster {old.cluster!r}")
    if other.id == old.id:
        raise InvalidRequest("swap_role_with: is the instance itself")
    pair = (old.id, other.id)
    if old.swap == other.swap == pair if role is None else role == old.role:
        return [change]
    if role not in (None, other.role):
        raise CallError("FAILED_PRECONDITION", f"role: {other.id!r} is {other.role!r}, not {role!r}")
    anywhere = [Candidate(other.machine, -1)]
    return [
        Change(old, msgspec.structs.replace(new, role=other.role, swap=pair), change.candidates),
        Change(other, msgspec.structs.replace(other, role=old.role, swap=pair), anywhere),
    ]


def _same(change: Change) -> bool:
    return change.candidates[0].machine == change.old.machine and change.old == change.new
