"""``windward confirm``: turn a reservation into an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.settings import load_settings, setting
from scorer.commands import asking
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class ConfirmSettings(ClientSettings):
    """Turn a reservation into an instance. It may be repeated."""

    id: tuple[str, ...] = setting((), "id of the reservation", positional=True)
    machine: str = setting("", "where it must be; on another machine this fails")
    dry_run: bool = setting(False, "only say what would happen")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Confirm one instance."""
    settings = load_settings(ConfirmSettings, "confirm", argv, environ)
    params = {"id": asking.one_id(settings.id, "confirm"), "machine": settings.machine, "dry_run": settings.dry_run}
    return asking.ask(settings, "confirm", params, show)[0]


def show(answer: dict[str, Any]) -> str:
    """Return the instance in one line."""
    notes = [note for note, holds in (("as before", answer["repeated"]), ("tried only", answer["dry_run"])) if holds]
    line = f"{answer['id']} on {answer['machine']}: {answer['state']}"
    return f"{line} ({', '.join(notes)})" if notes else line
