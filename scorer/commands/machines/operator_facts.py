"""Writes operators' rules of machines to Redis: one entry at a time, checked, in one transaction each.

The machines are those that Redis knows, read without a scorer, chosen by names, globs and selectors.
`write_cordon` cordons by a scorer, or by itself: so an operator can cordon while no scorer runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from schemas.messages.operator import DEFAULT, known_operator_facts, stored, without_empty
from schemas.messages.process import read_processes, running
from schemas.messages.sample import Rejected, check_machine_id
from schemas.names import Names
from schemas.process.connections import WindowsSettings
from schemas.process.settings import SettingsError
from schemas.values.near import did_you_mean
from schemas.values.read_json import read_json, read_or
from scorer.client import CordonResult, WindwardError
from scorer.commands.shared import ask
from scorer.settings import ClientSettings

if TYPE_CHECKING:
    import redis

    from scorer.cluster_wire import WindowsWire


Change = Callable[[dict[str, Any]], dict[str, Any]]
Entries = dict[str, dict[str, Any]]
"""Operators' rules by machine."""
TRIES = 20


def change_operator_facts(server: redis.Redis, names: Names, machine: str, change: Change) -> dict[str, Any]:
    """Change one entry in a transaction and return it.

    Raises SettingsError naming the field.
    """

    def changed(entries: Entries) -> Entries:
        before = entries[machine]
        facts = without_empty(change(before))
        _, unread_before = known_operator_facts(before)
        _, unread = known_operator_facts(facts)
        if wrong := [one for one in unread if one not in unread_before]:
            raise SettingsError(f"{machine if machine != DEFAULT else 'all machines'}: {wrong[0]}")
        return {machine: facts}

    return rewrite(server, names, [machine], changed)[machine]


def rewrite(
    server: redis.Redis, names: Names, machines: Sequence[str], change: Callable[[Entries], Entries]
) -> Entries:
    """Change the entries of some machines in one transaction, with retries on conflicts; return them.

    An empty entry is deleted.
    """
    import redis

    for _ in range(TRIES):
        with server.pipeline() as pipe:
            pipe.watch(names.operator)  # type: ignore[no-untyped-call]
            before = {name: read_json(pipe.hget(names.operator, name) or b"{}") for name in machines}
            after = change(before)
            pipe.multi()
            for machine, facts in after.items():
                if (raw := stored(facts)) is not None:
                    pipe.hset(names.operator, machine, raw)
                else:
                    pipe.hdel(names.operator, machine)
            tell_change(pipe, names)
            try:
                pipe.execute()
            except redis.WatchError:
                continue
            return after
    raise SettingsError(f"{machines[0]}: changed by others {TRIES} times in a row")


def tell_change(pipe: Any, names: Names) -> None:
    """Queue the command that makes scorers read the operators' rules again, at once."""
    pipe.incr(names.operator_version)
    pipe.publish(names.changed, "")


def labelled(facts: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
    """Return an entry with labels set (``KEY=VALUE``) and removed (``KEY-``)."""
    labels = dict(facts.get("labels", {}))
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals and key:
            labels[key] = value
        elif argument.endswith("-") and len(argument) > 1:
            labels.pop(argument[:-1], None)
        else:
            raise SettingsError(f"{argument!r} is neither KEY=VALUE nor KEY-")
    return facts | {"labels": labels}


def tainted(facts: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
    """Return an entry with taints set (``KEY[=VALUE]:EFFECT``) and removed (``KEY-``)."""
    taints = list(facts.get("taints", []))
    for argument in arguments:
        if argument.endswith("-") and len(argument) > 1:
            taints = [taint for taint in taints if taint["key"] != argument[:-1]]
            continue
        what, colon, effect = argument.rpartition(":")
        key, _, value = what.partition("=")
        if not colon or not key or effect not in ("refuse", "avoid"):
            effect = {"NoSchedule": "refuse", "NoExecute": "refuse", "PreferNoSchedule": "avoid"}.get(effect, effect)
            hint = did_you_mean(effect, ["refuse", "avoid"]) if colon and key else ""
            raise SettingsError(f"{argument!r} is neither KEY[=VALUE]:refuse, KEY[=VALUE]:avoid nor KEY-{hint}")
        taints = [taint for taint in taints if taint["key"] != key]
        taints.append({"key": key, "value": value, "effect": effect})
    return facts | {"taints": taints}


_AS_IN = """; as in `windward machines set NAME '{"thresholds": {"cpu": 0.8}}'`"""


def replaced(facts: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
    """Return an entry updated by the fields of a JSON object; null removes a field, or a key of one.

    >>> replaced({"reserve": {"cpu": 1, "memory": "8G"}, "cordon": True}, ['{"reserve": {"memory": null}}'])
    {'reserve': {'cpu': 1}, 'cordon': True}
    >>> replaced({"share": {"cpu": 0.5}}, ['{"share": {"memory": 0.9}}'])
    {'share': {'memory': 0.9}}
    """
    try:
        given = json.loads(" ".join(arguments))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the last argument is not JSON: {error}{_AS_IN}") from None
    if not isinstance(given, dict):
        raise SettingsError(f"the last argument: expected a JSON object{_AS_IN}")
    return facts | {name: _without_nulls(facts.get(name), value) for name, value in given.items()}


def _without_nulls(before: Any, value: Any) -> Any:
    """Return a field's new value: a group replaces the former one, or changes it where the group contains a null."""
    if not isinstance(value, dict) or None not in value.values():
        return value
    kept = before if isinstance(before, dict) else {}
    return {key: one for key, one in {**kept, **value}.items() if one is not None}


def in_words(facts: Mapping[str, Any]) -> str:
    """Return an entry for people.

    >>> in_words({"cordon": True, "labels": {"disk": "ssd"}}), in_words({})
    ('cordoned, label disk=ssd', "no operators' rules")
    """
    words = ["cordoned"] * bool(facts.get("cordon"))
    words += ["being drained"] * bool(facts.get("cordon") and facts.get("drain"))
    words += [f"label {key}={value}" for key, value in facts.get("labels", {}).items()]
    for taint in facts.get("taints", ()):
        value = f"={taint['value']}" if taint.get("value") else ""
        words.append(f"taint {taint['key']}{value}:{taint.get('effect', 'refuse')}")
    known = ("cordon", "drain", "labels", "taints")
    words += [f"{name} {json.dumps(value)}" for name, value in facts.items() if name not in known]
    return ", ".join(words) or "no operators' rules"


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
    InvalidRequest for an invalid name, WindwardError NOT_FOUND for an unknown one unless ``ahead``.
    """
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


def selects(selector: str, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector holds for one machine; raises InvalidRequest for one that cannot be read."""
    from scorer.planning.which_machines import selected

    return bool(selected(selector, {name: labels}))


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

    ``settings`` also name the windows' server. ``ahead``: as for `meant`. Raises WindwardError, InvalidRequest.
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
