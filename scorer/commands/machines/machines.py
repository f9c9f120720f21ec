"""``windward machines``: lists the machines as the scorer sees them, and writes operators' rules."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from schemas.process.settings import SettingsError, load_settings
from schemas.process.terminal import screen
from schemas.process.verbs import chosen
from scorer.client import WindwardError
from scorer.commands.machines import machine_table
from scorer.commands.machines.machines_settings import (
    SETTINGS,
    CordonSettings,
    ForgetSettings,
    ListSettings,
    RenameSettings,
    ShowSettings,
    WriteSettings,
)
from scorer.commands.machines.operator_facts import change_operator_facts, in_words, labelled, replaced, tainted
from scorer.commands.shared import ask

_PAGE = 10_000


_Change = Callable[[dict[str, Any], list[str]], dict[str, Any]]
_CHANGES: Mapping[str, _Change] = {
    "label": labelled,
    "taint": tainted,
    "set": replaced,
    "cordon": lambda facts, _: facts | {"cordon": True},
    "uncordon": lambda facts, _: facts | {"cordon": False},
    "forget": lambda _, __: {},
}


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the subcommand."""
    verb, rest = chosen("machines", SETTINGS, argv, environ, default="list")
    everything = ("labels", "profile", "limit", "sort", "columns", "state", "selector", "ahead", "quiet", "reverse")
    settings = load_settings(
        SETTINGS[verb], f"machines {verb}", rest, environ, table="machines", table_fields=everything
    )
    if isinstance(settings, ListSettings):
        return _list(settings)
    if isinstance(settings, ShowSettings):
        params = {"names": [settings.name], "profile": settings.profile}
        view = screen(wide=settings.wide)
        try:
            answer = ask.call(settings, "machines", params)
        except WindwardError as error:
            return ask.report(_not_found(error, settings), "machines show", settings)
        one = answer["machines"][0]
        print(json.dumps(one, indent=2) if settings.json else machine_table.page(one, view))  # noqa: T201
        return ask.OK
    if isinstance(settings, RenameSettings):
        from scorer.commands.machines.rename import run

        return run(settings, settings.words)
    assert isinstance(settings, WriteSettings)
    return _write(verb, settings)


def _not_found(error: WindwardError, settings: ShowSettings) -> WindwardError:
    """Return a scorer's error; for an unknown name with a hint at similar names."""
    if error.code != "INVALID_ARGUMENT" or not error.message.startswith("names: "):
        return error
    from schemas.values.near import did_you_mean

    with contextlib.suppress(WindwardError):
        answer = ask.call(settings, "machines", {"limit": _PAGE})
        hint = did_you_mean(settings.name, [row["machine"] for row in answer["machines"]])
        return WindwardError("NOT_FOUND", f"no machine {settings.name!r}{hint}")
    return error


def _list(settings: ListSettings) -> int:
    plain = not (settings.selector or settings.state or settings.sort != "machine" or settings.reverse)
    params: dict[str, Any] = {"labels": settings.labels, "profile": settings.profile}
    params["limit"] = min(settings.limit, _PAGE) if plain else _PAGE
    try:
        answer = ask.call(settings, "machines", params)
        rows = list(answer["machines"])
        while answer["more"] and not (plain and len(rows) >= settings.limit):
            answer = ask.call(settings, "machines", params | {"after": rows[-1]["machine"]})
            rows += answer["machines"]
    except WindwardError as error:
        return ask.report(error, "machines list", settings)
    total = answer["total"] if plain and len(rows) <= _PAGE else len(rows)
    if not plain:
        rows = machine_table.matching(rows, settings.state, settings.selector)
        total = len(rows)
        rows = machine_table.ordered(rows, settings.sort, reverse=settings.reverse)
    rows = rows[: settings.limit]
    if settings.json:
        print(json.dumps({"total": total, "machines": rows, "more": len(rows) < total}))  # noqa: T201
    elif settings.quiet:
        print("\n".join(row["machine"] for row in rows))  # noqa: T201
    else:
        view = screen(wide=settings.wide)
        print(f"{machine_table.listing(rows, settings.columns, view)}\n{len(rows)} of {total}")  # noqa: T201
    return ask.OK


def _write(verb: str, settings: WriteSettings) -> int:
    import redis

    from scorer.commands.machines.forget import forget
    from scorer.commands.machines.known_machines import known_machines, meant
    from scorer.wire import AWAY

    arguments: list[str] = []
    if isinstance(settings, CordonSettings):
        given = list(settings.words)
    else:
        words = list(getattr(settings, "words", ()))
        given, arguments = ([], words) if settings.selector else (words[:1], words[1:])
        if (given or settings.selector) and not arguments:
            raise SettingsError(f"{verb} what? `windward machines {verb} --help` has examples")
    if not given and not settings.selector:
        raise SettingsError(f"{verb} which machine? Give names, globs or --selector")
    change = _CHANGES[verb]
    change({}, arguments)  # refuses invalid arguments before anything is written
    after: dict[str, Any] = {}
    try:
        with ask.server(settings) as server:
            machines = meant(given, settings.selector, known_machines(server, settings.names), ahead=settings.ahead)
            if isinstance(settings, ForgetSettings):
                return forget(settings, server, machines, force=settings.force)
            for machine in machines:
                after[machine] = change_operator_facts(
                    server, settings.names, machine, lambda facts: change(facts, arguments)
                )
    except (*AWAY, redis.ResponseError) as error:
        return ask.unreachable(settings.redis_url, error, f"machines {verb}", settings)
    except WindwardError as error:
        return ask.report(error, f"machines {verb}", settings)
    lines = [f"{'every machine' if name == '*' else name}: {in_words(facts)}" for name, facts in after.items()]
    print(json.dumps(after) if settings.json else "\n".join(lines))  # noqa: T201
    return ask.OK
