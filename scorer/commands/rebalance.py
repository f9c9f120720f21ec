"""``windward rebalance``: which instances should move, and why; of the running fleet, or of a file.

It reads windows and ledger itself (`scorer.commands.whole_fleet`). Nothing is reserved and nothing is moved.

Several rounds are watched by the process that prints (``--rounds``). Rejected: a state in Redis between two runs of the
command. A look would then change what the next one says, and two people would disturb each other. What watches for
ever is the daemon, ``windward rebalancer``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.terminal import screen
from scorer.commands import ask
from scorer.commands.balance_settings import BalanceSettings
from scorer.commands.rebalance_view import plan_answer, show
from scorer.commands.whole_fleet import chosen_profile, whole_fleet
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import AWAY

if TYPE_CHECKING:
    from scorer.commands.fleet_file import OfflineFleet
    from scorer.ranking.profile import Profile
    from scorer.rebalance.world import Plan


@dataclass(frozen=True, kw_only=True)
class RebalanceSettings(ClientSettings, LedgerSettings, BalanceSettings):
    """Say which instances should move so that hot machines cool down; nothing is reserved and nothing is moved.

    By `overload` each move cuts the load that is expected above 90 % of machines, and sees the moves before it. By
    `thresholds` instances leave machines above --high while there is room on machines below --low, by the rules of
    Koordinator's descheduler. An instance with the label movable=false stays. --same names labels that source and
    target must share, beyond what the instances' requests said.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward rebalance                                          # the ten best moves now",
        "windward rebalance --moves-max 50 --same rack --json",
        "windward rebalance --rounds 6 --rounds-over 5 --every 1m    # of machines that stay hot for five minutes",
        "windward rebalance --rule thresholds --high cpu=65,memory=95 --low cpu=45,memory=60",
        "windward rebalance --machines docs/examples/hot.json --plot moves.png",
    )

    machines: str | None = setting(None, "JSON file that describes the fleet; without it the running one is read",
                                   metavar="FILE")  # fmt: skip
    profile: str = setting("", "name of a profile, or a profile file: its filters, its load, its expected use",
                           metavar="NAME")  # fmt: skip
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")
    rounds: Annotated[int, Meta(ge=1, le=10_000)] = setting(
        1, "look so many times and print the last plan: machines that are over only for a moment give nothing"
    )
    every: Annotated[float, Meta(gt=0, le=86_400)] = setting(60.0, "time between two rounds", duration=True)
    plot: str | None = setting(None, "draw the machines concerned, before and after, into this PNG file",
                               metavar="FILE", group="output")  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds > 1 and self.machines is not None:
            raise ValueError("rounds: a file shows one moment; several rounds are of the running fleet")


SETTINGS = RebalanceSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    settings = load_settings(RebalanceSettings, "rebalance", argv, environ)
    profile = settings.balanced(chosen_profile(settings.profile, settings.profiles))
    if settings.rounds > 1 and profile.rebalance.rounds_over >= settings.rounds:
        raise SettingsError(
            f"rounds: a machine gives after more than {profile.rebalance.rounds_over} rounds (rounds_over); "
            f"give --rounds {profile.rebalance.rounds_over + 1} or more, or --rounds-over 1"
        )
    try:
        plan, fleet = planned(settings, profile)
    except AWAY as error:
        return ask.unreachable(settings.redis_url, error, "rebalance", settings)
    answer = plan_answer(plan, profile, fleet)
    if settings.plot:
        _draw(answer, settings.plot)
    print(json.dumps(answer, indent=2) if settings.json else show(answer, screen(wide=settings.wide)))  # noqa: T201
    return ask.OK


def planned(settings: RebalanceSettings, profile: Profile) -> tuple[Plan, OfflineFleet]:
    """Return the plan of the last round, and the fleet it is of; raises one of `scorer.wire.AWAY`."""
    from scorer.rebalance.advice import advice
    from scorer.rebalance.rounds import Rounds, condition_of

    rounds = Rounds(condition_of(profile.rebalance, settings.every)) if settings.rounds > 1 else None
    for left in range(settings.rounds, 0, -1):
        fleet = whole_fleet(settings, settings.machines)
        plan = advice(fleet.snapshot, fleet.ledger, profile, fleet.now_s, rounds=rounds)
        if left > 1:
            time.sleep(settings.every)
    return plan, fleet


def _draw(answer: Mapping[str, Any], path: str) -> None:
    from scorer.commands.rebalance_plot import save_plot

    try:
        save_plot(answer, path)
    except OSError as error:
        raise SettingsError(f"plot: {path} cannot be written: {error}") from None
