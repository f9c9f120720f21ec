"""The pages that are made from the product, those of reference, and the page of failures: complete, and true."""

import dataclasses
import json
import math
import re
import typing
from pathlib import Path

import pytest

from ops.cli.commands import COMMANDS
from ops.docs import reference_pages, rpc_page
from ops.docs.__main__ import MADE_OF, generated, navigation
from ops.docs.shapes import SHAPES, drawn
from schemas.rpc.envelope import Code
from schemas.rpc.parameters import RPC
from schemas.rpc.request import read_request
from scorer.commands.placing.ranked import in_words
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ranking.explain import answer as answer_of
from scorer.ranking.filters import FILTERS
from scorer.ranking.machines import COLUMNS
from scorer.ranking.profiles.catalogue import built_in_profiles, load_profiles
from scorer.ranking.profiles.profile_file import _TOP
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.ranking.rank import rank
from scorer.ranking.scores import SCORES

DIFFERENCE_MIN = 15.0
"""Of the points of a score: less than this is a flat line to the eye."""
ROOT = Path(__file__).parents[3]
PLUGINS = [(each, "filter") for each in FILTERS] + [(each, "score") for each in SCORES]


DRAWN = [(each, kind) for each, kind in PLUGINS if each.name in SHAPES]


@pytest.mark.parametrize(("plugin", "kind"), DRAWN, ids=[each.name for each, _ in DRAWN])
def test_the_picture_of_a_plugin_shows_a_difference(plugin, kind):
    """What is drawn is finite, in range, and not the same everywhere: else the picture would show nothing."""
    lines = drawn(plugin, SHAPES[plugin.name], is_filter=kind == "filter")
    values = [value for line in lines.values() for value in line]
    assert all(math.isfinite(value) and 0 <= value <= 100.0 + 1e-6 for value in values)
    assert max(values) - min(values) >= (1 if kind == "filter" else DIFFERENCE_MIN)
    assert all(len(line) == len(SHAPES[plugin.name].values) for line in lines.values())


@pytest.mark.parametrize(("plugin", "kind"), PLUGINS, ids=[each.name for each, _ in PLUGINS])
def test_the_page_of_a_plugin_has_its_docstring_and_every_setting(plugin, kind):
    text = reference_pages.page(plugin, kind)
    assert text.startswith(f"# {plugin.name}\n")
    for name in [each.name for each in dataclasses.fields(plugin)]:
        assert f"| `{name}` |" in text


def test_no_shape_is_of_a_plugin_that_is_gone():
    """The table of shapes names filters and scores that there are."""
    assert set(SHAPES) <= {each.name for each, _ in PLUGINS}


def test_the_numbers_of_the_decision_are_those_of_the_ranking():
    """Each figure of each table, and the words at the end, are what the product gives for the file that is named."""
    fleet = read_fleet(json.loads((ROOT / "docs/examples/decision.json").read_text()))
    ranking = rank(read_request({"cpu": 2, "memory": "10G"}), fleet.inputs(load_profiles().choose()))
    text, machines = (ROOT / "docs/decision.md").read_text(), ranking.machines
    answer = answer_of(ranking, len(machines), explain_all=True)
    said = {each.machine: each for each in answer.machines or ()}
    for row in range(len(machines)):
        terms = said[machines.name(row)].resources["cpu"]
        cells = [terms["mean"], terms["credit"], terms["debit"], machines.mean[0, row], terms["std"], terms["promised"]]
        shown = " | ".join(f"{float(cell):.4g}" for cell in cells)
        assert f"| `{machines.name(row)}` | {shown} | {machines.age_s[row]:g} |" in text
    best = ranking.best_first.tolist()
    for verdict in ranking.verdicts:
        passed = [not ranking.said(verdict, row)[0] for row in range(len(machines))]
        words = " | ".join("ok" if each else "**refused**" for each in passed)
        assert f"| [{verdict.filter.name}](../scorer/ranking/filters/{verdict.filter.name}.py) | {words} |" in text
    for term in ranking.terms:
        assert f", raw | {' | '.join(f'{term.raw[row]:.4g}' for row in best)} |" in text
        weighed = f"| weight {term.weighted.weight:g}, {term.weighted.normalise} | "
        assert weighed + " | ".join(f"{term.value(row):.4g}" for row in best) + " |" in text
    assert f"| **total** | {' | '.join(f'**{ranking.total[row]:.4g}**' for row in best)} |" in text
    assert f"**{answer.summary}**" in text
    assert "\n".join(in_words(answer)) in text


