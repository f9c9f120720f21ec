"""Settings of rebalancing, for command and daemon: each replaces one of the profile's ``[rebalance]`` table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from schemas.process.settings import SettingsError, setting
from scorer.ranking.profiles.rebalance_section import Rebalancing

if TYPE_CHECKING:
    from scorer.ranking.profiles.profile import Profile

_PROFILES_ALONE = ("instances_full", "weights", "machines_min")
_FIELDS = [field for field in dataclasses.fields(Rebalancing) if field.name not in _PROFILES_ALONE]
_HINTS = get_type_hints(Rebalancing)


def _flag(name: str) -> Any:
    """Return the type of a flag that may be left out."""
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
    """Return the settings that are given, by name."""
    return {field.name: value for field in _FIELDS if (value := getattr(settings, field.name)) is not None}


def balanced(profile: Profile, settings: Any) -> Profile:
    """Return the profile with the settings that are given in place of its own; raises SettingsError naming one."""
    try:
        return dataclasses.replace(profile, rebalance=profile.rebalance.with_given(given(settings)))
    except ValueError as error:
        raise SettingsError(f"{error}; profile {profile.name}, and what is given") from None
