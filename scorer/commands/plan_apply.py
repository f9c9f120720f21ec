"""Carries out a plan, one step after the other through a scorer, and stops at the first one that is refused.

Each call is sent again under its own query id while the connection is away, so it acts once. A step names the
generation that it was planned for: an instance that was replaced meanwhile is not touched. What was carried out is not
planned again, so a plan that stopped goes on when the command is run again.

A move is begun: the target is reserved, and the instance holds both machines until it is confirmed there. What else
changes of it is a step of the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from schemas.parameters import BATCH_MAX
from scorer.client import WindwardError
from scorer.placement.wanted import Step

PLACED_AT_ONCE = 500
"""Instances in one call: a scorer answers others between two."""

Call = Callable[[str, dict[str, Any]], Any]
"""Method and parameters; raises WindwardError."""


class Stopped(Exception):
    """A step was refused; the message says which one, why, and what is left."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def apply(
    call: Call, steps: Sequence[Step], *, profile: str = "", all_or_nothing: bool = False
) -> Iterator[tuple[int, str | None]]:
    """Carry out the steps; yield the position of each that is done, and where the instance is then (None: nowhere).

    ``all_or_nothing``: new instances are reserved all or none. Raises Stopped.
    """
    ready = [(n, step) for n, step in enumerate(steps) if step.action != "refuse"]
    done = 0
    try:
        for n, step in ready:
            if step.action != "place":
                yield n, _one(call, step, profile)
                done += 1
        new = [(n, step) for n, step in ready if step.action == "place"]
        at_once = BATCH_MAX if all_or_nothing else PLACED_AT_ONCE
        for first in range(0, len(new), at_once):
            some = new[first : first + at_once]
            answer = call("place", _batch([step for _, step in some], profile, all_or_nothing))
            machines = {one["id"]: one["machine"] for one in answer["placed"]}
            for n, step in some:
                if step.id in machines:
                    yield n, machines[step.id]
                    done += 1
            if answer["missing"]:
                missing = next(step for _, step in some if step.id not in machines)
                message = f"{answer['missing']} find no machine: {answer['reason']}"
                raise Stopped("RESOURCE_EXHAUSTED", _left(missing, message, done, len(ready)))
    except WindwardError as error:
        raise Stopped(error.code, _left(ready[done][1], error.message, done, len(ready))) from None


def _one(call: Call, step: Step, profile: str) -> str | None:
    own: dict[str, Any] = {"id": step.id} | ({"generation": step.generation} if step.generation else {})
    if step.action == "release":
        call("release", own)
        return None
    own |= {"profile": profile} if profile else {}
    if step.action == "move":
        call("update", own | {"machine": step.target, "move": True})
        return step.target
    return str(call("update", own | dict(step.changes))["machine"])


def _batch(steps: Sequence[Step], profile: str, all_or_nothing: bool) -> dict[str, Any]:
    instances = [msgspec.to_builtins(step.request) for step in steps]
    shared = {"profile": profile} if profile else {}
    return {"instances": instances, **shared} | ({"all_or_nothing": True} if all_or_nothing else {})


def _left(step: Step, message: str, done: int, steps: int) -> str:
    where = f"stopped at {step.id!r} ({step.action})"
    return f"{where}: {message}; {done} of {steps} steps are done, run it again for the rest"
