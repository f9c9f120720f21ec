"""Carries out a plan step by step through a scorer, and stops at the first step that is refused.

Each call is sent again under its own query id while the connection is away, so it acts once. A step names the
generation that it was planned for: an instance that was replaced meanwhile is not touched. A step that was carried out
is not planned again, so after a stop the command can be run again.

A move is begun: the target is reserved with the amounts and rules that the instance is to have, and it holds both
machines until it is confirmed there. Ports, role and labels change at once (`NOT_MOVED`), after the target is reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from scorer.client import WindwardError
from scorer.planning.wanted.differences import NOT_MOVED
from scorer.planning.wanted.steps import Step

PLACED_AT_ONCE = 500
"""Instances in one call: a scorer answers other queries between two calls."""

Call = Callable[[str, dict[str, Any]], Any]
"""Method and parameters; raises WindwardError."""

TRIES = 5
"""How often a call is made that fails because other callers changed the same machine."""


def tried_again(call: Call) -> Call:
    """Return the call, made again while its answer is UNAVAILABLE and may succeed later; no step acts twice."""

    def patient(method: str, params: dict[str, Any]) -> Any:
        for left in reversed(range(TRIES)):
            try:
                return call(method, params)
            except WindwardError as error:
                if not (left and error.retryable and error.code == "UNAVAILABLE"):
                    raise
        raise AssertionError("the last try returns or raises")

    return patient


class Stopped(Exception):
    """A step was refused, or got no answer; the message says which one, and why."""

    def __init__(self, code: str, step: Step, why: str) -> None:
        super().__init__(f"stopped at {step.id!r} ({step.action}): {why}")
        self.code = code
        self.step = step


class Done(NamedTuple):
    """A step that was carried out, or the first part of it."""

    position: int
    where: str | None
    """Where the instance is now, or moves to; None: nowhere."""
    generation: int = 0
    """Of a new instance."""


def apply(call: Call, steps: Sequence[Step], *, profile: str = "", all_or_nothing: bool = False) -> Iterator[Done]:
    """Carry out the steps except refused ones; yield each that is done.

    A move with changes that no move makes is yielded twice, since a stop may come between. ``all_or_nothing``: the new
    instances of one call are reserved all or none. Raises Stopped.
    """
    ready = [(n, step) for n, step in enumerate(steps) if step.action != "refuse"]
    for is_new, group in groupby(ready, key=lambda one: one[1].action == "place"):
        if is_new:
            yield from _place(call, list(group), profile, all_or_nothing)
        else:
            for n, step in group:
                try:
                    yield from _one(call, n, step, profile)
                except WindwardError as error:
                    raise Stopped(error.code, step, error.message) from None


def _place(call: Call, new: list[tuple[int, Step]], profile: str, all_or_nothing: bool) -> Iterator[Done]:
    for first in range(0, len(new), PLACED_AT_ONCE):
        some = new[first : first + PLACED_AT_ONCE]
        try:
            answer = call("place", _batch([step for _, step in some], profile, all_or_nothing))
        except WindwardError as error:
            raise Stopped(error.code, some[0][1], error.message) from None
        placed = {one["id"]: one for one in answer["placed"]}
        for n, step in some:
            if one := placed.get(step.id):
                yield Done(n, one["machine"], one.get("generation", 0))
        if answer["missing"]:
            missing = next(step for _, step in some if step.id not in placed)
            raise Stopped("RESOURCE_EXHAUSTED", missing, f"{answer['missing']} find no machine: {answer['reason']}")


def _one(call: Call, position: int, step: Step, profile: str) -> Iterator[Done]:
    own = instance_meant(step)
    if step.action == "release":
        call("release", own)
        yield Done(position, None)
        return
    by = {"profile": profile} if profile else {}
    if step.action != "move":
        yield Done(position, str(call("update", own | by | dict(step.changes))["machine"]))
        return
    with_it = {name: value for name, value in step.changes.items() if name not in NOT_MOVED}
    call("update", own | by | with_it | {"machine": step.target, "move": True})
    yield Done(position, step.target)
    if at_once := {name: value for name, value in step.changes.items() if name in NOT_MOVED}:
        call("update", own | by | at_once)
        yield Done(position, step.target)


def instance_meant(step: Step) -> dict[str, Any]:
    """Return the parameters that name the instance of a step: its id, and its generation where it has one."""
    return {"id": step.id} | ({"generation": step.generation} if step.generation else {})


def _batch(steps: Sequence[Step], profile: str, all_or_nothing: bool) -> dict[str, Any]:
    instances = [msgspec.to_builtins(step.request) for step in steps]
    shared = {"profile": profile} if profile else {}
    return {"instances": instances, **shared} | ({"all_or_nothing": True} if all_or_nothing else {})
