"""Shell: the fleet of commands that compute without a scorer: the running one, or that of a file.

A plan or a count over thousands of machines takes a second, for which a scorer would answer no placements. So such a
command reads windows and ledger itself, as a scorer does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.process.settings import SettingsError, setting
from schemas.values.numbers import counted
from scorer.commands.shared.request import read_json
from scorer.settings import ClientSettings, LedgerSettings

if TYPE_CHECKING:
    from scorer.ranking.fleet_state import FleetState
    from scorer.ranking.profiles.profile import Profile


@dataclass(frozen=True, kw_only=True)
class FleetSettings(ClientSettings, LedgerSettings):
    """Which fleet a command computes on, and where profiles are."""

    fleet_file: str | None = setting(
        None, "JSON file that describes the fleet; without it the running one is read", metavar="FILE"
    )
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")

    def fleet(self) -> FleetState:
        """Return the fleet of the file, or the running one; raises SettingsError, or one of `scorer.wire.AWAY`."""
        return _running(self) if self.fleet_file is None else fleet_of_file(self.fleet_file)


def basis(fleet: FleetState, profile: Profile) -> dict[str, Any]:
    """Return what an answer was computed on, for JSON."""
    return {"profile": profile.name, "machines": len(fleet.snapshot), "instances": len(fleet.ledger)}


def basis_in_words(answer: Mapping[str, Any]) -> str:
    """Return `basis` as text."""
    machines, instances = counted(answer["machines"], "machine"), counted(answer["instances"], "instance")
    return f"{machines}, {instances}, profile {answer['profile']}"


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
