"""Settings of the planner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_origin, get_type_hints

from msgspec import Meta

from schemas.process.settings import SettingsError, setting
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.settings import AnsweringSettings

if TYPE_CHECKING:
    from scorer.ranking.profiles.profile import Profile

_PROFILES_ALONE = ("instances_full", "weights", "machines_min")
_FIELDS = [field for field in dataclasses.fields(Rebalancing) if field.name not in _PROFILES_ALONE]
_HINTS = get_type_hints(Rebalancing)


def _flag(name: str) -> Any:
    """Return the type of an optional flag."""
    kind = _HINTS[name]
    return (dict[str, float] if get_origin(kind) is Mapping else kind) | None


if TYPE_CHECKING:
    BalanceSettings = object
else:
    BalanceSettings = dataclasses.make_dataclass(
        "BalanceSettings",
        [(field.name, _flag(field.name), setting(None, **field.metadata)) for field in _FIELDS],
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": "A setting that is not given is the profile's.",
            "GROUP": "in place of the profile's [rebalance]",
        },
    )


def given(settings: Any) -> dict[str, Any]:
    return {field.name: value for field in _FIELDS if (value := getattr(settings, field.name)) is not None}


def balanced(profile: Profile, settings: Any) -> Profile:
    """Return the profile with its settings replaced by the given ones; raises SettingsError naming one."""
    try:
        return dataclasses.replace(profile, rebalance=profile.rebalance.with_given(given(settings)))
    except ValueError as error:
        raise SettingsError(f"{error}; profile {profile.name}, and what is given") from None


Duration = Annotated[float, Meta(gt=0, le=86_400)]


@dataclass(frozen=True, kw_only=True)
class PlannerSettings(AnsweringSettings, BalanceSettings):
    """Answer what takes long (drain, plan, rebalance, capacity, long lists), and propose moves on a Redis list.

    Scorers leave such queries to it. Any number may run: each query is answered by one. One holds the lease of the
    rounds of rebalancing and proposes moves away from overloaded machines; another program carries them out.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward planner --redis-url redis://server:6379/0 --metrics-port 9467",
        "windward planner --every 5m --rounds-over 3 --moves-max 5 --hour-max 0.0015",
    )

    refresh_s: Annotated[float, Meta(ge=0.005, le=60)] = setting(0.25, "shortest time between two reads of the windows")
    drain_s: Annotated[float, Meta(ge=0, le=86_400)] = setting(
        30.0, "how often what stays on machines that are being drained is planned again; 0: never"
    )
    every: Annotated[float, Meta(ge=0, le=86_400)] = setting(
        60.0, "time between two rounds of rebalancing; 0: this planner does none", duration=True
    )
    lease_s: Annotated[float, Meta(ge=0.1, le=86_400)] = setting(
        30.0, "how long the lease holds unless renewed; after a kill another process does the rounds when this is over"
    )
    proposal_s: Duration = setting(600.0, "how long a proposed move may be begun")
    ack_s: Duration = setting(300.0, "a move that was taken and not acknowledged for so long is delivered again")
