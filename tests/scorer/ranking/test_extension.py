"""A filter or score of another package: the documented example, installed, registered and in use."""

from __future__ import annotations

import doctest
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.rpc.request import read_request
from scorer import plugins
from scorer.ledger.record.limits import total
from scorer.placement.offers.offer import limits
from scorer.planning.wanted.wanted import compare
from scorer.ranking.explanation.explain import summary
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.scorer.fleets import fleet, machine, request

POINT = "least_crowded = your_package:LeastCrowded"
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/writing-plugins.md").read_text()


def documented_example() -> str:
    """Return the code of the example in the documentation of `scorer.ranking.profiles.plugins`."""
    text = plugins.__doc__ or ""
    start = text.index("    from dataclasses import dataclass")
    end = text.index("Optional members")
    return textwrap.dedent(text[start:end])


def install(folder: Path, code: str, *points: str) -> None:
    """Lay out an installed package with entry points; without any named, that of the example."""
    (folder / "your_package.py").write_text(code)
    about = folder / "your_package-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: your-package\nVersion: 1\n")
    lines = points if len(points) > 1 else ("[windward.scores]", *(points or [POINT]))
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder on the path; plugins are looked for anew before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.scores.cache_clear()
    plugins.filters.cache_clear()
    yield tmp_path
    plugins.scores.cache_clear()
    plugins.filters.cache_clear()
    sys.modules.pop("your_package", None)


def test_the_documented_example_is_short_and_works(folder: Path) -> None:
    """The twenty lines of the documentation are a score that a profile can name and that decides."""
    code = documented_example()
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    install(folder, code)
    profile = parse_profile('[[scores]]\nuse = "least_crowded"\nfull = 4', "mine")
    offline = fleet(machine("a"), machine("b"), instances=[{"id": str(n), "machine": "a"} for n in range(3)])
    found = rank(request(), offline.inputs(profile))
    assert found.chosen == "b"
    assert found.total.tolist() == [25, 100]


MAINTENANCE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class Maintenance:
    name: ClassVar[str] = "maintenance"
    reason: ClassVar[str] = "in maintenance"

    def __call__(self, request, machines):
        return np.array([machines.name(position) != "a" for position in range(len(machines))])


@dataclass(frozen=True)
class Soon(Maintenance):
    name: ClassVar[str] = "soon"
    momentary: ClassVar[bool] = True
"""


@pytest.mark.parametrize(("use", "actions"), [("maintenance", ["move"]), ("soon", [])])
def test_a_filter_says_whether_what_it_refuses_stays(folder: Path, use: str, actions: list[str]) -> None:
    """Of a momentary state: the plan of wanted instances leaves those that are there, and places no new one there."""
    points = ("maintenance = your_package:Maintenance", "soon = your_package:Soon")
    install(folder, MAINTENANCE, "[windward.filters]", *points)
    profile = parse_profile(f'[[filters]]\nuse = "{use}"', "mine")
    offline = fleet(machine("a"), machine("b"), instances=[{"id": "there", "machine": "a", "cpu": 1, "memory": 1}])
    asked = read_request({"id": "there", "cpu": 1, "memory": 1})
    assert [step.action for step in compare([asked], offline.inputs(profile)).steps] == actions
    (step,) = compare([read_request({"id": "new", "cpu": 1})], offline.inputs(profile)).steps
    assert (step.action, step.target) == ("place", "b")


def test_momentary_is_yes_or_no(folder: Path) -> None:
    """Anything else is refused when the entry point is loaded."""
    install(folder, MAINTENANCE.replace("= True", '= "yes"'), "[windward.filters]", "soon = your_package:Soon")
    with pytest.raises(plugins.PluginError, match="expected momentary to be True or False"):
        plugins.filters()


def test_the_package_of_the_page_works(folder: Path) -> None:
    """Its classes, entry points and profile, put together as the page says: the filter refuses and gives its limit."""
    begin = ("from dataclasses", "from typing", "from scorer.plugins", "import", "@dataclass")
    steps = [one.source for one in doctest.DocTestParser().get_examples(PAGE)]
    about, added = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    project = tomllib.loads(about)["project"]
    assert project.keys() == {"name", "version", "entry-points"}
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    install(folder, "".join(one for one in steps if one.startswith(begin)), *lines)
    profile = parse_profile((ROOT / "scorer/ranking/profiles/windward.toml").read_text() + added, "mine")
    assert [profile.filters[-1].filter.name, profile.scores[-1].score.name] == ["little_batch", "least_crowded"]
    usage = {"cpu": 1, "memory": 1, "nic": 0}
    batch = {"id": "1", "machine": "a", "cpu": 1, "priority_class": "batch"}
    offline = fleet(*(machine(name, 32, usage=usage) for name in "ab"), instances=[batch])
    found = rank(request(cpu=9, priority_class="batch"), offline.inputs(profile))
    assert (found.chosen, summary(found)) == ("b", "1/2 feasible: 1 batch has its cores")
    (limit,) = [one for one in limits(found, [1], found.request)[0] if one.reason == "batch has its cores"]
    assert (limit.measure, limit.most) == (total("cpu", "batch", "free"), pytest.approx(9.6))


def test_its_settings_are_checked_as_the_built_in_ones(folder: Path) -> None:
    """A wrong setting of a third party's plugin names line and field."""
    install(folder, documented_example())
    with pytest.raises(ProfileError, match=r"line 3: scores\[1\]\.full: expected 1 or more, got 0"):
        parse_profile('[[scores]]\nuse = "least_crowded"\nfull = 0', "mine")


