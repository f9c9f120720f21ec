"""An instance's record as callers see it, and the errors of a transition that was refused."""

from __future__ import annotations

from typing import Any

import msgspec

from scorer.ledger.record.instance import LIVE, Instance
from scorer.ledger.record.transition import Outcome, Transition
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.rpc.methods.errors import CallError


def shown_record(record: Instance) -> dict[str, Any]:
    """Return a record as callers see it; an amount that was not given is 0."""
    shown: dict[str, Any] = msgspec.to_builtins(record)
    shown.pop("request", None)
    shown.pop("swap", None)
    shown["generation"] = record.generation
    if record.moving is not None and record.moving.new is not None:
        new = msgspec.structs.asdict(record.moving.new)
        new["amounts"] = [amount or 0.0 for amount in record.moving.new.amounts]
        shown["moving"]["new"] = msgspec.to_builtins(new)
    return shown | {"amounts": [amount or 0.0 for amount in record.amounts], "maxmemory": record.maxmemory}


def answer_to(transition: Transition, instance_id: str, step: str, dry_run: bool) -> dict[str, Any]:
    """Return the record after a transition; raise CallError with the reason when it was refused."""
    outcome = transition.outcomes[0]
    record = outcome.instance
    if outcome.kind in ("done", "repeat") and record is not None:
        return _line(outcome, dry_run)
    if outcome.kind == "late":
        raise CallError("DEADLINE_EXCEEDED", f"the deadline passed before {instance_id!r} was touched", retryable=True)
    if outcome.kind == "gone":
        raise CallError("ABORTED", f"{instance_id!r}: what this query acted on has ended, and others came after it")
    if record is None:
        raise CallError("NOT_FOUND", f"no instance {instance_id!r}, nor one that ended and is still known")
    if outcome.kind == "generation":
        raise CallError("FAILED_PRECONDITION", other_generation(record))
    moving = record.moving
    if outcome.kind == "elsewhere" and record.state in LIVE:
        also = f", moving to {moving.to}" if moving is not None else ""
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} is on {record.machine}{also}")
    if outcome.kind == "moving" and moving is not None:
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} moves to {moving.to} by another move, {moving.number}")
    if outcome.kind == "reserved":
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} is reserved; confirm it before you {step} it")
    when = f" at {record.ended_at:.3f}" if record.ended_at else ""
    raise CallError("FAILED_PRECONDITION", f"{instance_id!r} has {record.state}{when}".replace("has r", "was r"))


def confirmed(ledger: Ledger, follower: Follower, instance_id: str) -> Instance:
    """Return the record of a confirmed instance; raise CallError when there is none."""
    record = follower.view.instances.get(instance_id) or ledger.find(instance_id)
    if record is None:
        raise CallError("NOT_FOUND", f"no instance {instance_id!r}")
    if record.state != "confirmed":
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} is {record.state}, not confirmed")
    return record


def other_generation(record: Instance) -> str:
    """Return the message for a transition on a former reservation of an id."""
    return f"{record.id!r} is another reservation by now: generation {record.generation}, {record.state}"


def _line(outcome: Outcome, dry_run: bool) -> dict[str, Any]:
    record = outcome.instance
    assert record is not None
    return shown_record(record) | {"repeated": outcome.kind == "repeat", "dry_run": dry_run}
