"""``windward plan``: compare wanted instances with the ledger; with ``--apply``, carry out the differences.

A planner makes the plan (`scorer.commands.shared.whole_fleet.planned`). A scorer checks and carries out each step
(`carry_out`). A refused step ends the run, since later steps were planned on its effect.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from schemas.process.failures import Failure, print_failure
from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Column, Screen, view
from schemas.rpc.request import InvalidRequest, Request
from schemas.values.numbers import counted
from scorer.client import WindwardError
from scorer.commands.shared import ask
from scorer.commands.shared.show import ON_THE_LIST, ago, basis_in_words, time_of
from scorer.commands.shared.whole_fleet import FleetSettings, planned
from scorer.wire import AWAY

if TYPE_CHECKING:
    from schemas.rpc.results import PlanResult, PlanStep
    from scorer.commands.planning.carry_out import Calls, Outcome


CHANGES, UNKNOWN = 1, 255
"""Exit codes: there is something to change; the plan could not be made."""
TRIES = 5
"""The number of attempts of a step that conflicts with other callers."""


@dataclass(frozen=True, kw_only=True)
class PlanSettings(FleetSettings):
    """Compare the instances of a file with the ledger: print what would be placed, moved, changed, released or refused.

    The file has JSON lines, or one JSON list, of objects with `id` and the fields of a request (`cpu`, `memory`,
    `machine`, `selector`, ...), as `place --query` takes them. Other instances are left alone unless --prune. With
    --apply a scorer carries the steps out, and stops at the first one that it refuses; run again, the command does the
    others. New instances are reserved until --ttl-s is over, or confirmed with --confirm. With --all-or-nothing the
    steps before a refused one are undone.
    Exit codes: 0 nothing to change, or all applied; 1 there are changes, or --apply stopped; 3 some find no machine; 4
    no answer to --apply; 255 the plan could not be made.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward plan docs/examples/wanted.jsonl --fleet-file docs/examples/hot.json    # against the fleet of a file",
        "windward plan docs/examples/wanted.jsonl --prune --prune-labels app=web       # what is no longer wanted, too",
        "windward plan docs/examples/wanted.jsonl --apply --all-or-nothing             # only if nothing is refused",
    )

    file: str = setting(help="the wanted instances; - is standard input", positional=True, metavar="FILE")
    profile: str = setting("", "name of a profile, or a profile file, by which instances are placed", metavar="NAME")
    prune: bool = setting(False, "release confirmed instances that the file does not name")
    prune_labels: dict[str, str] = setting({}, "with --prune: only those with these labels", metavar="KEY=VALUE")
    apply: bool = setting(False, "carry the plan out: reserve new instances and the targets of moves, change, release")
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] | None = setting(
        None, "with --apply: how long each is reserved (default: 5m, or `ttl_s` of the file; moves an hour)"
    )
    confirm: bool = setting(
        False, "with --apply: confirm the new instances at once; a move is confirmed when it is done"
    )
    all_or_nothing: bool = setting(False, "with --apply: change nothing when a step is refused: undo those before")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.apply and self.fleet_file is not None:
            raise ValueError("apply: a file is only planned on")
        if self.apply and self.profile.endswith(".toml"):
            raise ValueError("profile: --apply needs a profile of the scorer; give its name")
        if (self.confirm or self.ttl_s is not None) and not self.apply:
            raise ValueError(f"{'confirm' if self.confirm else 'ttl_s'}: goes with --apply")
        if self.prune_labels and not self.prune:
            raise ValueError("prune_labels: goes with --prune")


SETTINGS = PlanSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    settings = load_settings(PlanSettings, "plan", argv, environ)
    try:
        found, requests = _found(settings)
    except (SettingsError, Failure, WindwardError, *AWAY) as error:
        _tell_failure(error, settings)
        return UNKNOWN
    answer = plan_answer(found)
    refused = bool(answer["counts"]["refuse"])
    if settings.apply and not (refused and settings.all_or_nothing):
        return _apply(settings, found.steps, {one.id: one for one in requests}, answer)
    ask.tell(settings, answer, show, indent=2)
    if refused:
        return ask.NO_MACHINE
    return CHANGES if answer["steps"] else ask.OK


