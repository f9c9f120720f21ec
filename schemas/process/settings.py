"""Settings of a process: a frozen dataclass, filled from defaults < file < environment < flags.

A setting is one field. Its type (with msgspec constraints) validates it, and its description becomes the help text. Its
name gives the flag (``interval_s`` is ``--interval-s``), the variable (``WINDWARD_INTERVAL_S``) and the key of the TOML
file. There it is in the table of the command (``[agent]``) or in ``[all]``, from which every command reads the keys it
knows. No variable of a process sets the subject of a single call (`schemas.process.flags.has_variable`). A time is
given as ``90s``, ``5m``, ``2h``, or in seconds. A secret has no flag; it comes from the file, its variable, or a file
named by ``WINDWARD_<NAME>_FILE``.

Chosen over pydantic-settings and typer for the agent's sake. argparse and msgspec cost it neither memory nor a second
dependency tree, and one mechanism serves every command.
"""

import dataclasses
import math
import re
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from schemas.process.flags import (
    UsageError,
    bare,
    choices,
    flag,
    flags_of,
    has_variable,
    hints_of,
    is_duration,
    parse,
    parser_of,
)
from schemas.values.errors import field_error, shortened
from schemas.values.near import did_you_mean
from schemas.values.numbers import parse_duration
from schemas.values.secret_file import SecretFile

__all__ = ["SettingsError", "flag", "load_settings", "setting"]

Settings = TypeVar("Settings")


