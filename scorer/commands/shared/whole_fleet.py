"""Shell: the fleet that a command plans on: the running one, or that of a file.

A planner makes the plans; for the fleet of a file the same code runs here. For ``capacity`` and ``drain --evict`` the
command reads windows and ledger itself, as a scorer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from schemas.process.settings import SettingsError, setting
from schemas.rpc.parameters import PROFILE_LENGTH_MAX
from scorer.client import WindwardError
from scorer.commands.shared import ask
from scorer.commands.shared.request import read_json
from scorer.settings import ClientSettings, LedgerSettings

if TYPE_CHECKING:
    from scorer.ranking.inputs import FleetState
    from scorer.ranking.profiles.profile import Profile

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True)
class FleetSettings(ClientSettings, LedgerSettings):
    """The settings of the fleet that a command computes on, and of the profiles' folder."""

    fleet_file: str | None = setting(
        None, "JSON file that describes the fleet; without it the running one is read", metavar="FILE"
    )
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")

    def fleet(self) -> FleetState:
        """Return the fleet of the file, or the running one; raises SettingsError, or one of `scorer.wire.AWAY`."""
        return _running(self) if self.fleet_file is None else fleet_of_file(self.fleet_file)


def chosen_profile(name: str, files: Sequence[str]) -> Profile:
    """Return a profile by its name or its file; raises SettingsError."""
    from scorer.ranking.profiles.catalogue import load_profiles, read_profile
    from scorer.ranking.profiles.profile import ProfileError

    try:
        return read_profile(Path(name)) if name.endswith(".toml") else load_profiles(files).choose(name)
    except ProfileError as error:
        raise SettingsError(f"profile: {str(error).removeprefix('profile: ')}") from None


def fleet_of_file(path: str) -> FleetState:
    """Return the fleet that a JSON file describes; raises SettingsError."""
    from scorer.commands.shared.fleet_file import InvalidFleet, read_fleet

    try:
        return read_fleet(read_json(path, "fleet_file"))
    except InvalidFleet as error:
        raise SettingsError(f"fleet_file: {path}: {error}") from None


def planned(settings: FleetSettings, profile: str, kind: type[_Kind], method: str, params: dict[str, Any]) -> _Kind:
    """Return a planner's answer; for the fleet of a file the same computed here.

    The query includes the text of a user's profile; with ``apply`` it names the scorers' profile instead, since scorers
    carry the plan out. Raises WindwardError, SettingsError, InvalidRequest.
    """
    if settings.fleet_file is not None:
        return cast("_Kind", _planned_here(settings, profile, method, params))
    named = getattr(settings, "apply", False) and not profile.endswith(".toml")
    if not named and (file := _own_profile(profile, settings.profiles)):
        params = params | {"profile": file.stem, "profile_text": _text(file)}
    else:
        params = params | {"profile": profile}
    return ask.read(settings, kind, method, params)


def _planned_here(settings: FleetSettings, profile: str, method: str, params: dict[str, Any]) -> msgspec.Struct:
    from scorer.planner.drain import planned_drain, read_drain
    from scorer.planner.queries import plan, rebalance
    from scorer.rpc.methods.records import CallError

    inputs = settings.fleet().inputs(chosen_profile(profile, settings.profiles))
    try:
        if method == "drain":
            return planned_drain(read_drain(params), inputs)
        return (plan if method == "plan" else rebalance)(params, lambda *_: inputs)
    except CallError as error:
        raise WindwardError(error.error.code, error.error.message) from None


def _own_profile(name: str, paths: Sequence[str]) -> Path | None:
    """Return the profile's file, if it is a file, or one of the given files."""
    from scorer.ranking.profiles.catalogue import DEFAULT, profile_files

    if name.endswith(".toml"):
        return Path(name)
    return next((file for file in profile_files(paths) if file.stem == (name or DEFAULT)), None)


def _text(file: Path) -> str:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"profile: {file}: cannot be read: {getattr(error, 'strerror', '') or error}") from None
    if len(text) > PROFILE_LENGTH_MAX:
        raise SettingsError(f"profile: {file}: {len(text)} characters, at most {PROFILE_LENGTH_MAX}")
    return text


def _running(settings: LedgerSettings) -> FleetState:
    from scorer.ledger.record.transition import UnknownFormat
    from scorer.live.live_fleet import LiveFleet

    fleet = LiveFleet.open(settings)
    try:
        return fleet.read()
    except UnknownFormat as error:
        raise SettingsError(str(error)) from None
    finally:
        fleet.close()
