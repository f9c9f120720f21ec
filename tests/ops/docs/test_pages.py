"""The pages that are made from the product: complete, and with the numbers that the product gives."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from ops.docs import decision_page, plugin_pages, profiles_page, rpc_page
from ops.docs.shapes import SHAPES, drawn
from ops.docs.site import navigation
from schemas.asyncapi import document
from scorer.ranking.filters import FILTERS
from scorer.ranking.profiles.catalogue import built_in_profiles
from scorer.ranking.scores import SCORES
from tests.rows import each_row

DIFFERENCE_MIN = 15.0
"""Of the points of a score: less than this is a flat line to the eye."""
ROOT = Path(__file__).parents[3]
PLUGINS = [(each, "filter") for each in FILTERS] + [(each, "score") for each in SCORES]


@each_row(("plugin", "kind"), PLUGINS, ids=[each.name for each, _ in PLUGINS])
def test_the_picture_of_a_plugin_shows_a_difference(plugin: type, kind: str) -> None:
    """What is drawn is finite, in range, and not the same everywhere: else the picture would show nothing."""
    seen = drawn(plugin, is_filter=kind == "filter")
    values = [value for line in seen.lines.values() for value in line]
    assert all(math.isfinite(value) and 0 <= value <= 100.0 + 1e-6 for value in values)
    assert max(values) - min(values) >= (1 if kind == "filter" else DIFFERENCE_MIN)
    assert all(len(line) == len(seen.x) for line in seen.lines.values())


@each_row(("plugin", "kind"), PLUGINS, ids=[each.name for each, _ in PLUGINS])
def test_the_page_of_a_plugin_has_its_docstring_and_every_setting(plugin: type, kind: str) -> None:
    """Each setting is in the table; no literal of the docstring's markup is left."""
    text = plugin_pages.page(plugin, kind, drawn(plugin, is_filter=kind == "filter"), built_in_profiles())
    assert text.startswith(f"# {plugin.name}\n")
    for name in [each.name for each in dataclasses.fields(plugin)]:
        assert f"| `{name}` |" in text
    assert "``" not in text.replace("```", "")


def test_the_picture_of_over_commit_shows_every_row() -> None:
    """Each profile of the results is a point in sight, with its share beside it."""
    from matplotlib.figure import Figure

    from ops.docs import class_pictures

    axes = Figure().subplots()
    class_pictures.over_commit(axes)
    low, high = axes.get_ylim()
    assert low < 1.05 < high
    shown = [text.get_text() for text in axes.texts]
    assert {"0.6", "0.7", "0.8", "0.9", "windward"} <= set(shown)
    assert all(low < text.xy[1] < high for text in axes.texts if hasattr(text, "xy"))


def test_the_picture_of_the_profiles_shows_each_policy_by_family() -> None:
    """Each has a mark in sight in the column of all worlds."""
    from matplotlib.figure import Figure

    from ops.docs import class_pictures

    axes = Figure().subplots()
    class_pictures.which_profile(axes)
    low, high = axes.get_ylim()
    marks = [line for line in axes.lines if line.get_marker() not in {"", "None", None} and len(line.get_xdata())]
    assert all(low <= float(line.get_ydata()[0]) <= high for line in marks)
    at = [name for name, *_ in class_pictures.SHOWN].index("all")
    inside = {line.get_marker() for line in marks if abs(float(line.get_xdata()[0]) - at) < 0.5}
    assert inside == {marker for *_, marker in class_pictures.COMPARED}


def test_no_shape_is_of_a_plugin_that_is_gone() -> None:
    """The table of shapes names filters and scores that there are."""
    assert set(SHAPES) <= {each.name for each, _ in PLUGINS}


def test_the_numbers_of_the_decision_are_those_of_the_ranking() -> None:
    """The chosen machine has the highest total; measured mean, credit and debit add up to what is seen."""
    text = decision_page.page()
    seen = {}
    for name in ("taken", "left"):
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        seen[name] = measured, credit, debit, both = [float(cell) for cell in row.split("|")[2:6]]
        assert measured + credit - debit == pytest.approx(both, abs=0.01)
    learned = decision_page.LEARNED["cpu"]
    assert seen["taken"][1] == pytest.approx(8 * learned * 5 / 6, abs=0.001)
    assert seen["left"][2] == pytest.approx(8 * learned * 58 / 60, abs=0.001)
    totals = next(line for line in text.splitlines() if line.startswith("| **total**"))
    found = [float(value) for value in re.findall(r"\*\*([\d.]+)\*\*", totals)]
    assert found == sorted(found, reverse=True)
    assert "4/6 feasible: 1 cpu too full, 1 stale" in text
    assert "learned: 40% of what is asked, of the fleet" in text
    assert "chance of more than 80%" in text


def test_the_profiles_are_compared_on_one_fleet() -> None:
    """Each profile has a row with a machine that it chose."""
    text = profiles_page.page(built_in_profiles())
    for name in built_in_profiles():
        assert re.search(rf"\| {name} \|.*\*\*[\d.]+\*\*.*\|", text)


def test_the_rpc_page_has_every_method_and_every_field() -> None:
    """Each method is a section; each type is shown once, with a row for each of its fields."""
    text = rpc_page.page(document())
    for method in document()["operations"]:
        assert f"\n## {method}\n" in text
        assert f"### {method}: its parameters" in text
        assert f"### {method}: its result" in text
    for name, schema in document()["components"]["schemas"].items():
        assert len(re.findall(rf"^####? {name}\b", text, re.MULTILINE)) == 1, name
        assert all(f"| `{field}` |" in text for field in schema.get("properties", ()))


def test_every_page_is_in_the_navigation_once() -> None:
    """A page that nobody has given a place is under More."""
    pages = ["index.md", "filters.md", "filters/fits.md", "new.md", "sizing.md"]
    text = json.dumps(navigation(pages))
    assert all(text.count(json.dumps(page)) == 1 for page in pages)
    assert {"More": ["new.md"]} in navigation(pages)
