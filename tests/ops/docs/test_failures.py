"""The page of failures: every row names the tests that show it, and these exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = "\n".join((ROOT / "docs" / name).read_text() for name in ("failures.md", "results/failures.md"))


def rows(head: str) -> dict[str, str]:
    """Return the rows of the table with this head, by their first cell."""
    table = PAGE.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return dict(line.strip("| ").split(" | ", 1) for line in table)


def test_every_failure_names_its_tests() -> None:
    """The second table has each row of the first, and each of its rows has a test."""
    failures, shown = rows("| what is away | what happens | what comes back"), rows("| what is away | shown by |")
    assert len(failures) > 10
    assert list(shown) == list(failures)
    for name, tests in shown.items():
        assert "::" in tests, name


def test_every_test_named_on_the_page_exists() -> None:
    """A test that is renamed is renamed on the page."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"
