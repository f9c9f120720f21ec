"""The command line of one command as an argparse parser, made from a settings class.

A settings class may have, besides its fields:

    GROUP: ClassVar[str] = "Redis"       the title of the group that its fields are in; none: the command's own, first
    TITLE: ClassVar[str] = "the request" the title of the command's own group
    EXAMPLES: ClassVar[tuple[str, ...]]  command lines, each with a comment behind a ``#``; shown before the settings
    ONE_CALL: ClassVar[bool] = True      its fields are of one call, and read no variable of a process (`has_variable`)
"""

import argparse
import dataclasses
import inspect
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, NoReturn

from schemas.values.numbers import duration

LAST_GROUPS = ("output", "ledger", "Redis", "Kafka", "logs")
"""The groups that many commands share; a command's own settings come before them."""

OF_PROCESSES = frozenset({
    "apply", "backfill_s", "cores", "dry_run", "interval_s", "labels", "machine", "machines", "machines_max",
    "once", "roles",
})  # fmt: skip
"""Names that mean one thing in a process's variable, and another for a single call."""


class UsageError(ValueError):
    """Wrong usage; the message is one line and shows no value, which may be a secret."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        """Refuse; raises UsageError."""
        about = message.partition(" explicit argument ")[0].replace(": ignored", ": takes no value")
        raise UsageError(f"{about}; --help lists the settings")


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def flags_of(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """Return the flags of a setting that takes a value: its short one, if it has one, and its long one."""
    short = field.metadata.get("short")
    return (short, flag(field.name)) if short else (flag(field.name),)


def is_duration(name: str, field: dataclasses.Field[Any]) -> bool:
    """Return whether a setting is a time in seconds: by the end of its name, or by ``duration``."""
    return name.endswith("_s") or bool(field.metadata.get("duration"))


@cache
def hints_of(cls: type) -> Mapping[str, Any]:
    """Return the type of each field, from a cache: Python compiles the annotations at each call."""
    return typing.get_type_hints(cls, include_extras=True)


@cache
def _declared(cls: type) -> frozenset[str]:
    """Return the names of the fields that a class itself declares."""
    return frozenset(inspect.get_annotations(cls))


def parser_of(cls: type, prog: str) -> Parser:
    fields = {field.name: field for field in dataclasses.fields(cls)}
    hints = hints_of(cls)
    arguments = [
        f"[{field.metadata.get('metavar', name.upper())} ...]" if _is_many(hints[name]) else field.metadata["metavar"]
        for name, field in fields.items()
        if field.metadata.get("positional")
    ]
    parser = Parser(
        prog=prog,
        usage=" ".join([prog.replace("%", "%%"), *arguments, "[--setting VALUE ...]"]),
        description=described(cls),
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    order = {title: place for place, title in enumerate(LAST_GROUPS, 2)}
    titles = {name: _group(cls, name, field) for name, field in fields.items()}
    for title in sorted(dict.fromkeys(titles.values()), key=lambda title: order.get(title, bool(title))):
        group = parser.add_argument_group(title or getattr(cls, "TITLE", "settings"))
        own = [name for name in fields if titles[name] == title and not fields[name].metadata.get("secret")]
        for name in sorted(own, key=lambda name: not fields[name].metadata.get("positional")):
            about = fields[name].metadata
            unlisted = about.get("former", False) or (about.get("process", False) and getattr(cls, "ONE_CALL", False))
            _add(group, name, fields[name], hints[name], unlisted=unlisted)
    more = parser.add_argument_group("help")
    more.add_argument("--config", metavar="FILE", help="TOML file with settings")
    more.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser


def described(cls: type) -> str:
    """Return the description of a command, with its examples."""
    lines = (cls.__doc__ or "").strip().replace("``", "").splitlines()
    text = "\n".join([*lines[:1], *(line.removeprefix("    ") for line in lines[1:])])
    examples = getattr(cls, "EXAMPLES", ())
    return "\n".join([text, "", "examples:", *(f"  {line}" for line in examples)]) if examples else text


def _add(group: Any, name: str, field: dataclasses.Field[Any], hint: Any, *, unlisted: bool) -> None:
    kind = bare(hint)
    many = _is_many(hint)
    about = field.metadata.get("help", "").replace("%", "%%")
    if said := choices(kind):
        about += f": {said}" if about else said
    if field.default is not dataclasses.MISSING and not (
        isinstance(field.default, bool) or field.default in (None, "", ())
    ):
        default = field.default
        if is_duration(name, field):
            default = tuple(map(duration, default)) if isinstance(default, tuple) else duration(default)
        default = ",".join(map(str, default)) if isinstance(default, tuple) else default
        about += f" (default {default})"
    metavar = field.metadata.get("metavar", "DURATION" if is_duration(name, field) else name.rpartition("_")[2].upper())
    if field.metadata.get("positional"):
        group.add_argument(
            name, metavar=metavar, help=about, nargs="*" if many else "?" if field.default is None else None
        )
    elif kind is bool and field.default is True:
        group.add_argument(flag(name), help=argparse.SUPPRESS, action="store_true")
        group.add_argument(flag(f"no_{name}"), help=f"do not {about}", action="store_false", dest=name)
    elif kind is bool:
        group.add_argument(flag(name), help=about, action="store_true")
        group.add_argument(flag(f"no_{name}"), help=argparse.SUPPRESS, action="store_false", dest=name)
    elif field.metadata.get("optional_value"):
        group.add_argument(flag(name), help=about, metavar=metavar, nargs="?", const="")
        group.add_argument(flag(f"no_{name}"), help=argparse.SUPPRESS, action="store_const", const="false", dest=name)
    else:
        about = argparse.SUPPRESS if unlisted else about
        group.add_argument(*flags_of(field), help=about, metavar=metavar, action="append" if many else "store")


def _group(cls: type, name: str, field: dataclasses.Field[Any]) -> str:
    """Return the title of a setting's group: that of the class which declares it last."""
    if (said := field.metadata.get("group")) is not None:
        return str(said)
    return str(owner(cls, name).__dict__.get("GROUP", ""))


