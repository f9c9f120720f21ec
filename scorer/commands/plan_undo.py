"""Undoes the steps of a plan that was to be carried out whole or not at all, the last one first.

| step | undone by |
|---|---|
| place | release of that generation |
| move | cancel of the move; ports, role and labels as they were |
| change, update | update to the amounts and rules that the instance had |
| release | place where it was, with its request, then confirm with the time since which it runs |

Room that a step gave back may be taken by others before it is undone: then the ledger refuses to put it back, and the
step is among those that `undo` returns. Each call may be made again: a step that is undone already stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from scorer.client import WindwardError
from scorer.commands.plan_apply import Call, Done, Stopped, instance_meant
from scorer.placement.as_request import as_request
from scorer.placement.differences import NOT_MOVED, restoring
from scorer.placement.wanted import Step

_UNKNOWN = ("DEADLINE_EXCEEDED", "UNAVAILABLE", "INTERNAL")
"""Codes after which a step may have been carried out all the same."""
_GONE = ("NOT_FOUND", "FAILED_PRECONDITION")
"""Codes of a release that says: that reservation is no more."""


def undo(
    call: Call, steps: Sequence[Step], done: Sequence[Done], stopped: Stopped, profile: str = ""
) -> dict[int, str]:
    """Undo what was done, and the step that got no answer; return why, by position, of each that is not undone."""
    last = {one.position: one for one in done}  # each once: a move is told of in two parts
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
        if error.code not in _GONE:  # it has expired, or another came after it: ours is no more
            raise
