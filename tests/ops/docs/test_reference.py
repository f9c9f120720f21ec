"""The pages of reference: every command with its settings, and every metric that rules and dashboards read."""

import re
from pathlib import Path

from ops.cli.commands import COMMANDS
from ops.docs import reference_pages

ROOT = Path(__file__).parents[3]


def test_every_command_has_its_settings() -> None:
    """Each has its heading, and what ``--help`` prints."""
    text = reference_pages.commands()
    assert re.findall(r"^## windward (\S+)$", text, re.MULTILINE) == list(COMMANDS)
    assert "  --redis-url URL" in text
    assert "### windward machines cordon" in text
    assert "SUPPRESS" not in text


def test_every_metric_that_is_read_is_described() -> None:
    """What the alert rules and the dashboards ask for is on the page, and each row says what it is."""
    text = reference_pages.metrics()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| [\w, ]*\| (.+) \|$", text, re.MULTILINE)
    known = {name for name, _, _ in rows}
    files = [*(ROOT / "ops/prometheus/rules").glob("*.yml"), *(ROOT / "ops/grafana/dashboards").glob("*.json")]
    assert files
    asked = {name for file in files for name in re.findall(r"\bwindward_\w+(?![\w:])", file.read_text())}
    asked -= {"windward_docs", "windward_grafana"}  # labels of a Prometheus
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert len(asked) > 50
    assert asked - known == set()
