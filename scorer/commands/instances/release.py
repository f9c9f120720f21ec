"""``windward release``: end instances or give reservations back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from schemas.process.settings import setting
from scorer.commands.instances.confirm import StepSettings, run


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(StepSettings):
    """End instances or give reservations back. It may be repeated; --dry-run says which ones are meant."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward release db-1 db-2",
        "windward release 'web-*' --dry-run     # which ones would it end?",
        "windward release --selector app=web",
        "windward release db-1 --failed         # it did not start there: other machines come first for a while",
    )

    failed: bool = setting(False, "their starts failed: their machines come last for a while, if this ends them")


SETTINGS = ReleaseSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return run(ReleaseSettings, "release", argv, environ)
