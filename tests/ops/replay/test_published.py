"""The pages of results show what their commands print."""

import re
from pathlib import Path

import pytest

from ops.cli.main import main

ROOT = Path(__file__).parents[3]
RESULTS = "\n".join(path.read_text() for path in sorted((ROOT / "docs/results").glob("*.md")))
BLOCK = re.compile(r"<!-- windward (replay [^>]*) -->\n(.*?)\n<!-- end -->", re.DOTALL)
SHOWN = BLOCK.findall(RESULTS)


@pytest.mark.parametrize(("command", "tables"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_tables_are_those_of_the_command(
    command: str, tables: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To draw a page anew, paste what the command prints in its place."""
    monkeypatch.chdir(ROOT)
    assert main(command.split()) == 0
    assert capsys.readouterr().out.strip() == tables.strip()


def test_every_result_is_shown() -> None:
    """No file of results is without its tables."""
    shown = {command.split()[1] for command, _ in SHOWN}
    assert shown == {str(path.relative_to(ROOT)) for path in (ROOT / "docs/results").glob("*.json")}
