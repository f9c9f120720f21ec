"""What the README, the map and the page of settings name is there; `tests.ops.test_lines` runs their lines."""

import re
from pathlib import Path

from ops.cli.main import COMMANDS, EXIT_CODES

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING = (ROOT / "README.md").read_text(), (ROOT / "CONTRIBUTING.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
HALVES = ("schemas", "streams", "scorer")


def test_the_readme_names_what_exists():
    """Files in backquotes, files of links and commands exist; the README is short, and shows a picture early."""
    for path in re.findall(r"`((?:schemas|streams|scorer|ops|tests|docs)/[\w./-]+)`", README + CONTRIBUTING):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / path).exists(), path
    for command in re.findall(r"`windward ([a-z]+)\b", README):
        assert command in COMMANDS, command
    lines = README.splitlines()
    assert len(lines) <= 150
    assert "![" in "".join(lines[:30])


def test_the_settings_page_has_the_exit_codes():
    for code, about in re.findall(r"(\d+) ([a-z][a-z ]+)", EXIT_CODES):
        assert f"| {code} | {about.strip()} |" in SETTINGS, about


def test_the_map_of_the_packages_is_whole():
    """Each package of schemas, streams and scorer has its line, and no line is of a folder that is not there."""
    lines = set(re.findall(r"^\| `([\w/]+)/` \|", CONTRIBUTING, re.MULTILINE))
    packages = {str(path.parent.relative_to(ROOT)) for name in HALVES for path in (ROOT / name).glob("*/__init__.py")}
    assert lines == {*HALVES, *packages, "ops", "docs", "tests"}


def test_make_targets_named_in_the_readme_exist():
    """``make demo``, ``make test`` and the others are targets."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`make ([a-z-]+)|^    make ([a-z-]+)", README + CONTRIBUTING, re.MULTILINE))
    targets = {name for pair in targets for name in pair if name}
    assert {"demo", "test"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
