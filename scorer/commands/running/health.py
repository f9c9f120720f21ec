"""``windward health``: whether a scorer is ready."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from schemas.messages.process import CLOCK_OFF_S
from schemas.process.settings import load_settings
from schemas.process.tables import Screen
from schemas.values.numbers import counted, duration
from scorer.client import HealthResult
from scorer.commands.shared import ask
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class HealthSettings(ClientSettings):
    """Say whether a scorer is ready; exit code 1 when it is not, or degraded. `windward doctor` checks all parts."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward health", "windward health --json")


SETTINGS = HealthSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(HealthSettings, "health", argv, environ), "health", _health)


def _health(settings: HealthSettings) -> int:
    answer = ask.read(settings, HealthResult, "health", {})
    ask.tell(settings, answer, show)
    return ask.OK if answer.ready and not answer.degraded else ask.FAILED


def show(answer: HealthResult, _: Screen | None = None) -> str:
    age, degraded = answer.newest_sample_age_s, answer.degraded
    state = "not ready" if not answer.ready else f"degraded: {degraded}" if degraded else "ready"
    return "\n".join(
        [
            f"{answer.scorer} {answer.version}: {state}"
            + (f"; its clock is {answer.clock_ahead_s:+.1f} s off" if abs(answer.clock_ahead_s) > CLOCK_OFF_S else ""),
            f"{answer.machines_with_data} of {answer.machines} machines have data, the newest "
            + (f"{duration(age)} old" if age is not None else "never seen"),
            f"{counted(answer.instances, 'instance')} in the ledger, change {answer.ledger_change}",
            *(
                f"warning: {what}"
                for what in (answer.ledger_refusal, answer.ledger_unaccepted, answer.ledger_unsafe)
                if what
            ),
            f"profiles: {', '.join(answer.profiles)} (default {answer.profile})",
        ]
    )
