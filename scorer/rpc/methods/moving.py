"""A move in two steps: the target is reserved, and the source is freed when the instance runs on the target.

    begun = client.update("db-1", machine="m2", move=True)        # or machine="": the best one
    ...                                                           # copy it, start it on m2
    client.confirm("db-1", machine="m2", generation=begun["generation"], move=begun["moving"]["number"])

A move may change amounts, limits, expected use and rules, too (`SIZES`): the target holds the new amounts, the source
those it had, and the confirmation makes the new ones its own.

Until then the instance is confirmed where it was and holds both machines: its amounts, its ports and its role on both;
its cluster counts it once, and the choice of the target ignores it. ``moving`` of its record has the target, the times
of its begin and its end, and the number of the move. What each step does:

| step | the instance | source | target |
|---|---|---|---|
| ``confirm`` with ``machine`` = the target | is on the target | freed by the same script; leaves a debit | held |
| ``ttl_s`` (an hour) is over, or ``update`` with ``cancel_move`` | stays | held | freed |
| ``release`` | has ended | freed | freed |
| ``confirm`` without the target | stays, moving | held | held |
| ``update`` of amounts, ports, role, labels | stays, moving; what grows must have room on both | held | held |
| ``update`` of amounts, when the move changes some | refused | held | held |
| ``update`` to another machine, another move | refused | held | held |
| the same move again, with the same amounts | stays, moving; answered ``repeated`` | held | held |

``generation`` names the reservation of the instance, ``move`` the move: a late ``confirm`` with the number of a move
that ended by itself does not confirm the next one.
"""

from __future__ import annotations

import time

from schemas.rpc.parameters import Update
from schemas.rpc.request import InvalidRequest
from schemas.rpc.results import UpdateResult
from scorer.ledger.record.as_request import as_request
from scorer.ledger.record.instance import Instance, arrival, with_arrival
from scorer.ledger.record.transition import CHANGED, NO_QUERY, Call, Change, Transition
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.placement.offers.offer import expected_change
from scorer.placement.offers.placement import Conflict
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.catalogue import Profiles
from scorer.rpc.methods.changes import SIZES, changed
from scorer.rpc.methods.errors import CallError
from scorer.rpc.methods.move import targets
from scorer.rpc.methods.records import answer_to, confirmed, other_generation, with_terms
from scorer.snapshot.snapshot import Snapshot

ATTEMPTS_MAX = 10
_WITH_A_MOVE = {"id", "machine", "move", "ttl_s", "cancel_move", "profile", "generation", "dry_run"}


def check_alone(asked: Update) -> None:
    """Raise InvalidRequest for a step of a move that would change what no move changes."""
    if asked.move and asked.cancel_move:
        raise InvalidRequest("cancel_move: does not go together with move")
    step = "move" if asked.move else "cancel_move"
    for name in Update.__struct_fields__:
        if (
            name in _WITH_A_MOVE
            or getattr(asked, name) is None
            or (name == "swap_role_with" and not asked.swap_role_with)
        ):
            continue
        if asked.cancel_move or name not in SIZES:
            raise InvalidRequest(f"{name}: does not go together with {step}: update it before or after")
        if not asked.machine:
            raise InvalidRequest(f"{name}: goes together with move only when machine says where")


def refuse_size(record: Instance) -> None:
    """Raise CallError where no move begins that could give an instance another size."""
    if record.moving is None:
        raise CallError("FAILED_PRECONDITION", f"{record.id!r} is on {record.machine}: update it without move")
    how = "confirm it there, or update it with cancel_move, first"
    raise CallError("FAILED_PRECONDITION", f"{moving_words(record)} with other amounts or rules: {how}")


def refuse_other_size(old: Instance, new: Instance) -> None:
    """Raise CallError where something is to change that the move under way changes, too."""
    if arrival(old) != arrival(new):
        refuse_size(old)


def moving_words(record: Instance) -> str:
    """Return a sentence that says where a moving instance goes, and until when."""
    moving = record.moving
    assert moving is not None
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moving.until))
    return f"{record.id!r} is moving from {record.machine} to {moving.to} until {until}"


