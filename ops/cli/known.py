"""All settings by command; refuses unknown tables, keys and ``WINDWARD_*`` variables, with similar names.

The names are in the file ``settings.json`` beside this module, made by ``python -m ops.cli.known`` and checked by a
test. Importing every command to collect them would cost each start a second. A name that is missing in the file is
looked up in the commands before it is refused. So an outdated file costs time, but refuses no valid name.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ops.cli.commands import COMMANDS
from schemas.process.flags import has_variable
from schemas.process.settings import SettingsError, read_tables
from schemas.values.near import did_you_mean

FILE = Path(__file__).with_name("settings.json")
PREFIX = "WINDWARD_"
OTHERS = ("CONFIG", "GRAFANA_PASSWORD", "TEST_")
"""Beginnings of other variables: the settings file's, docker-compose's, the tests'."""


def classes(command: str) -> list[type]:
    """Return the settings classes of a command: one, or one for each subcommand."""
    found: Any = import_module(COMMANDS[command][0]).SETTINGS
    return list(found.values()) if isinstance(found, Mapping) else [found]


def live() -> dict[str, list[str]]:
    """Return the names of each command's settings, from the commands themselves.

    A secret's name ends in ``*``, the name of a setting without a variable in ``-``.
    """
    return {
        command: list(dict.fromkeys(name for cls in classes(command) for name in _names(cls))) for command in COMMANDS
    }


def _names(cls: type) -> list[str]:
    return [
        field.name + "*" * bool(field.metadata.get("secret")) + "-" * (not has_variable(cls, field.name, field))
        for field in dataclasses.fields(cls)
    ]


def stored() -> dict[str, list[str]]:
    """Return each command's settings, as the file lists them."""
    found: dict[str, list[str]] = json.loads(FILE.read_text())
    return found


def refuse_unknown(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise SettingsError for a variable, table or key that no command has."""
    file = config_file(argv, environ)
    tables = read_tables(file) if file else {}
    problem = ""
    for names_of in (stored, live):
        names = names_of()
        problem = wrong_variable(environ, names) or (next(wrong_keys(file, tables, names), "") if file else "")
        if not problem:
            return
    raise SettingsError(problem)


def config_file(argv: Sequence[str], environ: Mapping[str, str]) -> Path | None:
    """Return the settings file that is named, None where none is."""
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name == "--config" and (equals or place + 1 < len(argv)):
            return Path(value if equals else argv[place + 1])
    named = environ.get("WINDWARD_CONFIG")
    return Path(named) if named else None


def wrong_variable(environ: Mapping[str, str], known: Mapping[str, Iterable[str]]) -> str:
    """Return the error for the first variable that no command reads; "" when all are known."""
    settings = {name for names in known.values() for name in names}
    variables = {name.rstrip("*").upper() for name in settings if not name.endswith("-")}
    variables |= {f"{name[:-1].upper()}_FILE" for name in settings if name.endswith("*")}
    for variable in environ:
        name = variable.removeprefix(PREFIX)
        if name == variable or name in variables or any(name.startswith(other) for other in OTHERS):
            continue
        if f"{name.lower()}-" in settings:
            return (
                f"variable {variable}: {name.lower()} is a flag, an argument or a key of a settings file, no variable"
            )
        hint = did_you_mean(variable, [PREFIX + each for each in sorted(variables)])
        return f"variable {variable}: no command has such a setting{hint}"
    return ""


def wrong_keys(file: Path, tables: Mapping[str, Any], known: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Return the error for each unknown table or key of a settings file."""
    plain = {command: {name.rstrip("*-") for name in names} for command, names in known.items()}
    everything = {name for names in plain.values() for name in names}
    for table, content in tables.items():
        if table != "all" and table not in plain:
            what = "no such table" if isinstance(content, dict) else "is outside of every table"
            near = did_you_mean(table, ["all", *plain] if isinstance(content, dict) else everything)
            yield f"config: {table} in {file}: {what}{near}"
        elif not isinstance(content, dict):
            yield f"config: {table} in {file} is not a table"
        else:
            there = everything if table == "all" else plain[table]
            for key in content:
                if key not in there:
                    yield f"{key}: no such setting in [{table}] of {file}{did_you_mean(key, there)}"


if __name__ == "__main__":
    FILE.write_text(json.dumps(live(), indent=1) + "\n")
