"""``windward machines``: what the scorer sees of the machines, and what operators say of them.

    windward machines [list] [--labels rack=a]
    windward machines show NAME
    windward machines label NAME KEY=VALUE ... KEY- ...
    windward machines taint NAME KEY[=VALUE]:refuse|avoid ... KEY- ...
    windward machines cordon NAME ...          windward machines uncordon NAME ...
    windward machines set NAME '{"reserve": {"memory": "8G"}}'     (null removes a field)
    windward machines forget NAME

NAME ``*`` stands for all machines. What is written here wins over what an agent says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import redis
from msgspec import Meta
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.names import Names
from schemas.operator import DEFAULT, InvalidOperatorFacts, OperatorFacts, read_operator_facts
from schemas.sample import Rejected, check_machine_id
from schemas.settings import SettingsError, load_settings, setting
from scorer.client import WindwardError
from scorer.commands import asking
from scorer.settings import ClientSettings
from scorer.wire import AWAY

_TRIES = 20


@dataclass(frozen=True, kw_only=True)
class MachinesSettings(ClientSettings):
    """List, show, label, taint, cordon machines."""

    words: tuple[str, ...] = setting(
        (), "list (default), show, label, taint, cordon, uncordon, set or forget, and what it takes", positional=True
    )
    labels: dict[str, str] = setting({}, "with list: only those with these labels", metavar="KEY=VALUE")
    profile: str = setting("", "with list and show: load as this profile sees it")
    limit: Annotated[int, Meta(ge=1, le=10_000)] = setting(1000, "with list: at most so many")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Do what the first word says."""
    settings = load_settings(MachinesSettings, "machines", argv, environ, __doc__ or "")
    verb, *rest = settings.words or ("list",)
    if verb == "list" and not rest:
        params = {"labels": settings.labels, "profile": settings.profile, "limit": settings.limit}
        return asking.ask(settings, "machines", params, show)[0]
    if verb == "show" and len(rest) == 1:
        params = {"names": rest, "profile": settings.profile}
        return asking.ask(settings, "machines", params, lambda a: json.dumps(a["machines"][0], indent=2))[0]
    changes: dict[str, Callable[[dict[str, Any], list[str]], dict[str, Any]]] = {
        "label": _label, "taint": _taint, "cordon": lambda facts, _: facts | {"cordon": True},
        "uncordon": lambda facts, _: facts | {"cordon": False}, "set": _set, "forget": lambda _, __: {},
    }  # fmt: skip
    if verb not in changes or not rest:
        raise SettingsError(
            f"words: {' '.join(settings.words)!r} is none of list, show, label, taint, cordon, uncordon, set, forget"
        )
    names = rest if verb in ("cordon", "uncordon", "forget") else rest[:1]
    arguments = [] if len(names) > 1 else rest[1:]
    if verb in ("label", "taint", "set") and not arguments:
        raise SettingsError(f"words: {verb} what? See windward machines --help")
    return _write(settings, names, lambda facts: changes[verb](facts, arguments))


def _write(settings: MachinesSettings, machines: list[str], change: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    for machine in machines:
        try:
            check_machine_id(machine)
        except Rejected as error:
            raise SettingsError(f"words: {error.detail}") from None
    after: dict[str, Any] = {}
    try:
        with redis.Redis.from_url(**settings.redis_arguments(), retry=Retry(NoBackoff(), 0)) as server:
            for machine in machines:
                after[machine] = change_operator_facts(server, settings.names, machine, change)
    except AWAY as error:
        return asking.report(
            WindwardError("UNAVAILABLE", f"no connection to {settings.redis_url}: {error}"), "machines"
        )
    lines = [f"{machine}: {json.dumps(facts) if facts else 'nothing said'}" for machine, facts in after.items()]
    print(json.dumps(after) if settings.json else "\n".join(lines))  # noqa: T201
    return asking.OK


def change_operator_facts(
    server: redis.Redis, names: Names, machine: str, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Change one entry, checked, as one step: somebody else's change in between makes it start again.

    Raises SettingsError naming the field.
    """
    for _ in range(_TRIES):
        with server.pipeline() as pipe:
            pipe.watch(names.operator)  # type: ignore[no-untyped-call]
            raw = pipe.hget(names.operator, machine)
            before = msgspec.json.decode(raw) if raw else {}
            facts = {name: value for name, value in change(before).items() if value not in (None, {}, [], False)}
            try:
                checked: OperatorFacts = read_operator_facts(facts)
            except InvalidOperatorFacts as error:
                raise SettingsError(f"{machine if machine != DEFAULT else 'all machines'}: {error}") from None
            pipe.multi()
            if facts:
                pipe.hset(names.operator, machine, msgspec.json.encode(checked))
            else:
                pipe.hdel(names.operator, machine)
            pipe.incr(names.operator_version)
            try:
                pipe.execute()
            except redis.WatchError:
                continue
            return facts
    raise SettingsError(f"{machine}: changed by others {_TRIES} times in a row")


def _label(facts: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
    labels = dict(facts.get("labels", {}))
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals and key:
            labels[key] = value
        elif argument.endswith("-") and len(argument) > 1:
            labels.pop(argument[:-1], None)
        else:
            raise SettingsError(f"words: {argument!r} is neither KEY=VALUE nor KEY-")
    return facts | {"labels": labels}


def _taint(facts: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
    taints = list(facts.get("taints", []))
    for argument in arguments:
        if argument.endswith("-") and len(argument) > 1:
            taints = [taint for taint in taints if taint["key"] != argument[:-1]]
            continue
        what, colon, effect = argument.rpartition(":")
        key, _, value = what.partition("=")
        if not colon or not key or effect not in ("refuse", "avoid"):
            raise SettingsError(f"words: {argument!r} is neither KEY[=VALUE]:refuse, KEY[=VALUE]:avoid nor KEY-")
        taints = [taint for taint in taints if taint["key"] != key]
        taints.append({"key": key, "value": value, "effect": effect})
    return facts | {"taints": taints}


def _set(facts: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
    try:
        given = json.loads(" ".join(arguments))
    except ValueError as error:
        raise SettingsError(f"words: not JSON: {error}") from None
    if not isinstance(given, dict):
        raise SettingsError("words: expected a JSON object")
    return facts | given


def show(answer: dict[str, Any]) -> str:
    """Return a table."""
    rows = []
    for one in answer["machines"]:
        cpu, memory, nic = (one["resources"][name] for name in ("cpu", "memory", "nic"))
        notes = ["cordoned"] * one["cordon"] + ["warming"] * one["warming"] + ["no data"] * (not one["has_data"])
        rows.append(
            [
                one["machine"], asking.number(cpu["mean"]), asking.number(cpu["std"]),
                asking.number(cpu["allocatable"], 0),
                asking.ratio(cpu["utilization"]), asking.size(memory["mean"]), asking.size(memory["allocatable"]),
                asking.ratio(memory["utilization"]), asking.ratio(nic["utilization"]), str(one["instances"]),
                asking.number(one["age_s"], 1), " ".join(notes) or "-",
            ]
        )  # fmt: skip
    headings = ["machine", "cpu mean", "std", "of", "cpu", "memory mean", "of", "memory", "nic", "instances", "age s"]
    return f"{asking.table([*headings, 'notes'], rows)}\n{len(rows)} of {answer['total']}"
