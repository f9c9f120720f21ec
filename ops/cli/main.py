"""The ``windward`` command: a table from command to the module that runs it, imported only when it is called.

A module has ``main(argv, environ) -> exit code`` and ``SETTINGS``: its settings class, or a class for each subcommand
(``windward machines cordon``). Nothing else is imported before the command is known: `tests/bench/bench_start.py` has
the time of a start.
"""

import os
import sys
from importlib import import_module
from types import ModuleType

from ops.cli.commands import COMMANDS, GROUPS
from schemas.values.near import did_you_mean

EXIT_CODES = (
    "exit codes: 0 done; 1 failed; 2 wrong usage or setting; 3 no machine fits; 4 no answer before the deadline;\n"
    "            141 the reader of the output has closed it"
)
_SIGPIPE = 13
EXTRA_OF = {
    "faust": "stream",
    "aiokafka": "stream",
    "mode": "stream",
    "uvloop": "stream",
    "matplotlib": "plot",
    "grafana_foundation_sdk": "dev",
    "textual": "top",
}
"""The extra of the distribution that installs a package, by its name."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; its module has ``main(argv, environ) -> exit code``."""
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # rich's own way to end
            return _reader_left()
        raise


def _reader_left() -> int:
    """Return the exit code of a process whose output is no longer read, as a shell reports SIGPIPE."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())  # so that the rest of the buffer can be written
    except (OSError, ValueError):
        pass
    finally:
        os.close(nowhere)
    return 128 + _SIGPIPE


def _run(arguments: list[str]) -> int:  # noqa: PLR0911 - one for each way to end
    if arguments[:1] in ([], ["-h"], ["--help"]) or arguments == ["help"]:
        print(_usage())  # noqa: T201
        return 0
    if arguments[0] == "--version":
        from schemas.process.version import product_version

        print(product_version())  # noqa: T201
        return 0
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"windward: {no_command(command)}", file=sys.stderr)  # noqa: T201
        return 2
    from schemas.process.failures import Failure, print_failure
    from schemas.process.settings import SettingsError

    try:
        flags = [word.partition("=")[0] for word in rest]
        if "--config" in flags or any(name.startswith("WINDWARD_") for name in os.environ):
            from ops.cli.known import refuse_unknown

            refuse_unknown(rest, os.environ)
        return int(_imported(COMMANDS[command][0]).main(rest, os.environ))
    except SettingsError as error:
        print_failure(command, "INVALID_ARGUMENT", str(error), as_json=_wants_json(rest))
        return 2
    except Failure as error:
        print_failure(command, "INTERNAL", str(error), as_json=_wants_json(rest), with_code=True)
        return 1
    except ModuleNotFoundError as error:
        missing = _missing(error)
        if missing is None:
            raise
        print(f"windward {command}: {missing}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130


def _missing(error: ModuleNotFoundError) -> str | None:
    """Return what to install for a missing module; None when no extra has it.

    >>> _missing(ModuleNotFoundError(name="matplotlib.figure"))
    "matplotlib is not installed; it comes with: pip install 'windward[plot]'"
    >>> _missing(ModuleNotFoundError(name="scorer.no_such"))
    """
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    return f"{package} is not installed; it comes with: pip install 'windward[{extra}]'" if extra else None


def _imported(name: str) -> ModuleType:
    """Import a command's module without garbage collection, which would take a tenth of the import's time."""
    import gc
    from importlib import import_module

    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.enable()


def _wants_json(arguments: list[str]) -> bool:
    if "--json" in arguments or "--no-json" in arguments:
        return "--json" in arguments
    return os.environ.get("WINDWARD_JSON", "").lower() in ("1", "true")


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = ["usage: windward COMMAND [--help] ..."]
    for group, names in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name.ljust(width)}  {COMMANDS[name][1]}" for name in names)]
    return "\n".join([*lines, "", EXIT_CODES])


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
    """Return the error for an unknown command, with similar names, commands that have such a subcommand, or the help.

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


if __name__ == "__main__":
    sys.exit(main())
