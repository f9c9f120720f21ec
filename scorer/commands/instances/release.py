"""``windward release``: end an instance or give a reservation back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from scorer.commands.instances.confirm import StepSettings, run


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(StepSettings):
    """End an instance or give a reservation back. It may be repeated."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward release db-1",)


SETTINGS = ReleaseSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Release one instance."""
    return run(ReleaseSettings, "release", argv, environ)
