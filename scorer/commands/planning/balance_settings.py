"""Settings of rebalancing, for command and daemon: each replaces one of the profile's ``[rebalance]`` table."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from schemas.process.settings import SettingsError, setting

if TYPE_CHECKING:
    from scorer.ranking.profiles.profile import Profile

Count = Annotated[int, Meta(ge=1, le=10_000)]
Part = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=31 * 86_400)]
Percents = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class BalanceSettings:
    """A setting that is not given is the profile's."""

    GROUP: ClassVar[str] = "in place of the profile's [rebalance]"

    rule: Literal["overload", "thresholds"] | None = setting(None, "how the machines that give instances are chosen")
    objective: Literal["overload", "variance"] | None = setting(None, "what a move is judged by")
    gain_min: Part | None = setting(None, "least gain of a move, as a part of a machine of mean size")
    high: Percents = setting({}, "a machine above any of these gives, in per cent", metavar="RESOURCE=PERCENT")
    low: Percents = setting({}, "a machine below all of these takes, in per cent", metavar="RESOURCE=PERCENT")
    prod_high: Percents = setting(
        {}, "with --rule thresholds: the same as high, of the usage by class prod", metavar="RESOURCE=PERCENT"
    )
    prod_low: Percents = setting(
        {}, "with --rule thresholds: the same as low, of the usage by class prod", metavar="RESOURCE=PERCENT"
    )
    deviation: bool | None = setting(None, "high and low are distances from the mean of the fleet")
    rounds_over: Count | None = setting(None, "a machine gives after more rounds in a row above than these; 1: at once")
    rounds_under: Annotated[int, Meta(ge=0, le=10_000)] | None = setting(
        None, "it stops giving after more rounds in a row below than these"
    )
    over_s: Seconds | None = setting(None, "it stops giving so long after it began, too")
    moves_max: Count | None = setting(None, "moves of one plan at most")
    from_machine_max: Count | None = setting(None, "from one machine in an hour at most")
    to_machine_max: Count | None = setting(None, "to one machine in an hour at most")
    cluster_max: Count | None = setting(None, "of one cluster in a plan at most")
    hour_max: Part | None = setting(
        None, "part of the instances that may move in an hour, ten in any fleet; 0: no limit"
    )
    rest_s: Seconds | None = setting(None, "an instance placed or moved less long ago stays")
    classes: tuple[str, ...] = setting((), "priority classes that may move", metavar="CLASS")
    same: tuple[str, ...] = setting((), "labels whose value source and target must share", metavar="LABEL")
    nic_share: Annotated[float, Meta(gt=0, le=1)] | None = setting(None, "part of a NIC that a copy may take")

    def balanced(self, profile: Profile) -> Profile:
        """Return the profile with the settings given here in its place; raises SettingsError naming the setting."""
        names = [field.name for field in dataclasses.fields(BalanceSettings)]
        given = {name: value for name in names if (value := getattr(self, name)) not in (None, {}, ())}
        try:
            return dataclasses.replace(profile, rebalance=profile.rebalance.with_given(given))
        except ValueError as error:
            raise SettingsError(f"{error}; profile {profile.name}, and what is given") from None
