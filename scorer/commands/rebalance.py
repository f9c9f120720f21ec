"""``windward rebalance``: which instances should move, and why; of the running fleet, or of a file.

It reads windows and ledger itself (`scorer.commands.whole_fleet`). Nothing is reserved and nothing is moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta

from schemas.process.settings import load_settings, setting
from schemas.process.terminal import screen
from scorer.commands import ask
from scorer.commands.rebalance_view import leaving_answer, plan_answer, show
from scorer.commands.whole_fleet import chosen_profile, whole_fleet
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import AWAY

if TYPE_CHECKING:
    from scorer.commands.fleet_file import OfflineFleet
    from scorer.ranking.profile import Profile

Count = Annotated[int, Meta(ge=1, le=10_000)]
Percents = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class RebalanceSettings(ClientSettings, LedgerSettings):
    """Say which instances should move so that hot machines cool down; nothing is reserved and nothing is moved.

    By `overload` each move cuts the load that is expected above 90 % of machines, and sees the moves before it. By
    `thresholds` instances leave machines above --high while there is room on machines below --low, by the rules of
    Koordinator's descheduler. An instance with the label movable=false stays. --same names labels that source and
    target must share, beyond what the instances' requests said.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward rebalance                                          # the ten best moves now",
        "windward rebalance --moves-max 50 --same rack --json",
        "windward rebalance --rule thresholds --high cpu=65,memory=95 --low cpu=45,memory=60",
        "windward rebalance --machines docs/examples/hot.json        # of a file",
    )

    machines: str | None = setting(None, "JSON file that describes the fleet; without it the running one is read",
                                   metavar="FILE")  # fmt: skip
    profile: str = setting("", "name of a profile, or a profile file: its filters, its load, its expected use",
                           metavar="NAME")  # fmt: skip
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")
    rule: Literal["overload", "thresholds"] = setting("overload", "what a move is judged by")
    moves_max: Count = setting(10, "moves at most")
    from_machine_max: Count = setting(5, "from one machine at most")
    to_machine_max: Count = setting(5, "to one machine at most")
    cluster_max: Count = setting(1, "of one cluster at most")
    gain_min: Annotated[float, Meta(ge=0, le=1)] = setting(
        0.002, "least cut of expected overload by a move, as a part of a machine of mean size"
    )
    rest_s: Annotated[float, Meta(ge=0, le=31 * 86_400)] = setting(
        1800.0, "an instance that came less long ago stays", duration=True
    )
    same: tuple[str, ...] = setting((), "labels whose value source and target must share", metavar="LABEL")
    high: Percents = setting(
        {}, "with --rule thresholds: above it a machine gives, in per cent", metavar="RESOURCE=PERCENT"
    )
    low: Percents = setting({}, "with --rule thresholds: below all of it a machine takes", metavar="RESOURCE=PERCENT")
    deviation: bool = setting(False, "with --rule thresholds: high and low are distances from the mean of the fleet")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "thresholds" and not (self.high and self.low):
            raise ValueError("high: --rule thresholds needs --high and --low, such as --high cpu=65 --low cpu=45")
        if self.rule == "overload" and (self.high or self.low or self.deviation):
            raise ValueError("rule: --high, --low and --deviation are of --rule thresholds")
        from schemas.resources import RESOURCES

        for field, percents in (("high", self.high), ("low", self.low)):
            for name, percent in percents.items():
                if name not in RESOURCES:
                    raise ValueError(f"{field}: no resource {name!r}; there are {', '.join(RESOURCES)}")
                if not 0 <= percent <= 100:
                    raise ValueError(f"{field}.{name}: expected a percentage from 0 to 100, got {percent:g}")
        if self.high.keys() != self.low.keys():
            raise ValueError("high: --high and --low name the same resources")


SETTINGS = RebalanceSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    settings = load_settings(RebalanceSettings, "rebalance", argv, environ)
    try:
        fleet = whole_fleet(settings, settings.machines)
    except AWAY as error:
        return ask.unreachable(settings.redis_url, error, "rebalance", settings)
    answer = _answer(settings, fleet, chosen_profile(settings.profile, settings.profiles))
    print(json.dumps(answer, indent=2) if settings.json else show(answer, screen(wide=settings.wide)))  # noqa: T201
    return ask.OK


def _answer(settings: RebalanceSettings, fleet: OfflineFleet, profile: Profile) -> dict[str, Any]:
    from scorer.rebalance.candidates import Wish
    from scorer.rebalance.leaving import leaving
    from scorer.rebalance.low_node_load import Rules
    from scorer.rebalance.plan import Bounds
    from scorer.rebalance.thresholds import Settings
    from scorer.rebalance.world import rebalance

    wish = Wish(settings.rest_s, settings.same)
    if settings.rule == "thresholds":
        thresholds = Settings(settings.low, settings.high, deviation=settings.deviation)
        rules = Rules(thresholds, condition=None, moves_max=settings.moves_max)
        moves = leaving(fleet.snapshot, fleet.ledger, profile, rules, wish, fleet.now_s)
        return leaving_answer(moves, profile, fleet)
    bounds = Bounds(
        settings.moves_max, settings.from_machine_max, settings.to_machine_max, settings.cluster_max, settings.gain_min
    )
    return plan_answer(rebalance(fleet.snapshot, fleet.ledger, profile, wish, bounds, fleet.now_s), profile, fleet)