@pytest.mark.parametrize(
    ("code", "point", "message"),
    [
        ("x = 1", "mine = your_package:Missing", "mine of windward.scores cannot be loaded"),
        ("class Mine: pass", "mine = your_package:Mine", "mine of windward.scores is no plugin"),
        (
            "class Mine:\n    name = 'spread'\n    def __call__(self): pass",
            "mine = your_package:Mine",
            "'spread' is taken",
        ),
        (
            "class Mine:\n    name = 'mine'\n    def __call__(self): pass",
            "mine = your_package:Mine",
            r"windward.scores: expected @dataclass\(frozen=True\) \(your_package:Mine\)",
        ),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass Mine:\n    name = 'mine'\n    def __call__(self): pass",
            "mine = your_package:Mine",
            r"expected @dataclass\(frozen=True\)",
        ),
        (
            "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Mine:\n    name = 'mine'",
            "mine = your_package:Mine",
            "expected a method __call__",
        ),
    ],
)
def test_an_entry_point_that_is_no_plugin_is_named(folder: Path, code: str, point: str, message: str) -> None:
    """What cannot be loaded, is no plugin, or takes a name is one clear error."""
    install(folder, code, point)
    with pytest.raises(plugins.PluginError, match=message):
        plugins.scores()


def test_members_that_are_no_more_are_told_of(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A plugin of an older version has what said how to keep its answers: it serves, and the log names what is idle."""
    code = documented_example().replace("    name: ClassVar", "    scope = 'rack'\n    parts = ()\n    name: ClassVar")
    install(folder, code)
    with caplog.at_level("WARNING", "windward.scorer"):
        assert "least_crowded" in plugins.scores()
    (record,) = [each for each in caplog.records if each.getMessage() == "plugins.ignored"]
    assert vars(record)["values"] == {"plugin": "least_crowded", "members": "scope, parts"}


def test_a_profile_says_which_package_is_broken(folder: Path) -> None:
    """A plugin that cannot be loaded, or whose settings raise what they like, is an error of the profile."""
    install(folder, "1 / 0")
    with pytest.raises(ProfileError, match=r"least_crowded of windward\.scores cannot be loaded: division by zero"):
        parse_profile('[[scores]]\nuse = "spread"', "mine")
    plugins.scores.cache_clear()
    sys.modules.pop("your_package", None)
    code = documented_example().replace("raise ValueError(", "raise RuntimeError(")
    install(folder, code)
    with pytest.raises(ProfileError, match=r"line 1: scores\[1\]: RuntimeError: full: expected 1 or more, got 0"):
        parse_profile('[[scores]]\nuse = "least_crowded"\nfull = 0', "mine")
