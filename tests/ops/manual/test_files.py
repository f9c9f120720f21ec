"""Man pages and completions: current, complete, and what bash completes by them."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from ops.cli.commands import COMMANDS
from ops.cli.known import classes
from ops.manual import __main__ as manual
from schemas.process.flags import flag

FILES = manual.files()
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"_shtab_${1//-/_}"
echo "${COMPREPLY[@]}"
"""


def test_the_files_are_current() -> None:
    """``python -m ops.manual`` writes them; commit what it wrote."""
    kept = {
        str(path.relative_to(manual.HERE)): path.read_text()
        for path in manual.HERE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    stale = sorted(name for name in kept.keys() | FILES.keys() if kept.get(name) != FILES.get(name))
    assert not stale, "run python -m ops.manual"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_a_command_has_its_settings(command: str) -> None:
    """Every flag that its help shows; no secret."""
    text = FILES["agent/man/windward-agent.1" if command == "agent" else f"man/windward-{command}.1"]
    assert text.startswith(f'.TH WINDWARD\\-{command.upper()} "1" ""')
    assert f"windward\\-{command} \\- " in text
    plain = text.replace("\\-", "-")
    for cls in classes(command):
        for field in dataclasses.fields(cls):
            if field.metadata.get("secret"):
                assert f"{flag(field.name)}\\" not in plain
            elif not field.metadata.get("positional"):
                assert any(f"\\fB{name}\\fR" in plain for name in (flag(field.name), flag(f"no_{field.name}"))), (
                    field.name
                )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("windward plac", "place"),
        ("windward machines co", "cordon"),
        ("windward place --best", "--best-effort"),
        ("windward machines list --sort ag", "age"),
        ("windward bridge t", "telegraf"),
        ("windward place --redis-pass", ""),
        ("windward-agent --dry", "--dry-run"),
    ],
)
def test_bash_completes(words: str, expected: str, tmp_path: Path) -> None:
    """Commands, subcommands, flags, values of a choice; a secret has no flag."""
    name = words.partition(" ")[0]
    file = manual.HERE / ("agent/bash" if name == "windward-agent" else "bash") / name
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", str(file), *words.split()],
        check=True, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.split() == expected.split()
    assert done.stderr == ""
