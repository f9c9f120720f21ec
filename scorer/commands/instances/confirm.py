"""``windward confirm``: turn a reservation into an instance. ``windward release`` has the same settings and output."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, ClassVar

import msgspec

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Screen, readable
from schemas.values.globs import is_glob
from schemas.values.numbers import counted
from scorer.client import Client, ConfirmResult, InstanceRow, WindwardError
from scorer.commands.machines.operator_facts import selects
from scorer.commands.shared import ask
from scorer.ledger.record.facets import named
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class StepSettings(ClientSettings):
    """The instances of the calls; each call may be repeated."""

    id: tuple[str, ...] = setting((), "ids of reservations or instances, or globs", positional=True)
    selector: str = setting("", "those whose labels, cluster, role or kind this selects, as `app=web,tier in (a, b)`")
    machine: str = setting("", "where it must be; on another machine this fails")
    generation: int | None = setting(None, "which reservation it must be, as `place --json` says", metavar="NUMBER")
    dry_run: bool = setting(False, "only say what would happen")


@dataclass(frozen=True, kw_only=True)
class ConfirmSettings(StepSettings):
    """Turn reservations into instances. It may be repeated; --dry-run lists the chosen ones.

    A glob or --selector picks reservations; failures are listed, the rest go on.
    --machine TARGET confirms a move: the instance is on its target, and the source is free.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward confirm db-1",
        "windward confirm db-1 --machine m2     # its move to m2 is done",
        "windward confirm 'web-*' --dry-run     # which ones would it confirm?",
        "windward confirm --selector app=web    # all reservations with this label",
    )

    move: int | None = setting(None, "which move it must be, as `update --move --json` says", metavar="NUMBER")


SETTINGS = ConfirmSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return run(ConfirmSettings, "confirm", argv, environ)


def run(kind: type[StepSettings], method: str, argv: list[str], environ: Mapping[str, str]) -> int:
    """Call the method for each chosen instance; return the largest exit code."""
    return ask.run(load_settings(kind, method, argv, environ), method, partial(_each, method))


def _each(method: str, settings: StepSettings) -> int:
    params: dict[str, Any] = {"machine": settings.machine, "dry_run": settings.dry_run}
    for name in ("generation", "move", "failed"):
        if (value := getattr(settings, name, None)) is not None:
            params[name] = value
    code = ask.OK
    with ask.client(settings) as scorer:
        meant, already = _meant(scorer, method, settings)
        if already and not settings.json:
            sys.stderr.write("".join(f"{readable(line)}\n" for line in already))
        if len(meant) > 1 and (wrong := {"generation", "move"} & params.keys()):
            raise SettingsError(f"{min(wrong)}: is of one instance, and {len(meant)} are meant")
        for one in meant:
            try:
                answer = msgspec.convert(scorer.call(method, params | {"id": one}), ConfirmResult)
            except WindwardError as error:
                code = max(code, ask.report(error, method, settings))
                if code == ask.NO_ANSWER:
                    break
            else:
                ask.tell(settings, answer, show)
    if len(meant) > 1 and not settings.json:
        sys.stderr.write(f"{counted(len(meant), 'instance')}{': tried only' * settings.dry_run}\n")
    return code


def _meant(scorer: Client, method: str, settings: StepSettings) -> tuple[list[str], list[str]]:
    """Return the ids that words, globs and the selector choose, and lines on those that need no call.

    Raises WindwardError where a glob or the selector of ``confirm`` chooses no instance.
    """
    if not settings.id and not settings.selector:
        raise SettingsError(f"id: expected one or more, or --selector, as in `windward {method} ID`")
    if "*" in settings.id:
        raise SettingsError(f"id: '*' would {method} everything; name ids, globs or --selector")
    found, already = list[str](), list[str]()
    there: list[InstanceRow] | None = None
    for word in (*settings.id, *[None] * bool(settings.selector)):
        if word is not None and not is_glob(word):
            found.append(word)
            continue
        there = ask.every_instance(scorer) if there is None else there
        matching = [
            one
            for one in there
            if (fnmatchcase(one.id, word) if word else selects(settings.selector, one.machine, named(one)))
        ]
        left = [one.id for one in matching if method == "release" or one.state == "reserved"]
        what = word or settings.selector
        if method == "confirm" and not matching:
            raise WindwardError("NOT_FOUND", f"no reservation matches {what!r}; there are {len(there)} instances")
        if len(left) < len(matching):
            already.append(f"{counted(len(matching) - len(left), 'instance')} of {what!r}: confirmed already")
        if not matching:
            already.append(f"no instance matches {what!r}: released already, or never there; there are {len(there)}")
        found += left
    return list(dict.fromkeys(found)), already


def show(answer: ConfirmResult, _: Screen | None = None) -> str:
    notes = [note for note, holds in (("already", answer.repeated), ("tried only", answer.dry_run)) if holds]
    line = f"{answer.id} on {answer.machine}: {answer.state}"
    return f"{line} ({', '.join(notes)})" if notes else line