def owner(cls: type, name: str) -> type:
    """Return the class that declares a setting last."""
    return next((each for each in cls.__mro__ if name in _declared(each)), cls)


def has_variable(cls: type, name: str, field: dataclasses.Field[Any]) -> bool:
    """Return whether an environment variable may give a setting.

    No variable gives an argument, a setting with ``own``, or a setting of one call that a process on the same host has,
    too. Otherwise the agent's WINDWARD_MACHINE would be the machine that `windward place` requests.
    """
    if field.metadata.get("positional") or field.metadata.get("own"):
        return False
    return not (name in OF_PROCESSES and getattr(owner(cls, name), "ONE_CALL", False))


def _is_many(hint: Any) -> bool:
    return typing.get_origin(bare(hint)) in (tuple, dict)


def bare(kind: Any) -> Any:
    """Return a type without Annotated and ``| None``."""
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in (typing.Union, UnionType):
            kind = next(k for k in typing.get_args(kind) if k is not type(None))
        else:
            return kind


def choices(kind: Any) -> str:
    """Return the values of a Literal in words; "" for another type."""
    if typing.get_origin(kind) is not typing.Literal:
        return ""
    *others, last = map(str, filter(None, typing.get_args(kind)))
    return f"{', '.join(others)} or {last}" if others else last


def refused(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    """Return the error for unknown words: the name of a flag, with similar ones, or the number of other words."""
    from schemas.values.near import did_you_mean

    flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    known = [word for action in parser._actions for word in action.option_strings]
    if not flags:
        behind = "a value goes behind its flag, such as --id" if "--id" in known else "a value goes behind its flag"
        return f"arguments too many: {len(unknown)}: {behind}; --help lists the settings"
    hint = did_you_mean(flags[0], [word for word in known if flags[0][:5] == "--no-" or word[:5] != "--no-"])
    return f"unrecognized arguments: {' '.join(flags)}{hint or '; --help lists the settings'}"


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> Mapping[str, Any]:
    """Return the given settings of a command line, as text. Raises UsageError."""
    known, unknown = parser.parse_known_args(list(argv))
    if unknown:
        raise UsageError(refused(parser, unknown))
    return vars(known)