def _tell_failure(error: Exception, settings: PlanSettings) -> None:
    if isinstance(error, WindwardError):
        ask.report(error, "plan", settings)
    elif isinstance(error, SettingsError):
        print_failure("plan", "INVALID_ARGUMENT", str(error), as_json=settings.json)
    elif isinstance(error, Failure):
        print_failure("plan", "INTERNAL", str(error), as_json=settings.json, with_code=True)
    else:
        ask.unreachable(settings.redis_url, error, "plan", settings)


def _found(settings: PlanSettings) -> tuple[PlanResult, list[Request]]:
    """Return the plan and the wanted instances; raises WindwardError, SettingsError, or one of `scorer.wire.AWAY`."""
    from schemas.rpc.results import PlanResult
    from scorer.planning.wanted.requests import InvalidWanted, read_text, read_wanted

    try:
        with nullcontext(sys.stdin.buffer) if settings.file == "-" else Path(settings.file).open("rb") as file:
            requests = read_wanted(read_text(file))
    except OSError as error:
        raise SettingsError(f"file: {settings.file}: {error.strerror}") from None
    except InvalidWanted as error:
        raise SettingsError(f"file: {settings.file}: {error}") from None
    asked = {
        "instances": [msgspec.to_builtins(one) for one in requests], "prune": settings.prune,
        "prune_labels": settings.prune_labels, "release_last": settings.all_or_nothing, "records": settings.apply,
    }  # fmt: skip
    try:
        return planned(settings, settings.profile, PlanResult, "plan", asked), requests
    except InvalidRequest as error:
        raise SettingsError(f"file: {settings.file}: {error}") from None


def _confirmed(outcomes: Sequence[Outcome], calls: Calls) -> dict[int, dict[str, Any]]:
    """Confirm the new instances; return by position the outcome of each, as in the answer."""
    found: dict[int, dict[str, Any]] = {}
    for one in outcomes:
        if one.state == "done" and one.step.action == "place":
            try:
                calls.scorer.confirm(one.step.id, generation=one.generation)
            except WindwardError as error:
                found[one.position] = {"unconfirmed": error.message}
            else:
                found[one.position] = {"confirmed": True, "until": None}
    return found


def _apply(
    settings: PlanSettings, steps: Sequence[PlanStep], requests: Mapping[str, Request], answer: dict[str, Any]
) -> int:
    from scorer.commands.planning.carry_out import Calls, OnRefusal, announce, carry_out, undo

    code, left = ask.NO_MACHINE if answer["counts"]["refuse"] else ask.OK, {}
    with ask.client(settings) as scorer:
        calls = Calls(scorer, settings.profile, settings.ttl_s, settings.all_or_nothing, TRIES, requests)
        outcomes = list(carry_out(steps, calls, OnRefusal.STOP))
        stopped = next((one for one in outcomes if one.failed), None)
        if stopped and settings.all_or_nothing:
            left = {position: error.message for position, error in undo(outcomes, calls).items()}
        kept = settings.confirm and not (stopped and settings.all_or_nothing)
        confirmed = _confirmed(outcomes, calls) if kept else {}
    for one in outcomes:
        step = answer["steps"][one.position]
        if one.state == "done" or one.begun:
            step["target"] = one.machine
        if one.state == "done":
            until = one.moving.until if one.moving else one.until
            step |= {"done": True} | ({"until": until} if until else {}) | confirmed.get(one.position, {})
    if stopped:
        assert stopped.error is not None
        if settings.all_or_nothing:
            answer |= undone(answer["steps"], left)
            words = undone_words(answer, stopped.error.code)
        else:
            words = left_words(answer)
        message = f"stopped at {stopped.step.id!r} ({stopped.step.action}): {stopped.error.message}; {words}"
        code = ask.report(WindwardError(stopped.error.code, message), "plan", settings)
    if unconfirmed := [one for one in answer["steps"] if "unconfirmed" in one]:
        message = f"{unconfirmed[0]['id']!r} is not confirmed: {unconfirmed[0]['unconfirmed']}"
        code = ask.report(WindwardError("ABORTED", message), "plan", settings)
    begun = [(one.step, one.moving) for one in outcomes if one.moving is not None]
    answer["announced"] = announce(settings, begun, "plan") if not (stopped and settings.all_or_nothing) else False
    answer["applied"] = True
    ask.tell(settings, answer, show, indent=2)
    return code


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
