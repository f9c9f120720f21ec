"""Shell: what a scorer answers to a query of operators, for commands that can do without one.

A command asks a scorer where one runs: a second copy of windows and ledger is not read, and the plan is by the scorer's
own profiles. Where none runs, or where it refuses or is too busy, the command does the same by itself, on what it reads
from Redis; so an operator can work while no scorer does.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from schemas.process.settings import SettingsError
from scorer.client import HealthResult, WindwardError
from scorer.commands.shared import ask
from scorer.settings import ClientSettings

if TYPE_CHECKING:
    import redis

    from scorer.commands.shared.whole_fleet import FleetSettings

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


def check_profile(settings: FleetSettings, name: str) -> None:
    """Raise SettingsError where neither this process nor a scorer has a profile of this name."""
    from scorer.commands.shared.whole_fleet import chosen_profile

    try:
        chosen_profile(name, settings.profiles)
    except SettingsError:
        with ask.server(settings) as server:
            health = by_scorer(settings, server, HealthResult, "health", {})
        if health is None or name not in health.profiles:
            raise


def planned_by_scorer(
    settings: FleetSettings, profile: str, kind: type[_Kind], method: str, params: dict[str, Any]
) -> _Kind | None:
    """Return the plan that a scorer makes; None where the command has to make it by itself.

    The fleet of a file, a profile's file and profiles of one's own are read by the command: a scorer has its own.
    """
    if settings.fleet_file is not None or settings.profiles or profile.endswith(".toml"):
        return None
    with ask.server(settings) as server:
        return by_scorer(settings, server, kind, method, {"profile": profile, **params})


def by_scorer(
    settings: ClientSettings, server: redis.Redis, kind: type[_Kind], method: str, params: dict[str, Any]
) -> _Kind | None:
    """Return what a scorer answers; None where no scorer runs, where it refuses, or where it may not be asked.

    ``server``: a connection to the server of the queries, which has the scorers' heartbeats.
    """
    from redis.exceptions import NoPermissionError

    from schemas.messages.process import read_processes, running

    try:
        fields: Any = server.hgetall(settings.names.processes("scorer"))
    except NoPermissionError:  # a user that may read the fleet, and put no query
        return None
    if not running(read_processes(fields), time.time()):
        return None
    try:
        return ask.read(settings, kind, method, params)
    except WindwardError:
        return None
