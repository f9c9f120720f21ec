"""``windward release``: end an instance or give a reservation back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.settings import load_settings, setting
from scorer.commands import asking
from scorer.commands.confirm import show
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(ClientSettings):
    """End an instance or give a reservation back. It may be repeated."""

    id: tuple[str, ...] = setting((), "id of the instance", positional=True)
    machine: str = setting("", "where it must be; on another machine this fails")
    dry_run: bool = setting(False, "only say what would happen")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Release one instance."""
    settings = load_settings(ReleaseSettings, "release", argv, environ)
    params = {"id": asking.one_id(settings.id, "release"), "machine": settings.machine, "dry_run": settings.dry_run}
    return asking.ask(settings, "release", params, show)[0]