def test_the_page_of_the_profiles_has_each_file():
    """As it is: settings and comments; before them every key that a profile may have."""
    text = reference_pages.profiles()
    keys = text.partition("## The keys")[2].partition("\n## ")[0]
    assert all(re.search(rf"^\[*{key}\b", keys, re.MULTILINE) for key in _TOP)
    assert all(f"| `{one.name}` |" in keys for one in dataclasses.fields(Rebalancing))
    for name, profile in built_in_profiles().items():
        assert f"\n## {name}\n" in text
        assert f'description = "{profile.description}"' in text


def test_the_rpc_page_has_every_method_and_every_field():
    """Each method is a section; each type is shown once, with a row for each of its fields."""
    text = rpc_page.page()
    assert all(f"\n## {method}\n" in text for method in RPC)
    assert set(rpc_page.CODES) == set(typing.get_args(Code))
    for name, schema in rpc_page.types().items():
        assert len(re.findall(rf"^### {name}$", text, re.MULTILINE)) == 1, name
        assert all(f"| `{field}` |" in text for field in schema.get("properties", ()))


def test_every_page_is_in_the_contents_once():
    """A page that nobody has given a place is under More; those of filters and scores are below theirs."""
    text = navigation(["index.md", "filters.md", "filters/fits.md", "new.md", "sizing.md"])
    assert [text.count(page) for page in ("index.md", "filters.md", "filters/fits.md", "sizing.md")] == [0, 1, 0, 1]
    assert ":caption: More\nnew.md" in text


def test_every_command_has_its_settings():
    """Each has its heading, and what ``--help`` prints."""
    text = reference_pages.commands()
    assert re.findall(r"^## windward (\S+)$", text, re.MULTILINE) == list(COMMANDS)
    assert "  --redis-url URL" in text
    assert "### windward machines cordon" in text
    assert "SUPPRESS" not in text


def test_every_metric_that_is_read_is_described():
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


TREE = Path(__file__).parents[3]
FAILURES = "\n".join((TREE / "docs" / name).read_text() for name in ("failures.md", "results/failures.md"))


def rows(head):
    """Return the rows of the table with this head, by their first cell."""
    table = FAILURES.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return dict(line.strip("| ").split(" | ", 1) for line in table)


def test_every_failure_names_its_tests():
    """The second table has each row of the first, and each of its rows has a test."""
    failures, shown = rows("| what is away | what happens | what comes back"), rows("| what is away | shown by |")
    assert len(failures) > 10
    assert list(shown) == list(failures)
    for name, tests in shown.items():
        assert "::" in tests, name


def test_every_link_to_a_file_works_in_the_checkout():
    pages = [*TREE.glob("*.md"), *(TREE / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())]
    assert len(links) > 200
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_a_source_that_pages_link_to_has_a_page_on_the_site():
    made = dict(generated())
    assert all(page in made and (TREE / source).exists() for source, page in MADE_OF.items())


def test_every_test_named_on_the_page_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", FAILURES)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (TREE / file).read_text(), f"{file}::{test}"


def test_every_column_that_a_plugin_reads_is_on_its_page():
    table = (TREE / "docs/writing-plugins.md").read_text().partition("## The columns")[2].partition("With arguments")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert {name for cell in cells for name in re.findall("`(.+?)`", cell)} == COLUMNS
