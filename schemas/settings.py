"""Settings of a process: a frozen dataclass, filled from defaults < file < environment < flags.

A setting is one field. Its type (with msgspec constraints) validates it, its description becomes the help text, its
name gives the flag (``interval_s`` is ``--interval-s``), the variable (``WINDWARD_INTERVAL_S``) and the key of the TOML
file: in the table of the command (``[agent]``) or in ``[all]``, which every command reads as far as it knows the key.
A secret has no flag; it comes from the file, its variable, or a file named by ``WINDWARD_<NAME>_FILE``.

Chosen over pydantic-settings and typer for the agent's sake: argparse and msgspec cost it neither memory nor a second
dependency tree, and one mechanism serves every command.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar

import msgspec

Settings = TypeVar("Settings")


class SettingsError(ValueError):
    """A setting that cannot be used; the message is one line and names it."""


def setting(default: Any = dataclasses.MISSING, help: str = "", **more: Any) -> Any:  # noqa: A002
    """Declare a field: its default, its help text, and ``secret=True``, ``positional=True`` or ``metavar=...``."""
    factory = {"default": default}
    if isinstance(default, dict | list):
        factory = {"default_factory": lambda: type(default)(default)}
    return dataclasses.field(metadata={"help": help, **more}, **factory)


def load_settings(
    cls: type[Settings], command: str, argv: Sequence[str], environ: Mapping[str, str], description: str = ""
) -> Settings:
    """Return the settings of one command; print help and exit on ``--help``.

    Raises SettingsError naming the setting and where its value came from.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls, include_extras=True)
    flags = _parse_flags(fields, hints, command, argv, description or (cls.__doc__ or ""))
    config = flags.pop("config", None) or environ.get("WINDWARD_CONFIG")
    raw: dict[str, tuple[Any, str]] = {}
    if config:
        raw.update(_from_file(Path(config), command, fields))
    for name, field in fields.items():
        variable = f"WINDWARD_{name.upper()}"
        if variable in environ:
            raw[name] = (environ[variable], f"variable {variable}")
        elif field.metadata.get("secret") and f"{variable}_FILE" in environ:
            raw[name] = (_read_secret(Path(environ[f"{variable}_FILE"]), f"{variable}_FILE"), f"{variable}_FILE")
    for name, value in flags.items():
        raw[name] = (value, _ARGUMENT if fields[name].metadata.get("positional") else f"flag {flag(name)}")
    values = {
        name: _convert(name, value, source, hints[name], secret=bool(fields[name].metadata.get("secret")))
        for name, (value, source) in raw.items()
    }
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise SettingsError(f"{name} is required: give {flag(name)} or WINDWARD_{name.upper()}")
    try:
        return cls(**values)
    except ValueError as error:
        name = str(error).partition(":")[0]
        raise SettingsError(f"{error} ({raw[name][1]})" if name in raw else str(error)) from None


def flag(name: str) -> str:
    """Return the flag of a setting."""
    return "--" + name.replace("_", "-")


class _Parser(argparse.ArgumentParser):
    """Refuses wrong usage in one line, as every other wrong setting."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message}; --help lists the settings")


def _parse_flags(
    fields: Mapping[str, dataclasses.Field[Any]],
    hints: Mapping[str, Any],
    command: str,
    argv: Sequence[str],
    description: str,
) -> dict[str, Any]:
    """Read the command line; only what was given is in the result, as text."""
    parser = _Parser(
        prog=f"windward {command}",
        description=description,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings")
    for name, field in fields.items():
        if field.metadata.get("secret"):
            continue
        kind = _bare(hints[name])
        about = field.metadata.get("help", "").replace("%", "%%")
        if choices := _choices(kind):
            about += f": {choices}"
        if field.default is not dataclasses.MISSING and field.default not in (None, False, "", ()):
            about += f" (default {field.default})"
        metavar = field.metadata.get("metavar", name.split("_")[-1].upper())
        many = typing.get_origin(kind) in (tuple, dict)
        if field.metadata.get("positional"):
            parser.add_argument(name, metavar=metavar, help=about, nargs="*" if many else None)
        elif kind is bool:
            parser.add_argument(flag(name), help=about, action=argparse.BooleanOptionalAction)
        elif many:
            parser.add_argument(flag(name), help=about, metavar=metavar, action="append")
        else:
            parser.add_argument(flag(name), help=about, metavar=metavar)
    return vars(parser.parse_args(argv))


def _from_file(path: Path, command: str, fields: Mapping[str, object]) -> dict[str, tuple[Any, str]]:
    """Read the command's table and ``[all]``; a key the command's own table should not have is an error."""
    try:
        tables = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise SettingsError(f"config: {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"config: {path} is not TOML: {error}") from None
    for table in ("all", command):
        if not isinstance(tables.get(table, {}), dict):
            raise SettingsError(f"config: {table} in {path} is not a table")
    for key in tables.get(command, {}):
        if key not in fields:
            raise SettingsError(f"{key}: no such setting in [{command}] of {path}")
    merged = {k: (v, f"[all] of {path}") for k, v in tables.get("all", {}).items() if k in fields}
    return merged | {k: (v, f"[{command}] of {path}") for k, v in tables.get(command, {}).items()}


def _read_secret(path: Path, variable: str) -> str:
    try:
        return path.read_bytes().decode().rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"{variable}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{variable}: {path} is not UTF-8 text") from None


_ARGUMENT = "an argument"


def _bare(kind: Any) -> Any:
    """Strip Annotated and ``| None`` off a type."""
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in (typing.Union, UnionType):
            kind = next(k for k in typing.get_args(kind) if k is not type(None))
        else:
            return kind


def _convert(name: str, value: Any, source: str, kind: Any, *, secret: bool) -> Any:
    """Turn one raw value into its type: lists split at commas, but for arguments; pairs at ``=``, numbers from text."""
    origin = typing.get_origin(_bare(kind))
    if origin in (tuple, dict) and (isinstance(value, str) or (isinstance(value, list) and origin is dict)):
        value = [value] if isinstance(value, str) else value
    if origin in (tuple, dict) and isinstance(value, list) and source != _ARGUMENT:
        value = [part for item in value for part in (item.split(",") if isinstance(item, str) else [item]) if part]
    if origin is dict and isinstance(value, list):
        pairs = [str(part).partition("=") for part in value]
        if any(not middle for _, middle, _ in pairs):
            raise SettingsError(f"{name}: expected KEY=VALUE, got {','.join(map(str, value))!r} ({source})")
        value = {key: text for key, _, text in pairs}
    got = "" if secret else f", got {value!r}"
    try:
        converted = msgspec.convert(value, kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        choices = _choices(_bare(kind))
        expected = f"expected {choices}" if choices else str(error).removesuffix(", got `str`")
        raise SettingsError(f"{name}: {expected}{got} ({source})") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise SettingsError(f"{name}: expected a finite number{got} ({source})")
    return converted


def _choices(kind: Any) -> str:
    """Return the values a choice has, in words; nothing for another type."""
    if typing.get_origin(kind) is not typing.Literal:
        return ""
    *others, last = map(str, typing.get_args(kind))
    return f"{', '.join(others)} or {last}" if others else last


def _path(kind: type[Any], value: Any) -> Any:
    """Make a path of text; the one type of a setting that msgspec does not make itself."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)
