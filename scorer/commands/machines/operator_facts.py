"""Writes operators' rules of machines to Redis: one entry at a time, checked, in one transaction each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.messages.operator import DEFAULT, known_operator_facts, stored, without_empty
from schemas.names import Names
from schemas.process.settings import SettingsError
from schemas.values.near import did_you_mean
from schemas.values.read_json import read_json

if TYPE_CHECKING:
    import redis

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
