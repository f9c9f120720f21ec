"""Confirm and release: parameters in, one transition, an answer or a CallError out."""

from __future__ import annotations

from typing import Any

from schemas.rpc.parameters import Confirm, Release
from schemas.rpc.request import InvalidRequest
from schemas.rpc.results import ConfirmResult, ReleaseResult
from scorer.ledger.record.transition import NO_QUERY, Call
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.rpc.methods.parameters import read_params
from scorer.rpc.methods.records import answer_to


def confirm(ledger: Ledger, follower: Follower, params: dict[str, Any], call: Call = NO_QUERY) -> ConfirmResult:
    """Confirm that a reserved instance runs, or that a moving one runs on its target; return the answer."""
    asked: Confirm = read_params(Confirm, params)
    if asked.move is not None and not asked.machine:
        raise InvalidRequest("move: give the machine that it goes to, too")
    transition = ledger.confirm(
        asked.id, machine=asked.machine, started_at=asked.started_at, generation=asked.generation, move=asked.move,
        call=call, dry_run=asked.dry_run,
    )  # fmt: skip
    follower.absorb(transition)
    return answer_to(ConfirmResult, transition, asked.id, "confirm", asked.dry_run)


def release(ledger: Ledger, follower: Follower, params: dict[str, Any], call: Call = NO_QUERY) -> ReleaseResult:
    """End an instance or give a reservation back; return the answer."""
    asked: Release = read_params(Release, params)
    transition = ledger.release(
        asked.id, machine=asked.machine, generation=asked.generation, failed=asked.failed, call=call,
        dry_run=asked.dry_run,
    )  # fmt: skip
    follower.absorb(transition)
    return answer_to(ReleaseResult, transition, asked.id, "release", asked.dry_run)
