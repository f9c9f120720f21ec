"""What to type instead of a word that is no command."""

from __future__ import annotations

from importlib import import_module

from ops.cli.commands import COMMANDS
from schemas.values.near import did_you_mean

OTHER_WORDS = {
    ("create", "schedule", "reserve", "allocate"): ("place",),
    ("delete", "remove", "rm", "stop", "free"): ("release",),
    ("move", "migrate", "resize"): ("update",),
    ("explain", "score"): ("rank --explain", "why"),
    ("list", "ls", "get"): ("instances", "machines"),
    ("describe", "inspect"): ("instances show", "machines show"),
    ("ps", "pod"): ("instances",),
    ("node", "nodes", "host", "hosts", "inventory"): ("machines",),
    ("status", "check", "ping"): ("doctor", "health"),
    ("watch", "stats", "dashboard"): ("top",),
    ("start", "run", "serve", "server"): ("up",),
    ("simulate", "simulation", "backtest"): ("replay",),
    ("metrics", "prometheus"): ("exporter",),
    ("log", "logs", "history", "audit"): ("events --follow",),
    ("evict", "evacuate", "empty"): ("drain",),
    ("balance",): ("rebalance",),
    ("version",): ("--version",),
    ("settings",): ("config show",),
}
"""Words of other programs, and the commands that do this here."""


def no_command(word: str) -> str:
    """Return the error for a word that is no command, with similar ones, or those that do it, or where they are listed.

    >>> no_command("plcae"), no_command("cordon")
    ("no command 'plcae'; did you mean place?", "no command 'cordon'; did you mean machines cordon?")
    """
    what = word.partition("=")[0] if word.startswith("-") else word
    meant = next((commands for words, commands in OTHER_WORDS.items() if what in words), ()) or _with_verb(what)
    hint = f"; did you mean {' or '.join(meant)}?" if meant else did_you_mean(what, COMMANDS)
    return f"no command {what!r}{hint or '; `windward --help` lists them'}"


def _with_verb(word: str) -> tuple[str, ...]:
    """Return the commands that have a subcommand of this name."""
    found = []
    for command in ("machines", "instances", "profiles", "ledger"):
        verbs = import_module(COMMANDS[command][0]).SETTINGS
        found += [f"{command} {word}"] if word in verbs else []
    return tuple(found)
