"""``windward config``: check a settings file; show the settings a command would run with, and their sources."""

import dataclasses
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ops.cli.commands import COMMANDS
from ops.cli.known import classes, live, refuse_unknown, wrong_keys
from schemas.process.failures import print_failure
from schemas.process.settings import SettingsError, chosen, gather, load_settings, made, read_tables, setting
from schemas.process.tables import Column, table
from schemas.values.near import did_you_mean


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Check a settings file: every table, key and value. Exit code 2 when something is wrong, with its name."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward config check docs/examples/settings.toml",)

    file: str = setting(help="TOML file with settings", positional=True, metavar="FILE")
    json: bool = setting(False, "print JSON", group="output")


@dataclass(frozen=True, kw_only=True)
class ShowSettings:
    """Show every setting of a command with its value and its source; flags behind the command count, too."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward config show rank",
        "windward config show rank --config docs/examples/settings.toml --json",
    )

    words: tuple[str, ...] = setting((), "the command, and its flags", positional=True, metavar="COMMAND")
    json: bool = setting(False, "print JSON", group="output")


SETTINGS = {"check": CheckSettings, "show": ShowSettings}


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    verb, rest = chosen("config", SETTINGS, argv)
    if verb == "check":
        return _check(load_settings(CheckSettings, "config check", rest, environ, table="config"))
    if not rest or rest[0].startswith("-"):
        load_settings(ShowSettings, "config show", rest, environ, table="config")
        raise SettingsError("command: which? As in `windward config show rank`")
    return _show(rest[0], [word for word in rest[1:] if word != "--json"], environ, as_json="--json" in rest)


def _check(settings: CheckSettings) -> int:
    path = Path(settings.file)
    tables = read_tables(path)
    problems = list(wrong_keys(path, tables, live()))
    checked = 0
    for command in [name for name in tables if name in COMMANDS and isinstance(tables[name], dict)]:
        values = tables[command]
        for cls in classes(command):
            names = {field.name for field in dataclasses.fields(cls)}
            own = (every if isinstance(every := tables.get("all", {}), dict) else {}) | values
            given = {name: (value, f"[{command}] of {path}") for name, value in own.items() if name in names}
            problems += _problems(cls, given)
        checked += len(values)
    for problem in dict.fromkeys(problems):
        print_failure("config", "INVALID_ARGUMENT", problem, as_json=settings.json)
    if not problems:
        said = {"file": str(path), "tables": list(tables), "settings": checked}
        print(json.dumps(said) if settings.json else f"{path}: {len(tables)} tables, good")  # noqa: T201
    return 2 if problems else 0


def _problems(cls: type, given: dict[str, tuple[Any, str]]) -> list[str]:
    """Return the errors of all invalid values, found one after the other."""
    try:
        made(_optional(cls), given)
    except SettingsError as error:
        if _about_an_argument(cls, error):
            return []
        wrong = str(error).partition(":")[0]
        others = {name: one for name, one in given.items() if name != wrong}
        return [str(error), *(_problems(cls, others) if wrong in given else ())]
    return []


def _optional(cls: type) -> type:
    """Return the settings class without required fields: a file may omit the ones that the command line gives."""
    hints = typing.get_type_hints(cls, include_extras=True)
    missing = [
        (field.name, hints[field.name] | None, dataclasses.field(default=None, metadata=field.metadata))
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return (
        dataclasses.make_dataclass(cls.__name__, missing, bases=(cls,), frozen=True, kw_only=True) if missing else cls
    )


def _made_for_show(cls: type, given: dict[str, tuple[Any, str]]) -> Any:
    """Return the settings, without the arguments of a call; raises SettingsError for any other fault."""
    optional = _optional(cls)
    try:
        return made(optional, given)
    except SettingsError as error:
        lacks = [field.name for field in dataclasses.fields(cls) if field.metadata.get("positional")]
        if not lacks or any(name in given for name in lacks) or not _about_an_argument(cls, error):
            raise
    unchecked = {"__post_init__": lambda self: None}
    return made(
        dataclasses.make_dataclass(cls.__name__, [], bases=(optional,), frozen=True, kw_only=True, namespace=unchecked),
        given,
    )


def _about_an_argument(cls: type, error: SettingsError) -> bool:
    """Return whether an error concerns an argument of the command line, which no file gives."""
    named = str(error).partition(":")[0]
    return named not in {field.name for field in dataclasses.fields(cls) if not field.metadata.get("positional")}


def _show(command: str, argv: list[str], environ: Mapping[str, str], *, as_json: bool) -> int:
    if command not in COMMANDS:
        raise SettingsError(f"command: no command {command!r}{did_you_mean(command, COMMANDS)}")
    refuse_unknown(argv, environ)
    rows: dict[str, dict[str, Any]] = {}
    for cls in classes(command):
        given = gather(_optional(cls), command, argv if len(classes(command)) == 1 else [], environ)
        settings = _made_for_show(cls, given)
        for field in dataclasses.fields(cls):
            value = getattr(settings, field.name)
            secret = field.metadata.get("secret")
            source = given[field.name][1] if field.name in given else "default"
            shown = ("set" if value else None) if secret else value
            rows.setdefault(field.name, {"value": shown, "source": source})
    if as_json:
        print(json.dumps(rows, default=str))  # noqa: T201
        return 0
    columns = [Column("setting"), Column("value", left=True), Column("source", left=True)]
    print(table(columns, [[name, _text(row["value"]), row["source"]] for name, row in rows.items()]))  # noqa: T201
    return 0


def _text(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return "-"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
