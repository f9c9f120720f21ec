"""``python -m ops.completions [FOLDER]``: write completions below FOLDER (``build/completions``), to look at them.

`ops.packages` puts the same files into the packages that it builds. They are not in git, and a plain ``pip install`` or
``pip wheel`` of a checkout leaves them out: to make them, every package that any command imports must be there, which a
build environment has not. Man pages were rejected: `windward COMMAND --help` prints the same. Shell.
"""

import argparse
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import shtab

from ops.cli.commands import COMMANDS
from schemas.process.flags import Parser, bare, parser_of
from schemas.resources import PRIORITY_CLASSES
from scorer.settings import ClientSettings
from streams.bridge.settings import AGENTS

WORDS = {"bridge": ("agent", AGENTS, "whose messages to read")}
"""By command, a positional argument that is no setting: its name, its choices, its description."""

NAMES = {
    "machines": "windward machines -o name --limit 10000 --timeout 1s 2>/dev/null",
    "instances": "windward instances -o name --limit 10000 --timeout 1s 2>/dev/null",
    "profiles": "windward profiles -o name 2>/dev/null",
}
"""The command that a shell runs to complete names; the environment names server and user."""
VALUES = {
    "machine": "machines", "explain": "machines", "profile": "profiles", "baseline": "profiles",
    "swap_role_with": "instances", "after": "instances",
}  # fmt: skip
"""Which names complete the value of a flag. All but profiles only where the command asks a scorer."""
SUBJECTS = {
    "machines": "machines", "drain": "machines", "profiles": "profiles", "instances": "instances", "why": "instances",
    "confirm": "instances", "update": "instances", "release": "instances", "events": "instances",
}  # fmt: skip
"""Which names complete the words of a command that are no flags."""


_FILES = ("FILE", "PATH", "TRACE|WORKLOAD|RECORDING")
"""Metavars of files."""


def whole() -> Parser:
    """Return the parser of `windward`, with a subparser for each command, and these with one for each subcommand."""
    root = Parser(prog="windward", add_help=False, description="Tells which machine takes the next instance.")
    root.add_argument("--version", action="store_true", help="show the version and exit")
    root.add_argument("-h", "--help", action="help", help="show the commands and exit")
    commands = root.add_subparsers(title="commands", metavar="COMMAND")
    for name, (_, about) in COMMANDS.items():
        parser = command(name)
        _with_default(parser)
        put(commands, name, parser, about)
    return root


def _with_default(parser: Parser) -> None:
    """Add the flags of the subcommand `list` to a command, which without a subcommand runs `list`."""
    for verbs in [action.choices for action in parser._actions if isinstance(action.choices, dict)]:
        for action in verbs["list"]._actions if "list" in verbs else ():
            if action.option_strings and action.dest != "help":
                parser._add_action(action)


def command(name: str) -> Parser:
    found: Any = import_module(COMMANDS[name][0]).SETTINGS
    if not isinstance(found, Mapping):
        return one(found, f"windward {name}", WORDS.get(name))
    usage = f"windward {name} WORD [--setting VALUE ...]"
    about = COMMANDS[name][1]
    parser = Parser(prog=f"windward {name}", usage=usage, add_help=False, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument("-h", "--help", action="help", help="show this and exit")
    verbs = parser.add_subparsers(title="subcommands", metavar="WORD")
    for verb, cls in found.items():
        summary = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0].replace("``", "").rstrip(".")
        put(verbs, verb, one(cls, f"windward {name} {verb}"), summary)
    return parser


def one(cls: type, prog: str, word: tuple[str, tuple[str, ...], str] | None = None) -> Parser:
    """Return the parser of a settings class, with the choices of values for completions."""
    parser = parser_of(cls, prog)
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for action in parser._actions:
        if action.dest not in fields:
            complete(action, Path if action.dest == "config" else str)
            continue
        complete(action, bare(hints[action.dest]))
        if named := _named(cls, prog, action):
            action.complete = names_of(named)  # type: ignore[attr-defined]
    if word:
        name, choices, about = word
        parser.add_argument(name, choices=choices, help=f"{about}: {' or '.join(choices)}")
        parser.usage = str(parser.usage).replace(prog, f"{prog} {'|'.join(choices)}", 1)
    return parser


