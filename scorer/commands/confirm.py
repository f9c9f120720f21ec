"""``windward confirm``: turn a reservation into an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from scorer.commands.one_instance import StepSettings, run


@dataclass(frozen=True, kw_only=True)
class ConfirmSettings(StepSettings):
    """Turn a reservation into an instance. It may be repeated."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward confirm db-1",)


SETTINGS = ConfirmSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Confirm one instance."""
    return run(ConfirmSettings, "confirm", argv, environ)
