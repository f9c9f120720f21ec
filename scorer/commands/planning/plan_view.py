"""The output of ``windward plan``, as JSON and as text. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.process.tables import Column, Screen, view
from scorer.commands.shared.show import ON_THE_LIST, ago, basis_in_words, counted, time_of

if TYPE_CHECKING:
    from schemas.rpc.results import PlanResult

_SIGNS = {"place": "+", "move": ">", "change": "~", "update": "*", "release": "-", "refuse": "!"}
_WORDS = {
    "place": "to place", "move": "to move", "change": "to change", "update": "to update", "release": "to release",
    "refuse": "refused", "same": "unchanged",
}  # fmt: skip
_UNKNOWN = ("DEADLINE_EXCEEDED", "UNAVAILABLE")


def plan_answer(found: PlanResult) -> dict[str, Any]:
    """Return the plan as data for JSON: all steps that change something, in their order."""
    return {
        "profile": found.profile,
        "machines": found.machines,
        "instances": found.instances,
        "counts": {action: found.counts[action] for action in _WORDS},
        "others": found.others,
        "steps": [
            {"action": one.action, "id": one.id, "source": one.source, "target": one.target, "why": one.why}
            for one in found.steps
        ],
        "applied": False,
    }


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    counts = ", ".join(f"{number} {_WORDS[action]}" for action, number in answer["counts"].items())
    left = (
        f"; {counted(answer['others'], 'other')} {'is' if answer['others'] == 1 else 'are'} left alone"
        if answer["others"]
        else ""
    )
    lines = []
    if answer["steps"]:
        columns = [each for each in _STEPS if answer["applied"] or each.title != "state"]
        lines.append(view(columns, answer["steps"], screen))
    lines.append(f"{counts}{left} ({basis_in_words(answer)})")
    lines += _held(answer["steps"], announced=answer.get("announced", False))
    return "\n".join(lines)


def _held(steps: Sequence[Mapping[str, Any]], *, announced: bool) -> list[str]:
    """Return one line each on the reservations with their ends, the moves and the confirmations."""
    lines = []
    for action, what, how in (
        ("place", "instance", "windward confirm ID ..."),
        ("move", "target", "windward confirm ID --machine TARGET"),
    ):
        ends = [one["until"] for one in steps if one["action"] == action and one.get("done") and one.get("until")]
        if ends:
            are, first = "is" if len(ends) == 1 else "are", "" if len(ends) == 1 else ", the first"
            when = f"{time_of(min(ends))} ({ago(min(ends), time.time())})"
            list_ = ON_THE_LIST * (announced and action == "move")
            lines.append(
                f"{counted(len(ends), what)} {are} reserved{first} until {when}{list_}; when it runs there: `{how}`"
            )
    if confirmed := sum(one.get("confirmed", False) for one in steps):
        lines.append(f"{counted(confirmed, 'instance')} {'is' if confirmed == 1 else 'are'} confirmed")
    return lines


def _state(step: Mapping[str, Any]) -> str:
    """Return the outcome of a step in words."""
    if step["action"] == "refuse":
        return "refused"
    if step.get("confirmed"):
        return "confirmed"
    if step.get("done") and step.get("until"):
        return "reserved" if step["action"] == "place" else "moving"
    return next(
        (state for state in ("done", "undone") if step.get(state)), "not undone" if "left" in step else "not done"
    )


_STEPS = (
    Column("", of=lambda step: _SIGNS[step["action"]]), Column("id", left=True, of="id"),
    Column("from", left=True, of="source"), Column("to", left=True, of="target"),
    Column("state", left=True, of=_state), Column("what", 1, left=True, of=lambda step: step["why"]),
)  # fmt: skip


def left_words(answer: Mapping[str, Any]) -> str:
    """Return in words how much of a plan was carried out."""
    steps = [one for one in answer["steps"] if one["action"] != "refuse"]
    done = sum(one.get("done", False) for one in steps)
    return f"{done} of {counted(len(steps), 'step')} {'is' if done == 1 else 'are'} done, run it again for the rest"


def undone(steps: Sequence[dict[str, Any]], left: Mapping[int, str]) -> dict[str, Any]:
    """Mark the undone steps, and the reasons why others were not undone; return the summary for the answer."""
    for position, step in enumerate(steps):
        if position in left:
            step.pop("done", None)
            step["left"] = left[position]
        elif step.pop("done", False):
            step["undone"] = True
    return {"undone": not left}


def undone_words(answer: Mapping[str, Any], code: str) -> str:
    """Return the state after an all-or-nothing plan was stopped."""
    steps = answer["steps"]
    number, left = sum("undone" in one for one in steps), [one for one in steps if "left" in one]
    words = f"{number} steps before it are undone" if number != 1 else "the step before it is undone"
    if left:
        words += f", {len(left)} cannot be: " + "; ".join(
            f"{one['id']!r} ({one['action']}): {one['left']}" for one in left
        )
    elif code in _UNKNOWN:
        words += "; whether it was carried out itself is not known: `windward instances show ID` says it"
    else:
        words += ": nothing has changed"
    return words if number or left or code in _UNKNOWN else "nothing has changed"
