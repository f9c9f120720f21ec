"""The parameters of a query as a method's Struct; records as callers see them, and errors of a refused transition."""

from typing import Any, TypeVar

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.envelope import Code, Error, Query
from schemas.rpc.request import InvalidRequest, with_seconds
from schemas.rpc.results import ConfirmResult, RankResult, Record, UpdateResult
from schemas.values.errors import field_error
from schemas.values.read_json import reader
from scorer.ledger.record.instance import LIVE, Arrival, Instance
from scorer.ledger.record.transition import Transition
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger

_decode_object = reader(object)


def read_object(query: Query) -> dict[str, Any]:
    """Return the parameters of a query as decoded JSON; raise InvalidRequest unless they are an object."""
    try:
        params = _decode_object(query.params)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"params: {error}") from None
    if not isinstance(params, dict):
        raise InvalidRequest(f"params: expected an object, got {type(params).__name__}")
    return params


def read_params(kind: type[Any], params: dict[str, Any]) -> Any:
    """Return the parameters of a method as its Struct; raise InvalidRequest naming the field."""
    try:
        return msgspec.convert(with_seconds(params), kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(field_error(error, given=params, kind=kind)) from None


class CallError(Exception):
    """A call that cannot be done; it becomes the error in the answer."""

    def __init__(self, code: Code, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.error = Error(code=code, message=message, retryable=retryable)


class ForPlanners(Exception):
    """A query that takes too long for a scorer: a planner answers it."""


_Kind = TypeVar("_Kind", bound=Record)
_Answer = TypeVar("_Answer", bound=ConfirmResult)
_TERMS = tuple(name for name in RankResult.__struct_fields__ if name not in ("machine", "expected"))


def shown_record(kind: type[_Kind], record: Instance, **more: Any) -> _Kind:
    """Return a record in the form of an answer, with further fields."""
    found = msgspec.structs.asdict(record)
    for name in ("request", "swap", "swapped_at"):  # of the ledger alone; an answer to `update` has another `request`
        del found[name]
    found.update(more)
    if record.rules is not None:
        found["rules"] = msgspec.to_builtins(record.rules)
    if (moving := record.moving) is not None:
        found["moving"] = msgspec.to_builtins(moving)
        if moving.new is not None:
            found["moving"]["new"]["amounts"] = amounts_of(moving.new)
    return msgspec.convert(found, kind)


def amounts_of(record: Instance | Arrival) -> list[float]:
    """Return the amounts by resource; 0 where none is given."""
    return [amount or 0.0 for amount in record.amounts]


def answer_to(kind: type[_Answer], transition: Transition, instance_id: str, step: str, dry_run: bool) -> _Answer:
    """Return the record after a transition; raise CallError with the reason when it was refused."""
    outcome = transition.outcomes[0]
    record = outcome.instance
    if outcome.kind in ("done", "repeat") and record is not None:
        repeated = outcome.kind == "repeat"
        amounts = amounts_of(record)
        by_name = dict(zip(RESOURCES, amounts, strict=True))
        return shown_record(kind, record, amounts=amounts, **by_name, repeated=repeated, dry_run=dry_run)
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
    ended = "has expired" if record.state == "expired" else f"was {record.state}"
    when = f" at {record.ended_at:.3f}" if record.ended_at else ""
    raise CallError("FAILED_PRECONDITION", f"{instance_id!r} {ended}{when}")


def with_terms(answer: UpdateResult, terms: RankResult, moved_from: str | None = None) -> UpdateResult:
    """Return the answer to a move with the terms of the ranking that chose its machine."""
    of_ranking = {name: getattr(terms, name) for name in _TERMS}
    expected = answer.expected or terms.expected
    return msgspec.structs.replace(answer, **of_ranking, expected=expected, moved_from=moved_from)


def confirmed(ledger: Ledger, follower: Follower, instance_id: str) -> Instance:
    """Return the record of a confirmed instance; raise CallError when there is none."""
    record = follower.view.instances.get(instance_id) or ledger.find(instance_id)
    if record is None:
        raise CallError("NOT_FOUND", f"no instance {instance_id!r}")
    if record.state != "confirmed":
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} is {record.state}, not confirmed")
    return record


def other_generation(record: Instance) -> str:
    """Return the message for a transition on an earlier reservation of an id."""
    return f"{record.id!r} is another reservation by now: generation {record.generation}, {record.state}"
