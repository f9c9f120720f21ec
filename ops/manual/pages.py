"""Man pages, one for each command: argparse-manpage writes the settings, this module the sections of all pages."""

from __future__ import annotations

from typing import Any

from argparse_manpage.manpage import Manpage

from ops.cli.commands import COMMANDS
from ops.manual import tree
from schemas.process.flags import Parser

EXIT = (("0", "done"), ("1", "failed"), ("2", "wrong usage or setting"), ("3", "no machine fits"),
        ("4", "no answer before the deadline"), ("141", "the reader of the output has closed it"))  # fmt: skip
SOURCES = """Each setting is a flag, a key of a TOML file and a variable. The variable of a process, such as
WINDWARD_MACHINE of the agent, says nothing of one call. The weakest is first: its default, the file of
\\fB\\-\\-config\\fR (in the table of the command, or in \\fB[all]\\fR), the variable, the flag.
Times are \\fB90s\\fR, \\fB5m\\fR, \\fB2h\\fR or seconds.
Passwords are never flags: \\fBWINDWARD_REDIS_PASSWORD\\fR and \\fBWINDWARD_KAFKA_SASL_PASSWORD\\fR, or the same with
\\fB_FILE\\fR naming a file."""
FILES = """.TP
\\fI/etc/windward/\\fR
settings of the units
.TP
\\fI/etc/default/windward-agent\\fR
variables of the agent's Debian package"""


def pages() -> dict[str, str]:
    """Return each page by the name of its file."""
    return {"windward.1": overview(), **{f"windward-{name}.1": page(name) for name in COMMANDS}}


def overview() -> str:
    """Return the page of `windward` itself."""
    root = tree.whole()
    root._actions = [each for each in root._actions if not each.choices]
    root._action_groups = [group for group in root._action_groups if group.title != "commands"]
    root.usage = "windward COMMAND [--setting VALUE ...]"
    sections = {
        "commands": "\n".join(
            f".TP\n\\fBwindward\\-{name}\\fR(1)\n{roff(about)}" for name, (_, about) in COMMANDS.items()
        ),
        "settings": SOURCES,
        "exit status": "\n".join(f".TP\n{code}\n{about}" for code, about in EXIT),
        "files": FILES,
    }
    return written(root, "windward", "tells which machine takes the next instance", sections)


def page(name: str) -> str:
    """Return the page of one command."""
    parser = tree.command(name)
    examples = parts(parser)
    for each in below(parser):
        examples += parts(each)
        each.description = (each.description or "").partition("\n")[2].strip()  # the first line is its heading
    if name == "agent":
        parser.usage = str(parser.usage).replace("windward agent", "windward-agent")
    see = ["windward", "windward-config", *(["windward-agent"] if name in ("up", "fleet") else [])]
    sections = {
        **({"examples": "\n".join([".nf", *map(roff, examples), ".fi"])} if examples else {}),
        "settings": SOURCES,
        "see also": ", ".join(f"\\fB{roff(other)}\\fR(1)" for other in see if other != f"windward-{name}"),
    }
    return written(parser, f"windward-{name}", COMMANDS[name][1], sections)


def below(parser: Parser) -> list[Parser]:
    """Return the parsers of the subcommands."""
    return [each for action in parser._actions if isinstance(action.choices, dict) for each in action.choices.values()]


def parts(parser: Parser) -> list[str]:
    """Remove the examples from a parser's description and return them, a line each."""
    text, _, examples = (parser.description or "").partition("\nexamples:\n")
    parser.description = text.strip()
    return [line.removeprefix("  ") for line in examples.splitlines() if line.strip()]


def written(parser: Parser, name: str, about: str, sections: dict[str, str]) -> str:
    """Return a page; it has no date, so that the same commands give the same page."""
    data: dict[str, Any] = {"prog": name, "description": about, "project_name": "windward", "manual_section": 1,
                            "manual_title": "Windward", "date": "DATE"}  # fmt: skip
    parser.prog = name
    manual = Manpage(parser, data, format="single-commands-section")
    for heading, content in sections.items():
        manual.add_section(heading, ">", content)
    lines = [line.rstrip() for line in str(manual).splitlines()]
    text = "\n".join(lines) + "\n"
    return text.replace('"DATE"', '""', 1)


def roff(text: str) -> str:
    r"""Return a text with the characters escaped that roff would interpret.

    >>> print(roff(".a-b"))
    \&.a\-b
    """
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
