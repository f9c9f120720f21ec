"""``windward update``: move, resize or change the role of an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from schemas.process.settings import SettingsError, load_settings, setting
from scorer.commands import ask
from scorer.commands.request import AmountSettings
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class UpdateSettings(AmountSettings):
    """Move, resize or change the role of a confirmed instance; what is not given stays."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward update db-1 --memory 12G           # resize it",
        "windward update db-1 --move --dry-run       # which machine would be better?",
    )

    id: tuple[str, ...] = setting((), "id of the instance", positional=True)
    machine: str | None = setting(None, "move it to this machine")
    move: bool = setting(False, "move it to the best machine")
    maxmemory: str | None = setting(None, "bytes")
    limits: dict[str, str] | None = setting(None, "limits by resource", metavar="RESOURCE=AMOUNT")
    expected: dict[str, str] | None = setting(None, "expected usage by resource", metavar="RESOURCE=AMOUNT")
    ports: tuple[int, ...] | None = setting(None, "ports")
    role: str | None = setting(None, "role in its cluster")
    swap_role_with: str | None = setting(None, "exchange roles with this instance, as a failover does", metavar="ID")
    cluster_masters: int | None = setting(None, "masters the whole cluster has", metavar="COUNT")
    generation: int | None = setting(None, "which reservation it must be, as `place --json` says", metavar="NUMBER")
    labels: dict[str, str] | None = setting(None, "all labels of the instance", metavar="KEY=VALUE")
    dry_run: bool = setting(False, "only say what would happen")


SETTINGS = UpdateSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Update one instance."""
    settings = load_settings(UpdateSettings, "update", argv, environ)
    params: dict[str, Any] = {"id": ask.one_id(settings.id, "update"), "dry_run": settings.dry_run}
    own = {field.name for field in fields(settings)} - {field.name for field in fields(ClientSettings)} - {"id", "move"}
    params |= {name: value for name in own if (value := getattr(settings, name)) is not None}
    if settings.move:
        if settings.machine:
            raise SettingsError("move: does not go together with machine")
        params["machine"] = ""
    return ask.ask(settings, "update", params, show)[0]


def show(answer: dict[str, Any]) -> str:
    """Return what became of the instance in one line."""
    if answer["repeated"]:
        return f"{answer['id']} on {answer['machine']}: nothing to change"
    moved = f", moved from {answer['moved_from']}" if answer.get("moved_from") else ""
    tried = " (tried only)" if answer["dry_run"] else ""
    return f"{answer['id']} on {answer['machine']}: updated{moved}{tried}"
