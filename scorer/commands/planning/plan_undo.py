"""Undoes the steps of an all-or-nothing plan, the last one first.

| step | undone by |
|---|---|
| place | release of that generation |
| move | cancel of the move; ports, role and labels as they were |
| change, update | update to the amounts and rules that the instance had |
| release | place where it was, with its request, then confirm with the time since which it runs |

Other instances may take room that a step freed: then the ledger refuses to undo it, and the step is among those that
`undo` returns. Each call may be made again: a step that is undone already stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from scorer.client import WindwardError
from scorer.commands.planning.plan_apply import Call, Done, Stopped, instance_meant
from scorer.ledger.record.as_request import as_request
from scorer.planning.wanted.differences import NOT_MOVED, restoring
from scorer.planning.wanted.steps import Step

_UNKNOWN = ("DEADLINE_EXCEEDED", "UNAVAILABLE", "INTERNAL")
"""Codes after which it is unknown whether a step was carried out."""
_GONE = ("NOT_FOUND", "FAILED_PRECONDITION")
"""Codes of a release whose reservation no longer exists."""


def undo(
    call: Call, steps: Sequence[Step], done: Sequence[Done], stopped: Stopped, profile: str = ""
) -> dict[int, str]:
    """Undo the finished steps and the one without an answer; return the reasons by position of those not undone."""
    last = {one.position: one for one in done}  # a move may be there twice
    if stopped.code in _UNKNOWN and stopped.step.action != "place":
        last.setdefault(steps.index(stopped.step), Done(steps.index(stopped.step), None))
    left: dict[int, str] = {}
    for position in reversed(last):
        try:
            _undo(call, steps[position], last[position], {"profile": profile} if profile else {})
        except WindwardError as error:
            left[position] = error.message
    return left


def _undo(call: Call, step: Step, done: Done, by: dict[str, Any]) -> None:
    own, old = instance_meant(step), step.old
    if step.action == "place":
        _release(call, step.id, done.generation)
        return
    assert old is not None
    if step.action == "release":
        request = as_request(old, old.machine)
        call("place", msgspec.to_builtins(request) | by)
        call("confirm", {"id": step.id, "machine": old.machine, "started_at": old.started_at})
        return
    if step.action == "move":
        call("update", own | {"cancel_move": True})
    parameters = [name for name in step.changes if step.action != "move" or name in NOT_MOVED]
    if parameters:
        call("update", own | by | msgspec.to_builtins(restoring(old, parameters)))


def _release(call: Call, instance_id: str, generation: int) -> None:
    try:
        call("release", {"id": instance_id} | ({"generation": generation} if generation else {}))
    except WindwardError as error:
        if error.code not in _GONE:  # else it has expired, or has ended and another one followed
            raise
