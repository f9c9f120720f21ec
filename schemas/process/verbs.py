"""Subcommands, as in ``windward machines cordon``: each has its own settings and help."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.process.flags import flags_of, hints_of
from schemas.process.settings import SettingsError, load_settings, refuse_secrets
from schemas.values.near import did_you_mean


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
