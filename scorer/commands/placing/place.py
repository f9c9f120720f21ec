"""``windward place``: choose a machine and reserve it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Screen
from schemas.resources import RESOURCES
from schemas.rpc.request import Request, read_request
from schemas.values.numbers import counted, duration
from scorer.client import Line, PlaceResult
from scorer.commands.placing.ranked import candidates, in_words
from scorer.commands.shared import ask
from scorer.commands.shared.request import RequestSettings


@dataclass(frozen=True, kw_only=True)
class PlaceSettings(RequestSettings):
    """Choose a machine and reserve it; the reservation expires unless it is confirmed."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward place --cpu 2 --memory 10G --id db-1         # one instance, reserved for 5 minutes",
        "windward place --cpu 500m --memory 2Gi --count 20     # twenty in one call",
        "windward place --cpu 2 --memory 10G --ttl-s 1h --selector 'zone in (zone-1, zone-2)' --dry-run",
        "windward place --query docs/examples/query.json --json",
    )

    best_effort: bool = setting(False, "place an instance that requests no amount, or not each of cpu and memory")
    ttl_s: float | None = setting(None, f"lifetime of the reservation (default {duration(Request().ttl_s)})")
    count: Annotated[int, Meta(ge=1)] | None = setting(None, "identical instances (default 1)")
    all_or_nothing: bool | None = setting(None, "reserve all of them or none")
    machines_max: int | None = setting(None, "at most so many different machines", metavar="COUNT")
    machines_min: int | None = setting(None, "at least so many different machines", metavar="COUNT")
    dry_run: bool | None = setting(None, "reserve nothing")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(PlaceSettings, "place", argv, environ), "place", _place)


def _place(settings: PlaceSettings) -> int:
    params, unasked = settings.request(), list[str]()
    if "instances" not in params:
        request = read_request(params)
        if not any(request.amounts()) and not request.maxmemory and not settings.best_effort:
            raise SettingsError("no amount is requested: give --cpu and --memory (or --best-effort)")
        unasked = [] if settings.best_effort else _unasked(request)
    answer = ask.read(settings, PlaceResult, "place", params)
    unknown = ask.no_such_machine(settings, settings.machine) if answer.missing else []
    answer.warnings = [*answer.warnings, *unasked, *unknown]
    ask.tell(settings, answer, show)
    return ask.NO_MACHINE if answer.missing else ask.OK


def _unasked(request: Request) -> list[str]:
    """Return a warning where cpu or memory is not requested: the ledger reserves none for the instance."""
    given = {name: bool(amount) for name, amount in zip(RESOURCES, request.amounts(), strict=True)}
    given["memory"] = given["memory"] or bool(request.maxmemory)
    return [
        f"no {name} is asked: no room of it is kept, unless the profile has a default (give --{name} or --best-effort)"
        for name in ("cpu", "memory")
        if not given[name]
    ]


def show(answer: PlaceResult, screen: Screen | None = None) -> str:
    """Return the answer for people: the placements, the best machines, the reasons of refusals."""
    lines = []
    placed, tried = answer.placed, "would be placed" if answer.dry_run else "placed"
    if answer.asked == 1 and placed:
        state = "" if answer.dry_run else f": {placed[0].state}{_until(placed[0])}"
        again = " (as before)" if answer.repeated else ""
        lines.append(f"{placed[0].id} {tried} on {placed[0].machine}{state}{again}")
    elif answer.asked == 1:
        lines.append("no machine fits")
    else:
        first = min(placed, key=lambda one: one.expires_at or float("inf"), default=None)
        state = "" if answer.dry_run or not first or not (until := _until(first)) else f": reserved{until}"
        lines.append(f"{len(placed)} of {counted(answer.asked, 'instance')} {tried}{state}")
        on: dict[str, list[str]] = {}
        for one in placed:
            on.setdefault(one.machine, []).append(one.id)
        lines += [
            f"  {machine}  {len(ids)}  {' '.join(ids[:6])}{' ...' if len(ids) > 6 else ''}"
            for machine, ids in on.items()
        ]
    if answer.candidates:
        lines += ["", candidates(answer, screen), ""]
        if answer.asked == 1 and (words := in_words(answer, screen)):
            lines += [*words, ""]
    several = answer.missing if answer.asked > 1 else 0
    lines += [answer.summary] * (not several or answer.summary != answer.reason)
    lines += [f"{several} missing: {answer.reason}"] * bool(several)
    if answer.conflicts:
        lines.append(f"{answer.conflicts} candidates were lost to other scorers")
    lines += [f"warning: {warning}" for warning in answer.warnings]
    return "\n".join(lines)


def _until(line: Line) -> str:
    """Return how long a reservation holds; "" for an instance that runs."""
    ends, began = line.expires_at, line.reserved_at
    return f" for {duration(ends - began)}" if line.state == "reserved" and ends and began else ""


SETTINGS = PlaceSettings
