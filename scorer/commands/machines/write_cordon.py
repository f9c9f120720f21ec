"""Shell: cordons that a scorer writes, or the command itself: so an operator can cordon while no scorer runs."""

import time
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from schemas.messages.process import read_processes, running
from schemas.process.connections import WindowsSettings
from schemas.rpc.request import Draining
from scorer.client import CordonResult, WindwardError
from scorer.commands.machines.known_machines import known_machines, meant
from scorer.commands.machines.operator_facts import Entries, change_operator_facts
from scorer.commands.shared import ask
from scorer.settings import ClientSettings


def write_cordon(
    settings: ClientSettings, verb: str, machines: Sequence[str], selector: str = "", *,
    ahead: bool | None = None, drain: Draining | None = None,
) -> Entries:  # fmt: skip
    """Cordon the machines that names, globs and a selector choose, or ``uncordon`` them; return their rules.

    ``settings`` also name the windows' server. ``ahead``: as for `meant`. ``drain``: the settings by which planners
    empty them from now on. Raises WindwardError, SettingsError.
    """
    params: dict[str, Any] = {"machines": machines, "selector": selector, "ahead": bool(ahead)}
    facts: dict[str, Any] = {"cordon": verb == "cordon"}
    if drain is not None:
        params["drain"] = msgspec.to_builtins(drain)
    if verb == "uncordon" or drain is not None:
        facts["drain"] = params.get("drain")
    if (written := _by_scorer(settings, verb, params)) is not None:
        return written
    with ask.server(settings) as server, ask.open_windows(cast("WindowsSettings", settings)) as windows:
        known = known_machines(server, windows, settings.names)
        return {
            machine: change_operator_facts(server, settings.names, machine, lambda before: before | facts)
            for machine in meant(machines, selector, known, ahead=ahead)
        }


def _by_scorer(settings: ClientSettings, verb: str, params: dict[str, Any]) -> Entries | None:
    """Return the rules that a scorer has written; None where none runs or it refuses, or this user may not ask."""
    from redis.exceptions import NoPermissionError

    with ask.server(settings) as server:
        try:
            fields: Any = server.hgetall(settings.names.processes("scorer"))
        except NoPermissionError:  # a user that may read the fleet, and put no query
            return None
    if not running(read_processes(fields), time.time()):
        return None
    try:
        return dict(ask.read(settings, CordonResult, verb, params).rules)
    except WindwardError:
        return None