class SettingsError(ValueError):
    """A setting that cannot be used; the message is one line and names it. It shows no secret and only short input."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


def setting(default: Any = dataclasses.MISSING, help: str = "", **more: Any) -> Any:  # noqa: A002
    """Declare a field: its default, its help text, and ``secret=True``, ``positional=True`` or ``metavar=...``.

    Also ``group=...``, its group in the help; ``optional_value=True``, a flag that may stand without a value, which
    then is the empty text; ``duration=True``, a time in seconds whose name does not end in ``_s``; ``short="-o"``, a
    second flag; ``process=True``, of processes: the help of a single call does not list it; ``former=True``, a former
    name, which is taken and not listed; ``own=True``, neither a variable nor the table ``[all]`` gives it, since there
    it is about another command.
    """
    factory = {"default": default}
    if isinstance(default, dict | list):
        factory = {"default_factory": lambda: type(default)(default)}
    return dataclasses.field(metadata={"help": help, **more}, repr=not more.get("secret"), **factory)


def load_settings(
    cls: type[Settings],
    command: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    table: str = "",
    table_fields: Iterable[str] = (),
) -> Settings:
    """Return the settings of one command; print help and exit on ``--help``.

    ``table``: the TOML table of a command of two words, where the first word's table also holds ``table_fields``.
    Raises SettingsError naming the setting and where its value came from.
    """
    return made(cls, gather(cls, command, argv, environ, table=table, table_fields=table_fields))


def gather(
    cls: type,
    command: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    table: str = "",
    table_fields: Iterable[str] = (),
) -> dict[str, tuple[Any, str]]:
    """Return each given value unconverted, with its source in words; settings that are not given are left out."""
    fields = {f.name: f for f in dataclasses.fields(cls)}
    refuse_secrets(fields, argv)
    try:
        flags = dict(parse(parser_of(cls, f"windward {command}"), argv))
    except UsageError as error:
        raise SettingsError(str(error)) from None
    config = flags.pop("config", None) or environ.get("WINDWARD_CONFIG")
    raw: dict[str, tuple[Any, str]] = {}
    if config:
        raw.update(_from_file(Path(config), table or command, fields, table_fields))
    for name, field in fields.items():
        variable = f"WINDWARD_{name.upper()}"
        if not has_variable(cls, name, field):
            continue
        if variable in environ:
            raw[name] = (environ[variable], f"variable {variable}")
        elif field.metadata.get("secret") and f"{variable}_FILE" in environ:
            raw[name] = (_read_secret(Path(environ[f"{variable}_FILE"]), f"{variable}_FILE"), f"{variable}_FILE")
    for name, value in flags.items():
        raw[name] = (value, _ARGUMENT if fields[name].metadata.get("positional") else f"flag {flag(name)}")
    return raw


def made(cls: type[Settings], raw: Mapping[str, tuple[Any, str]]) -> Settings:
    """Return the settings made from given values; raises SettingsError naming the setting and its source."""
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = hints_of(cls)  # type: ignore[arg-type]
    values = {name: _convert(fields[name], value, source, hints[name]) for name, (value, source) in raw.items()}
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            variable = f" or WINDWARD_{name.upper()}" * has_variable(cls, name, field)
            raise SettingsError(f"{name} is required: give {flag(name)}{variable}")
    try:
        return cls(**values)
    except ValueError as error:
        name = str(error).partition(":")[0]
        raise SettingsError(f"{error} ({raw[name][1]})" if name in raw else str(error)) from None


def refuse_secrets(fields: Mapping[str, dataclasses.Field[Any]], argv: Sequence[str]) -> None:
    """Refuse a flag with the name of a secret, before its value is read as something else."""
    given = {word.partition("=")[0].lower().replace("_", "-") for word in argv if word.startswith("--")}
    for name, field in fields.items():
        if field.metadata.get("secret") and flag(name) in given:
            variable = f"WINDWARD_{name.upper()}"
            raise SettingsError(
                f"{name}: has no flag, which others could read: give it as {variable} or {variable}_FILE"
            )


def read_tables(path: Path) -> dict[str, Any]:
    """Return the tables of a settings file; raises SettingsError for a file that cannot be read."""
    import tomllib

    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise SettingsError(f"config: {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"config: {path} is not TOML: {error}") from None


def _from_file(
    path: Path, command: str, fields: Mapping[str, dataclasses.Field[Any]], table_fields: Iterable[str]
) -> dict[str, tuple[Any, str]]:
    """Read the command's table and ``[all]``; a key the command's own table should not have is an error."""
    tables = read_tables(path)
    for table in ("all", command):
        if not isinstance(tables.get(table, {}), dict):
            raise SettingsError(f"config: {table} in {path} is not a table")
    known = {*fields, *table_fields}
    for key in tables.get(command, {}):
        if key not in known:
            raise SettingsError(f"{key}: no such setting in [{command}] of {path}{did_you_mean(key, known)}")
    return {
        key: (value, f"[{table}] of {path}")
        for table in ("all", command)
        for key, value in tables.get(table, {}).items()
        if key in fields and not (table == "all" and fields[key].metadata.get("own"))
    }


def _read_secret(path: Path, variable: str) -> SecretFile:
    try:
        return SecretFile.read(path)
    except OSError as error:  # the path is not shown: it may be the secret itself, given by mistake
        raise SettingsError(f"{variable}: the file it names cannot be read: {error.strerror}") from None
    except ValueError as error:
        said = error if "file" in str(error) else "names no file"
        raise SettingsError(f"{variable}: {said}") from None


_ITEM = re.compile(r" - at `\$\[(\d+)\]`$")
_ARGUMENT = "an argument"


def _seconds(value: Any) -> Any:
    """Return a given time, or a list of them, with texts converted to seconds; a whole number stays an int."""
    if isinstance(value, list | tuple):
        return [_seconds(each) for each in value]
    if not isinstance(value, str):
        return value
    seconds = parse_duration(value)
    return int(seconds) if seconds.is_integer() else seconds


def _convert(field: dataclasses.Field[Any], value: Any, source: str, kind: Any) -> Any:
    """Convert one raw value to its type: lists split at commas, except for arguments; pairs at ``=``."""
    if isinstance(value, SecretFile):
        return value
    name, plain = field.name, bare(kind)
    origin = typing.get_origin(plain)
    if origin in (tuple, dict) and (isinstance(value, str) or (isinstance(value, list) and origin is dict)):
        value = [value] if isinstance(value, str) else value
    if origin in (tuple, dict) and isinstance(value, list) and source != _ARGUMENT:
        value = [part for item in value for part in (item.split(",") if isinstance(item, str) else [item]) if part]
    if origin is dict and isinstance(value, list):
        pairs = [str(part).partition("=") for part in value]
        if wrong := [key for key, middle, _ in pairs if not middle]:
            raise SettingsError(f"{name}: expected KEY=VALUE, got {wrong[0]!r} ({source})")
        value = {key: text for key, _, text in pairs}
    got = "" if field.metadata.get("secret") or name.endswith("_url") or "@" in str(value) else f", got {value!r}"
    try:
        if is_duration(name, field) and plain is not str:
            value = _seconds(value)
        converted = msgspec.convert(value, kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        said = choices(plain) or (choices(bare(typing.get_args(plain)[0])) if origin is tuple else "")
        if origin is dict and typing.get_args(plain)[1] is float and isinstance(value, dict):
            wrong = [f"{key}={text}" for key, text in value.items() if not _converts(text, float)]
            said, got = "KEY=NUMBER", got and f", got {wrong[0]!r}"
        if isinstance(value, list) and (place := _ITEM.search(str(error))):
            error, item = msgspec.ValidationError(str(error)[: place.start()]), value[int(place[1])]
            got = got and f", got {item!r}"
        problem = field_error(error).removesuffix(", got text")
        raise SettingsError(f"{name}: {f'expected {said}' if said else problem}{got} ({source})") from None
    except ValueError as error:
        raise SettingsError(f"{name}: {error} ({source})") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise SettingsError(f"{name}: expected a finite number{got} ({source})")
    return converted


def _converts(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        return False
    return True


def _path(kind: type[Any], value: Any) -> Any:
    """Convert a text to a path, the only type of a setting that msgspec does not convert."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)


