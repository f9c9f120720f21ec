"""The examples in ``--help``: every command has one, each is a command as it is typed.

`tests.ops.test_lines` runs what can run here.
"""

import shlex
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from ops.cli import main as cli
from ops.cli.main import COMMANDS
from schemas.process.settings import load_settings

ROOT = Path(__file__).parents[2]

NOT_RUN = {
    "windward up": "runs until Ctrl-C: tests/integration/stack/test_stack_up.py",
    "windward demo": "a stack of its own, for some minutes: tests/integration/stack/test_demo.py",
    "windward agent --kafka": "runs until it is stopped: tests/integration/stream/test_agent.py",
    "windward fleet": "runs until it is stopped: tests/integration/stream/test_fleet.py",
    "windward bridge": "runs until it is stopped: tests/integration/stream/test_agent.py",
    "windward stream": "runs until it is stopped: tests/integration/stream/test_recovery.py",
    "windward scorer": "runs until it is stopped: tests/integration/scorer/test_rpc.py",
    "windward planner": "runs until it is stopped: tests/integration/planner/test_planner.py",
    "windward exporter": "runs until it is stopped: tests/integration/observe/test_exporter.py",
    "windward load-watcher": "runs until it is stopped: tests/integration/kubernetes/test_load_watcher.py",
    "windward evictor": "runs until it is stopped: tests/integration/kubernetes/test_evictor.py",
    "windward extender": "runs until it is stopped: tests/integration/kubernetes/test_extender.py",
    "windward pods": "runs until it is stopped: tests/integration/kubernetes/test_pods.py",
    "windward record": "runs until it is stopped: tests/integration/observe/test_record.py",
    "windward events --follow": "runs until Ctrl-C: tests/integration/ledger/test_events.py",
    "windward instances --state reserved --watch": "runs until Ctrl-C: tests/integration/commands/test_commands.py",
    "windward machines --sort cpu --watch": "runs until Ctrl-C: tests/integration/commands/test_commands.py",
    "windward replay": "needs a trace: tests/ops/replay/test_command.py",
    "windward confirm db-1 --machine": "a move to m2 must be under way: tests/integration/ledger/test_ledger.py",
    "windward ledger accept": "there is no emptied ledger here: tests/integration/ledger/test_ledger_lost.py",
}
"""Beginnings of the examples that are not run here, and why; their flags are read all the same."""

_WEB = "windward place --cpu 1 --memory 1G --id web-7 --labels app=web"
BEFORE = {
    "windward ledger restore": "windward ledger export ledger.jsonl",
    "windward confirm db-1": "windward place --cpu 2 --memory 10G --id db-1",
    "windward update db-1": "windward place --cpu 2 --memory 10G --id db-1; windward confirm db-1",
    "windward instances show": "windward place --cpu 2 --memory 10G --id db-1",
    "windward release db-1": "for id in db-1 db-2; do windward place --cpu 1 --memory 1G --id $id; done",
    "windward confirm 'web-*'": _WEB,
    "windward confirm --selector": _WEB,
    "windward release 'web-*'": _WEB,
    "windward release --selector": _WEB,
    "windward why": "windward place --cpu 2 --memory 10G --id db-1",
    "windward machines uncordon": "windward machines cordon sim-00003",
    "windward machines forget": "windward machines label sim-99999 disk=ssd --ahead",
    "windward machines rename": "windward machines label sim-00005 disk=ssd",
    "windward profiles check": "windward profiles show windward > mine.toml",
}
"""What is there already when an example is typed."""

MAY_FAIL = {
    "windward doctor": 1,
    "windward health": 1,
    "windward learned": 1,
    "windward capacity --cpu 2 --memory 10G --by": 3,
    "windward drain sim-00001 --lost --apply": 2,  # it is not dead
    "windward drain sim-00001": 3,
    "windward drain --consolidate": 3,
    "windward plan": 3,
}
"""Exit codes of commands that tell by them what they found."""


def typed():
    """Every command as it is typed, with its second word where it has some, and the settings."""
    for command, (module, _) in COMMANDS.items():
        settings = import_module(module).SETTINGS
        for verb, cls in (settings if isinstance(settings, dict) else {"": settings}).items():
            assert cls.EXAMPLES, f"windward {command} {verb}: --help has no example"
            yield command, verb, cls


COMMANDS_TYPED = list(typed())
EXAMPLES = [(line.partition("  #")[0].strip(), *of) for of in COMMANDS_TYPED for line in of[2].EXAMPLES]
LINES = [line for line, *_ in EXAMPLES]
TYPED = [line for line in LINES if not any(line.startswith(start) for start in NOT_RUN)]


@pytest.mark.parametrize(("command", "verb"), [of[:2] for of in COMMANDS_TYPED])
def test_every_help_shows_its_examples(command, verb, capsys):
    """What a user sees has one at least, and each is one of those that are read and run here."""
    with suppress(SystemExit):
        cli.main([command, *([verb] if verb else []), "--help"])
    shown = capsys.readouterr().out
    assert "\nexamples:\n" in shown
    below = shown.partition("\nexamples:\n")[2].partition("\n\n")[0].splitlines()
    lines = [line.partition("  #")[0].strip() for line in below]
    assert lines
    assert set(lines) <= set(LINES)
    assert {line for line, *of in EXAMPLES if of[:2] == [command, verb]} <= set(lines)


DEVELOPERS = {"ops.completions", "ops.docs", "ops.grafana", "ops.packages"}
"""Modules that are run from a checkout, and are no commands."""


def test_every_entry_point_is_a_command():
    """What a package installs, and every module that can be run: its help is one of those above."""
    commands = {module.removesuffix(".__main__") for module, _ in COMMANDS.values()}
    modules = {
        ".".join(path.relative_to(ROOT).parts[:-1])
        for package in ("schemas", "streams", "scorer", "ops")
        for path in (ROOT / package).rglob("__main__.py")
    }
    assert modules - commands == DEVELOPERS
    installed = [
        tomllib.loads(file.read_text())["project"].get("scripts", {})
        for file in (ROOT / "pyproject.toml", *(ROOT / "ops/packages").glob("*/pyproject.toml"))
    ]
    starts = {name: start.partition(":")[0] for scripts in installed for name, start in scripts.items()}
    assert starts.pop("windward") == "ops.cli.main"
    assert starts == {"windward-agent": "streams.agent.command"}  # its help: tests/streams/agent/test_command.py


def test_what_is_not_run_exists():
    for start in (*NOT_RUN, *BEFORE, *MAY_FAIL):
        assert any(line.startswith(start) for line in LINES), start


@pytest.mark.parametrize(("line", "command", "verb", "cls"), EXAMPLES, ids=LINES)
def test_the_flags_of_an_example_are_there(line, command, verb, cls):
    first = shlex.split(line.partition(" | ")[0].partition(" > ")[0])
    assert first[:2] == ["windward", command]
    words = first[2:]
    if words[:1] == [verb] or command == "bridge":  # that word of the bridge is the other agent
        words = words[1:]
    elif verb and (command, verb) != (command, next(iter(import_module(COMMANDS[command][0]).SETTINGS))):
        pytest.fail(f"{line!r} is not an example of `windward {command} {verb}`")
    load_settings(cls, f"{command} {verb}".strip(), words, {})
