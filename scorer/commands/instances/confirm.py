"""``windward confirm``: turn a reservation into an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from schemas.process.settings import setting
from scorer.commands.instances.one_instance import StepSettings, run


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
