"""The ``windward`` command: one table from command to the module that runs it, imported only when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import version

from schemas.settings import SettingsError

COMMANDS = {
    "up": ("ops.up", "run the whole stack on this machine until Ctrl-C"),
    "demo": ("ops.demo", "show the whole stack at work, then stop"),
    "agent": ("streams.agent.__main__", "publish this machine's load"),
    "fleet": ("streams.fleet.__main__", "publish the load of a simulated or recorded fleet"),
    "stream": ("streams.__main__", "fold samples into windows"),
    "fold": ("streams.fold_command", "print the windows of recorded samples"),
    "scorer": ("scorer.__main__", "answer placement queries"),
    "place": ("scorer.commands.place", "choose a machine and reserve it"),
    "rank": ("scorer.commands.rank", "rank the machines, of the scorer or of a file"),
    "confirm": ("scorer.commands.confirm", "turn a reservation into an instance"),
    "update": ("scorer.commands.update", "move, resize or change the role of an instance"),
    "release": ("scorer.commands.release", "end an instance or a reservation"),
    "instances": ("scorer.commands.instances", "list, release or import instances"),
    "machines": ("scorer.commands.machines", "list, show, label, taint or cordon machines"),
    "why": ("scorer.commands.why", "say why an instance is where it is"),
    "health": ("scorer.commands.health", "ask the scorer how it is"),
    "profiles": ("scorer.commands.profiles", "list and show profiles"),
}

EXIT_CODES = (
    """exit codes: 0 done; 1 failed; 2 wrong usage or setting; 3 no machine fits; 4 no answer before the deadline"""
)


def main(argv: list[str] | None = None) -> int:
    """Run one command; its module has ``main(argv, environ) -> exit code``."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] in ([], ["-h"], ["--help"], ["help"]):
        print(_usage())  # noqa: T201
        return 0
    if arguments[0] == "--version":
        print(version("windward"))  # noqa: T201
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"windward: no command {command!r}; `windward --help` lists them", file=sys.stderr)  # noqa: T201
        return 2
    try:
        return int(importlib.import_module(COMMANDS[command][0]).main(rest, os.environ))
    except SettingsError as error:
        print(f"windward {command}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join(["usage: windward COMMAND [--help] ...", "", *lines, "", EXIT_CODES])


if __name__ == "__main__":
    sys.exit(main())
