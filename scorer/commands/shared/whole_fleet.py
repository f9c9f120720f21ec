"""Shell: the fleet of commands that compute without a scorer: the running one, or that of a file.

A plan or a count over thousands of machines takes a second, for which a scorer would answer no placements. So such a
command reads windows and ledger itself, as a scorer does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from schemas.process.settings import SettingsError
from scorer.commands.shared.request import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scorer.ranking.fleet_state import FleetState
    from scorer.ranking.profiles.profile import Profile
    from scorer.settings import LedgerSettings


def whole_fleet(settings: LedgerSettings, file: str | None) -> FleetState:
    """Return the fleet of a file, or the running one; raises SettingsError, or one of `scorer.wire.AWAY`."""
    return _running(settings) if file is None else _of_file(file)


def chosen_profile(name: str, files: Sequence[str]) -> Profile:
    """Return a profile by its name or its file; raises SettingsError."""
    from scorer.ranking.profiles.catalogue import load_profiles, read_profile
    from scorer.ranking.profiles.profile import ProfileError

    try:
        return read_profile(Path(name)) if name.endswith(".toml") else load_profiles(files).choose(name)
    except ProfileError as error:
        raise SettingsError(f"profile: {error}") from None


def _of_file(path: str) -> FleetState:
    from scorer.commands.shared.fleet_file import InvalidFleet, read_fleet

    try:
        return read_fleet(read_json(path, "machines"))
    except InvalidFleet as error:
        raise SettingsError(f"machines: {path}: {error}") from None


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