def refuse_while_moving(record: Instance) -> None:
    """Raise CallError when the instance is moving: it cannot go to another machine at the same time."""
    if record.moving is not None:
        how = f"confirm it with machine {record.moving.to}, or update it with cancel_move, first"
        raise CallError("FAILED_PRECONDITION", f"{moving_words(record)}: {how}")


def begin_move(
    ledger: Ledger,
    follower: Follower,
    asked: Update,
    snapshot: Snapshot,
    profiles: Profiles,
    now_s: float,
    kept: Kept | None = None,
    call: Call = NO_QUERY,
) -> UpdateResult:
    """Reserve the target of a move; return the record, with the terms of the ranking that chose the target."""
    for _ in range(ATTEMPTS_MAX):
        old = _meant(ledger, follower, asked)
        if old.moving is not None and asked.machine not in (None, "", old.moving.to):
            refuse_while_moving(old)
        there = with_arrival(old)
        new = changed(there, asked)
        if old.moving is not None or asked.machine == old.machine:
            if new != there:
                refuse_size(old)
            return _repeat(ledger, follower, old, asked, call)
        change = expected_change(follower.change, as_request(new))
        candidates, terms = targets(
            old, new, asked.machine or "", asked.profile, None, follower, snapshot, profiles, now_s, kept
        )
        better = [one.machine for one in candidates]
        better = better[: better.index(old.machine)] if old.machine in better else better
        if not better:
            return _repeat(ledger, follower, old, asked, call)
        transition = ledger.begin_move(
            old, candidates[: len(better)], asked.ttl_s, new=None if new == old else new, generation=asked.generation,
            expected_change=change, call=call, dry_run=asked.dry_run,
        )  # fmt: skip
        follower.absorb(transition)
        outcome = transition.outcomes[0]
        if outcome.kind in ("stale", "moving") or (outcome.kind == "conflict" and CHANGED in outcome.reasons):
            continue
        if outcome.kind == "conflict":
            reason = ", ".join(dict.fromkeys(outcome.reasons))
            raise CallError("RESOURCE_EXHAUSTED", f"{asked.id!r} cannot be moved: {reason}")
        return with_terms(answer_to(UpdateResult, transition, asked.id, "move", asked.dry_run), terms)
    raise Conflict(f"{asked.id!r} was changed by others {ATTEMPTS_MAX} times")


def cancel_move(ledger: Ledger, follower: Follower, asked: Update, call: Call = NO_QUERY) -> UpdateResult:
    """Free the target of a move; an instance that is not moving stays as it is, and the answer says ``repeated``."""
    for _ in range(ATTEMPTS_MAX):
        old = _meant(ledger, follower, asked)
        if old.moving is not None and asked.machine not in (None, "", old.moving.to):
            raise CallError("FAILED_PRECONDITION", f"{moving_words(old)}, not to {asked.machine}")
        transition = ledger.cancel_move(old, generation=asked.generation, call=call, dry_run=asked.dry_run)
        follower.absorb(transition)
        if transition.outcomes[0].kind != "stale":
            return answer_to(UpdateResult, transition, asked.id, "cancel a move of", asked.dry_run)
    raise Conflict(f"{asked.id!r} was changed by others {ATTEMPTS_MAX} times")


def _meant(ledger: Ledger, follower: Follower, asked: Update) -> Instance:
    record = confirmed(ledger, follower, asked.id)
    if asked.generation is not None and record.generation != asked.generation:
        raise CallError("FAILED_PRECONDITION", other_generation(record))
    return record


def _repeat(ledger: Ledger, follower: Follower, old: Instance, asked: Update, call: Call) -> UpdateResult:
    transition: Transition = ledger.update(
        [Change(old, old, [])], generation=asked.generation, call=call, dry_run=asked.dry_run
    )
    follower.absorb(transition)
    return answer_to(UpdateResult, transition, asked.id, "move", asked.dry_run)