def complete(action: argparse.Action, kind: Any) -> None:
    """Set what completes a value: its choices, a file or a folder."""
    if typing.get_origin(kind) is tuple:
        kind = typing.get_args(kind)[0]
    if action.dest == "priority_class" or action.metavar == "CLASS":
        action.choices = PRIORITY_CLASSES
    elif action.metavar == "COMMAND":
        action.choices = tuple(COMMANDS)
    elif typing.get_origin(kind) is typing.Literal and action.nargs != 0:
        action.choices = [value for value in typing.get_args(kind) if value]
    elif action.nargs != 0:
        if action.metavar == "DIR" or action.dest.endswith("_dir"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif kind is Path or action.metavar in _FILES or action.dest.endswith("_file"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]


def _named(cls: type, prog: str, action: argparse.Action) -> str:
    """Return the entry of `NAMES` whose names complete a value; "" for none."""
    if hasattr(action, "complete"):
        return ""
    if action.option_strings:
        named = "" if action.metavar == "POSITION" else VALUES.get(action.dest, "")
        return named if named == "profiles" or issubclass(cls, ClientSettings) else ""
    return "" if action.dest == "file" else SUBJECTS.get(prog.split()[1], "")


def names_of(kind: str) -> dict[str, Any]:
    """Return the shell code that fetches names, in shtab's form.

    Chosen over `shtab.cmd`, which in zsh runs the command for each flag when the shell starts, not when a word is
    completed.
    """
    command, function = NAMES[kind], f"_windward_{kind}"
    bash = f'{function}() {{\n  compgen -W "$({command})" -- "$1"\n}}'
    zsh = f'{function}() {{\n  compadd -- ${{(f)"$({command})"}}\n}}'
    return {"bash": function, "zsh": function, "fish": f"({command})", "preamble": {"bash": bash, "zsh": zsh}}


def put(below: Any, name: str, parser: Parser, about: str) -> None:
    below._name_parser_map[name] = parser
    below._choices_actions.append(below._ChoicesPseudoAction(name, (), about))


AGENT = "windward-agent"
PLACES = {
    "bash": "share/bash-completion/completions/{}",
    "zsh": "share/zsh/site-functions/_{}",
    "fish": "share/fish/vendor_completions.d/{}.fish",
}
"""Where a shell looks for the completion of a command, below the prefix of an installation."""


def files() -> dict[str, dict[str, str]]:
    """Return the text of every file by distribution and by its path below the prefix of an installation."""
    agent = command("agent")
    agent.prog = AGENT
    return {"windward": completions("windward", whole()), AGENT: completions(AGENT, agent)}


AT_EQUALS_SIGNS = """
# bash splits words at "=": --flag=value becomes two words, as --flag value is; name=value becomes one again
_windward_words() {
  local at word before="" words=() current=0 whole=""
  for at in "${!COMP_WORDS[@]}"; do
    word="${COMP_WORDS[at]}"
    (( at > COMP_CWORD )) && break
    if [[ $word == = && $before == --* ]]; then
      word=""
      words+=("")
    elif [[ $word == --*=* ]]; then
      words+=("${word%%=*}" "${word#*=}")
      whole="${word%%=*}="
    elif [[ ${#words[@]} -gt 0 && -z ${words[-1]} && $before == = ]]; then
      words[-1]="$word"
    elif [[ ${#words[@]} -gt 0 && ( $word == = || $before == = ) ]]; then
      words[-1]+="$word"
    else
      words+=("$word")
    fi
    before="${COMP_WORDS[at]}"
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$(( ${#words[@]} - 1 ))
  "$1"
  [[ -n $whole && ${COMP_WORDS[COMP_CWORD-1]} == "${whole%=}" ]] && COMPREPLY=("${COMPREPLY[@]/#/$whole}")
  return 0
}
"""
"""Runs the function of `shtab` on the words as a parser of arguments has them."""
_WITH_VALUE = re.compile(r'"(--[\w-]+)\[((?:\\.|[^]\\])*)]:')
"""A flag with a value, as zsh's `_arguments` has it; with "=" behind its name it is completed after that sign, too."""


def completions(name: str, parser: Parser) -> dict[str, str]:
    return {place.format(name): completion(parser, shell) for shell, place in PLACES.items()}


def completion(parser: Parser, shell: str) -> str:
    text = str(shtab.complete(parser, shell=shell))
    if shell == "zsh":
        text = _WITH_VALUE.sub(r'"\1=[\2]:', text)
    if shell == "bash":
        head, last = text.rstrip().rsplit("\n", 1)  # complete -o bashdefault -F FUNCTION PROGRAM
        function, program = last.split()[-2:]
        asked = f"{function}_asked() {{ _windward_words {function}; }}"
        text = "\n".join([head, AT_EQUALS_SIGNS, asked, f"complete -o bashdefault -F {function}_asked {program}"])
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main(argv: list[str]) -> int:
    folder = Path(argv[0] if argv else "build/completions")
    for found in files().values():
        for name, text in found.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
