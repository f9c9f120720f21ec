"""The pages "Which profile?", "Harder worlds" and "Over-commit" show what their commands print."""

import re
from pathlib import Path

import pytest

from ops.cli.main import main

ROOT = Path(__file__).parents[3]
PAGES = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
RESULTS = "\n".join(path.read_text() for path in sorted((ROOT / "docs/results").glob("*.md")))
BLOCK = re.compile(r"<!-- windward (replay [^>]*) -->\n(.*?)\n<!-- end -->", re.DOTALL)
SHOWN = BLOCK.findall(RESULTS)
FIRST = dict(BLOCK.findall(PAGES))


@pytest.mark.parametrize(("command", "tables"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_tables_are_those_of_the_command(
    command: str, tables: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To draw a page anew, paste what the command prints in its place."""
    monkeypatch.chdir(ROOT)
    assert main(command.split()) == 0
    printed = capsys.readouterr().out.strip()
    assert printed == tables.strip()
    assert printed.split("\n\n**")[0] == FIRST[command], "a page has the first table"


def test_every_result_is_shown() -> None:
    """No file of results is without its tables."""
    shown = {command.split()[1] for command, _ in SHOWN}
    assert shown == {str(path.relative_to(ROOT)) for path in (ROOT / "docs/results").glob("*.json")}
