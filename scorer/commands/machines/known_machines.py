"""The machines that Redis knows, read without a scorer, and the choice among them by names, globs and selectors.

`write_cordon` cordons by a scorer, or by itself: so an operator can cordon while no scorer runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from schemas.messages.operator import DEFAULT
from schemas.messages.process import read_processes, running
from schemas.messages.sample import Rejected, check_machine_id
from schemas.names import Names
from schemas.process.connections import WindowsSettings
from schemas.process.settings import SettingsError
from schemas.values.near import did_you_mean
from schemas.values.read_json import read_or
from scorer.client import CordonResult, WindwardError
from scorer.commands.machines.operator_facts import Entries, change_operator_facts
from scorer.commands.shared import ask
from scorer.settings import ClientSettings

if TYPE_CHECKING:
    import redis

    from scorer.cluster_wire import WindowsWire


def known_machines(server: redis.Redis, windows: WindowsWire, names: Names) -> dict[str, dict[str, str]]:
    """Return the labels of every machine that has windows, facts or operators' rules, by name."""
    from schemas.values.read_json import partition_count
    from scorer.live.windows_reader import asking, read_windows

    found: dict[str, dict[str, str]] = {}
    partitions = partition_count(server.get(names.partitions)) or 0
    for table in read_windows(windows, names, partitions).windows:
        found.update((machine, {}) for machine in table.machines)
    for flat in asking(windows)([("HGETALL", names.facts(partition)) for partition in range(partitions)]):
        _add_labels(found, dict(zip(flat[::2], flat[1::2], strict=True)))
    for key in (names.nodes, names.operator):
        _add_labels(found, server.hgetall(key))
    found.pop(DEFAULT, None)
    return found


class _Labelled(msgspec.Struct):
    labels: dict[str, str] = {}


def _add_labels(found: dict[str, dict[str, str]], hash_: Any) -> None:
    for name, raw in hash_.items():
        found.setdefault(name.decode(errors="replace"), {}).update(read_or(raw, _Labelled, _Labelled()).labels)


def meant(
    given: Sequence[str], selector: str, known: Mapping[str, Mapping[str, str]], *, ahead: bool | None
) -> list[str]:
    """Return the machines that names, globs and a selector choose (`scorer.planning.which_machines`).

    ``ahead``: whether a name may be that of a future machine; None where the caller does not offer this. Raises
    SettingsError for an invalid name, WindwardError NOT_FOUND for an unknown one unless ``ahead``.
    """
    from schemas.rpc.request import InvalidRequest
    from scorer.planning import which_machines

    def hint(name: str) -> str:
        if ahead is None:
            return did_you_mean(name, known)
        near = did_you_mean(name, known) or "; `windward machines list -o name` has the names"
        return f"{near} (--ahead: it is to come)"

    try:
        return which_machines.meant(given, selector, known, ahead=bool(ahead), hint=hint)
    except which_machines.NoMachine as error:
        raise WindwardError("NOT_FOUND", str(error)) from None
    except InvalidRequest as error:
        raise SettingsError(str(error)) from None


def selects(selector: str, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector holds for one machine; raises SettingsError for one that cannot be read."""
    from schemas.rpc.request import InvalidRequest
    from scorer.planning.which_machines import selected

    try:
        return bool(selected(selector, {name: labels}))
    except InvalidRequest as error:
        raise SettingsError(str(error)) from None


def checked_name(name: str) -> str:
    """Return a valid machine's name; raises SettingsError for any other text."""
    try:
        check_machine_id(name)
    except Rejected as error:
        raise SettingsError(error.detail) from None
    return name


def write_cordon(
    settings: ClientSettings, verb: str, machines: Sequence[str], selector: str = "", *, ahead: bool | None = None
) -> Entries:
    """Cordon the machines that names, globs and a selector choose, or ``uncordon`` them; return their rules.

    ``settings`` also name the windows' server. ``ahead``: as for `meant`. Raises WindwardError, SettingsError.
    """
    params: dict[str, Any] = {"machines": machines, "selector": selector, "ahead": bool(ahead)}
    facts: dict[str, Any] = {"cordon": True} if verb == "cordon" else {"cordon": False, "drain": None}
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
