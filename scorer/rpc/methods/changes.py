"""The new record of an update, and the errors for changes that cannot be requested. Only given fields change. Pure."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.parameters import Update
from schemas.rpc.request import CHANGEABLE_FIELDS, InvalidRequest, Quantity, Request, check_rules, read_amount
from scorer.ledger.record.instance import Instance, arrival
from scorer.ledger.record.rules import RULES, as_fields, rules_of
from scorer.ledger.record.transition import Candidate, Change
from scorer.ledger.record.units import too_large
from scorer.ranking.formulas.selectors import check_selectors
from scorer.rpc.methods.errors import CallError

SIZES = (*RESOURCES, "maxmemory", "limits", "expected", *RULES)
"""The parameters that a move may change: the instance has them on its target."""
_WITH_A_MOVE = {"id", "machine", "move", "ttl_s", "cancel_move", "profile", "generation", "dry_run"}


def changed(old: Instance, asked: Update) -> Instance:
    """Return the record with the requested changes, on its present machine.

    Raises InvalidRequest naming the field.
    """
    amounts = tuple(
        old.amounts[position] if getattr(asked, name) is None else read_amount(name, getattr(asked, name))
        for position, name in enumerate(RESOURCES)
    )
    given: dict[str, Any] = {"amounts": amounts}
    if asked.maxmemory is not None:
        given["maxmemory"] = read_amount("maxmemory", asked.maxmemory)
    for name in CHANGEABLE_FIELDS:
        if getattr(asked, name) is not None:
            given[name] = getattr(asked, name)
    for name in ("limits", "expected"):
        if (by_name := getattr(asked, name)) is not None:
            given[name] = _by_resource(name, by_name)
    if rules := {name: value for name in RULES if (value := getattr(asked, name)) is not None}:
        request = Request(**{**as_fields(old.rules), **rules})
        check_rules(request)
        check_selectors(request)
        given["rules"] = rules_of(request)
    if given.get("role", old.role) != old.role:
        given["swap"] = ()
    new = msgspec.structs.replace(old, **given)
    if large := too_large(new.amounts, new.maxmemory):
        raise InvalidRequest(large)
    return new


def _by_resource(name: str, given: Mapping[str, Quantity]) -> tuple[float, ...]:
    for resource in given:
        if resource not in RESOURCES:
            raise InvalidRequest(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    amounts = tuple(read_amount(f"{name}.{r}", given[r]) if r in given else -1.0 for r in RESOURCES)
    return amounts if given else ()


def exchanged(change: Change, other: Instance, role: str | None) -> list[Change]:
    """Return the changes by which two instances exchange roles; only the first if this call did so before."""
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


def check_alone(asked: Update) -> None:
    """Raise InvalidRequest for a step of a move with changes that no move can make."""
    if not asked.move and not asked.cancel_move:
        return
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
    """Raise CallError for a new size without the start of a move."""
    if record.moving is None:
        raise CallError("FAILED_PRECONDITION", f"{record.id!r} is on {record.machine}: update it without move")
    how = "confirm it there, or update it with cancel_move, first"
    raise CallError("FAILED_PRECONDITION", f"{moving_words(record)} with other amounts or rules: {how}")


def refuse_other_size(old: Instance, new: Instance) -> None:
    """Raise CallError for a change of a field that the move in progress changes, too."""
    if old.moving is not None and old.moving.new is not None and arrival(old) != arrival(new):
        refuse_size(old)


def refuse_while_moving(record: Instance) -> None:
    """Raise CallError when the instance is moving, since it cannot move to another machine as well."""
    if record.moving is not None:
        how = f"confirm it with machine {record.moving.to}, or update it with cancel_move, first"
        raise CallError("FAILED_PRECONDITION", f"{moving_words(record)}: {how}")


def moving_words(record: Instance) -> str:
    """Return a sentence with the target of a moving instance, and when the move expires."""
    moving = record.moving
    assert moving is not None
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moving.until))
    return f"{record.id!r} is moving from {record.machine} to {moving.to} until {until}"
