"""``windward confirm``: turn a reservation into an instance. ``windward release`` has the same settings and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from schemas.process.settings import load_settings, setting
from schemas.process.tables import Screen
from scorer.client import ConfirmResult
from scorer.commands.shared import ask
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class StepSettings(ClientSettings):
    """The instance of the call; the call may be repeated."""

    id: tuple[str, ...] = setting((), "id of the reservation or instance", positional=True)
    machine: str = setting("", "where it must be; on another machine this fails")
    generation: int | None = setting(None, "which reservation it must be, as `place --json` says", metavar="NUMBER")
    dry_run: bool = setting(False, "only say what would happen")


@dataclass(frozen=True, kw_only=True)
class ConfirmSettings(StepSettings):
    """Turn a reservation into an instance. It may be repeated.

    With --machine, the machine that a moving instance goes to, it is there and has left the other.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward confirm db-1",
        "windward confirm db-1 --machine m2     # its move to m2 is done",
    )

    move: int | None = setting(None, "which move it must be, as `update --move --json` says", metavar="NUMBER")


SETTINGS = ConfirmSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Confirm one instance."""
    return run(ConfirmSettings, "confirm", argv, environ)


def run(kind: type[StepSettings], method: str, argv: list[str], environ: Mapping[str, str]) -> int:
    """Call the method; return the exit code."""
    settings = load_settings(kind, method, argv, environ)
    params: dict[str, Any] = {"machine": settings.machine, "dry_run": settings.dry_run}
    params["id"] = ask.one_id(settings.id, method)
    for name in ("generation", "move"):
        if (value := getattr(settings, name, None)) is not None:
            params[name] = value
    return ask.ask(settings, ConfirmResult, method, params, show)[0]


def show(answer: ConfirmResult, _: Screen | None = None) -> str:
    """Return the instance in one line."""
    notes = [note for note, holds in (("as before", answer.repeated), ("tried only", answer.dry_run)) if holds]
    line = f"{answer.id} on {answer.machine}: {answer.state}"
    return f"{line} ({', '.join(notes)})" if notes else line