def load_verb(
    command: str, verbs: Mapping[str, type], argv: Sequence[str], environ: Mapping[str, str], default: str = ""
) -> tuple[str, Any]:
    """Return the subcommand and its settings; all subcommands share the command's table of a settings file.

    Arguments and errors are those of `chosen` and `load_settings`.
    """
    verb, rest = chosen(command, verbs, argv, default)
    fields = {field.name for cls in verbs.values() for field in dataclasses.fields(cls)}
    return verb, load_settings(verbs[verb], f"{command} {verb}", rest, environ, table=command, table_fields=fields)


def chosen(command: str, verbs: Mapping[str, type], argv: Sequence[str], default: str = "") -> tuple[str, list[str]]:
    """Return the subcommand and the other arguments; flags may come before it.

    Prints help and exits on ``--help``. ``default``: the subcommand when none is given.
    Raises SettingsError for an unknown word.
    """
    place = _first_word(argv, verbs)
    if place is None:
        if {"-h", "--help"} & set(argv):
            print(overview(command, verbs, default))  # noqa: T201
            sys.exit(0)
        if default:
            return default, list(argv)
        _refuse_flags(argv, verbs)
        raise SettingsError(f"{command} what? There are {', '.join(verbs)}")
    verb = argv[place]
    if verb not in verbs:
        _refuse_flags(argv[:place], verbs)
        hint = did_you_mean(verb, verbs) or f"; there are {', '.join(verbs)}"
        raise SettingsError(f"no `{command} {verb[:40]}`{hint}")
    return verb, [*argv[:place], *argv[place + 1 :]]


def overview(command: str, verbs: Mapping[str, type], default: str = "") -> str:
    """Return the help of a command with subcommands: the summary and the examples of each."""
    width = max(map(len, verbs))
    lines = [f"usage: windward {command} {'[' if default else ''}{'|'.join(verbs)}{']' if default else ''} ...", ""]
    for verb, cls in verbs.items():
        about = (cls.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
        lines.append(f"  {verb.ljust(width)}  {about}{' (the default)' if verb == default else ''}")
    lines += ["", "examples:"]
    lines += [f"  {line}" for cls in verbs.values() for line in getattr(cls, "EXAMPLES", ())]
    return "\n".join([*lines, "", f"`windward {command} {next(iter(verbs))} --help` has the settings of one"])


def _first_word(argv: Sequence[str], verbs: Mapping[str, type]) -> int | None:
    """Return the place of the first word that is neither a flag nor a flag's value."""
    takes = _takes_value(verbs)
    skip = False
    for place, word in enumerate(argv):
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = "=" not in word and takes.get(word, False)
        else:
            return place
    return None


def _takes_value(verbs: Mapping[str, type]) -> dict[str, bool]:
    found: dict[str, Any] = {"--config": True}
    for cls in verbs.values():
        for field in dataclasses.fields(cls):
            for name in flags_of(field):
                found.setdefault(name, hints_of(cls)[field.name] not in (bool, bool | None))
    return found


def _refuse_flags(argv: Sequence[str], verbs: Mapping[str, type]) -> None:
    """Refuse a secret's flag, or one that no subcommand has, without showing a value."""
    fields = {field.name: field for cls in verbs.values() for field in dataclasses.fields(cls)}
    refuse_secrets(fields, argv)
    known = _takes_value(verbs)
    for word in argv:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in known:
            hint = did_you_mean(name, known) or "; --help lists the settings"
            raise SettingsError(f"unrecognized arguments: {name}{hint}")
