"""A plugin of another package is installed, registered and used; it changes nothing, and its answers are checked."""

import doctest
import re
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from schemas.rpc.request import InvalidRequest, read_request
from scorer import plugins
from scorer.ledger.record.limits import Limit, in_role, on_port, total
from scorer.planning.wanted.wanted import compare
from scorer.ranking.explain import summary
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.plugins import PluginError, guarded
from scorer.ranking.profiles.profile import PlacedFilter, Profile, ProfileError, WeightedScore
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import limits, rank
from scorer.ranking.scores.least_allocated import LeastAllocated
from tests.scorer.fleets import fleet, machine, request

FLEET = fleet(machine("a"), machine("b"), machine("c"), instances=[{"id": "1", "machine": "a", "cpu": 1}])
"""Three machines; no decision may change it."""


def score(of, kind="score", **members):
    @dataclass(frozen=True)
    class Other:
        name: ClassVar[str] = "other"

        def __call__(self, request, machines):
            return of(request, machines)

    for name, member in members.items():
        setattr(Other, name, member)
    return guarded(Other, kind)()


def filtered(of, **members):
    return score(of, "filter", **{"reason": "of another mind", **members})


def ranked(plugin, kept=None):
    if hasattr(plugin, "reason"):
        profile = Profile("p", filters=(PlacedFilter(plugin),))
    else:
        profile = Profile("p", scores=(WeightedScore(plugin),))
    return rank(request(cpu=1), FLEET.inputs(profile, kept))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "score other: expected an array of numbers [3], got NoneType None"),
        (50.0, "score other: expected an array of numbers [3], got float 50.0"),
        ([50.0] * 3, "score other: expected an array of numbers [3], got list [50.0, 50.0, 50.0]"),
        (np.zeros(2), "score other: expected an array of numbers [3], got an array of float64 [2]"),
        (np.zeros((3, 3)), "score other: expected an array of numbers [3], got an array of float64 [3, 3]"),
        (np.full(3, 1j), "score other: expected an array of numbers [3], got an array of complex128 [3]"),
        (np.array([1.0, np.nan, 1.0]), "score other: expected 0 to 100 for machine b, got nan"),
        (np.array([1.0, 1.0, np.inf]), "score other: expected 0 to 100 for machine c, got inf"),
    ],
)
def test_a_score_that_cannot_be_used_is_refused_by_name(given, message):
    with pytest.raises(PluginError) as caught:
        ranked(score(lambda r, m: given))
    assert str(caught.value) == message


@pytest.mark.parametrize("given", [np.array([3, 2, 1]), np.array([True, False, False]), np.array([3.0, 2.0, 1.0])])
def test_any_numbers_are_a_score(given):
    assert ranked(score(lambda r, m: given)).best_first.tolist() == [0, 1, 2]


@pytest.mark.parametrize("given", [None, True, [True] * 3, np.ones(3), np.full(3, np.nan), np.ones(2, np.bool_)])
def test_a_filter_gives_one_yes_or_no_for_each_machine(given):
    """Numbers, of which NaN would pass, are refused by name."""
    with pytest.raises(PluginError, match=r"filter other: expected an array of bool \[3\], got "):
        ranked(filtered(lambda r, m: given))


def test_a_score_need_not_know_of_machines_that_are_refused():
    """NaN of a machine that a filter refused lowers nothing."""
    only_a = filtered(lambda r, m: np.array([True, False, False]))
    profile = Profile(
        "p", filters=(PlacedFilter(only_a),), scores=(WeightedScore(score(lambda r, m: np.array([5.0, np.nan, 1.0]))),)
    )
    assert rank(request(cpu=1), FLEET.inputs(profile)).best_first.tolist() == [0]


COLUMNS = (
    "count", "allocated", "mean", "capacity", "std", "utilization", "credit", "seen_at", "amounts", "expected",
    "coverage", "cordon", "feasible",
)  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_no_column_can_be_written(name):
    kept, least = Tables(), LeastAllocated()
    before = ranked(least, kept).total.tolist()

    def writes(asked, machines):
        getattr(machines, name)[...] = 0
        return np.zeros(3)

    with pytest.raises(PluginError, match=r"score other failed: ValueError: .*read-only"):
        ranked(score(writes), kept)
    assert ranked(least, kept).total.tolist() == before
    assert getattr(FLEET.ledger, "position", None) == FLEET.ledger.position


@pytest.mark.parametrize(
    "take",
    [
        lambda m: m.percentile(95),
        lambda m: m.peak("today"),
        lambda m: m.tally(frozenset()),
        lambda m: m.take(np.array([0, 1])).allocated,
        lambda m: m.whole.count,
        lambda m: m.rule("thresholds"),
        lambda m: m.label("machine").codes,
    ],
)
def test_nothing_that_a_method_gives_can_be_written(take):
    def writes(asked, machines):
        take(machines)[...] = 0
        return np.zeros(3)

    with pytest.raises(PluginError, match="read-only"):
        ranked(score(writes))


@pytest.mark.parametrize("name", ["derived", "constant", "recent", "of_snapshot", "of_fleet", "once", "plain"])
def test_what_kept_values_says_what_to_write_instead(name):
    own = score(lambda r, m: getattr(m, name)("mine", lambda x: x.count * 1.0))
    with pytest.raises(PluginError, match=rf"score other failed: .*in place of `{name}` (compute|read) the "):
        ranked(own)


@pytest.mark.parametrize("name", ["wanted", "detail"])
def test_what_a_plugin_raises_is_told_with_its_name(name):
    def fails(*args):
        return 1 / 0

    plugin = score(lambda r, m: np.zeros(3), **{name: fails})
    found = ranked(score(lambda r, m: np.zeros(3)))
    with pytest.raises(PluginError, match=rf"score other: {name} failed: ZeroDivisionError: division by zero"):
        getattr(plugin, name)(found.request, found.machines, *([0] if name == "detail" else []))
    with pytest.raises(PluginError, match="score other failed: ZeroDivisionError"):
        ranked(score(fails))


def test_a_plugin_may_refuse_a_request():
    """InvalidRequest is for the caller and goes through as it is."""

    def refuses(asked, machines):
        raise InvalidRequest("labels: expected a team")

    with pytest.raises(InvalidRequest, match="labels: expected a team"):
        ranked(score(refuses))


@pytest.mark.parametrize(
    "one",
    [
        Limit(("total", "nonsense"), 2, "mine"),
        Limit(("total", "cpu", "nobility"), 2, "mine"),
        Limit(("sum", "cpu"), 2, "mine"),
        Limit(total("cpu"), np.zeros(2), "mine"),
        Limit(total("cpu"), "8", "mine"),
        ("x",),
        None,
    ],
)
def test_a_limit_that_the_ledger_cannot_uphold_is_refused(one):
    """A sum that there is not would be upheld by nobody."""
    found = ranked(filtered(lambda r, m: m.count >= 0, limit=lambda self, r, m: [one]))
    with pytest.raises(PluginError, match="filter other: limit: expected "):
        limits(found, [0], found.request)


@pytest.mark.parametrize(
    "one",
    [
        Limit(total("cpu"), 8.0, "mine"),
        Limit(total("cpu", "batch", "free"), np.full(3, 8.0), "mine"),
        Limit(total("instances"), 50, "mine"),
        Limit(on_port(80), 1, "mine"),
        Limit(in_role("shop", "master"), 1, "mine"),
    ],
)
def test_a_limit_of_the_ledger_s_is_taken(one):

    def limit(self, asked, machines):
        yield one

    found = ranked(filtered(lambda r, m: m.count >= 0, limit=limit))
    taken = limits(found, [2, 0, 1], found.request)
    assert [[(each.measure, each.most) for each in of] for of in taken] == [[(one.measure, np.max(one.most))]] * 3


POINT = "least_crowded = your_package:LeastCrowded"
ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/writing-plugins.md").read_text()


def documented_example():
    text = plugins.__doc__ or ""
    start = text.index("    from dataclasses import dataclass")
    end = text.index("Optional members")
    return textwrap.dedent(text[start:end])


def install(folder, code, *points):
    """Lay out an installed package with entry points; without any named, that of the example."""
    (folder / "your_package.py").write_text(code)
    about = folder / "your_package-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: your-package\nVersion: 1\n")
    lines = points if len(points) > 1 else ("[windward.scores]", *(points or [POINT]))
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder on the path; plugins are looked for anew before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.scores.cache_clear()
    plugins.filters.cache_clear()
    yield tmp_path
    plugins.scores.cache_clear()
    plugins.filters.cache_clear()
    sys.modules.pop("your_package", None)


def test_the_documented_example_is_short_and_works(folder):
    code = documented_example()
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    install(folder, code)
    profile = parse_profile('[[scores]]\nuse = "least_crowded"\nfull = 4', "mine")
    offline = fleet(machine("a"), machine("b"), instances=[{"id": str(n), "machine": "a"} for n in range(3)])
    found = rank(request(), offline.inputs(profile))
    assert found.chosen == "b"
    assert found.total.tolist() == [25, 100]


MINE, CALLED = "class Mine:\n    name = 'mine'\n", "    def __call__(self): pass"
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
def test_a_filter_says_whether_what_it_refuses_stays(folder, use, actions):
    """Of a momentary state: the plan of wanted instances leaves those that are there, and places no new one there."""
    points = ("maintenance = your_package:Maintenance", "soon = your_package:Soon")
    install(folder, MAINTENANCE, "[windward.filters]", *points)
    profile = parse_profile(f'[[filters]]\nuse = "{use}"', "mine")
    offline = fleet(machine("a"), machine("b"), instances=[{"id": "there", "machine": "a", "cpu": 1, "memory": 1}])
    asked = read_request({"id": "there", "cpu": 1, "memory": 1})
    assert [step.action for step in compare([asked], offline.inputs(profile)).steps] == actions
    (step,) = compare([read_request({"id": "new", "cpu": 1})], offline.inputs(profile)).steps
    assert (step.action, step.target) == ("place", "b")


def test_momentary_is_yes_or_no(folder):
    install(folder, MAINTENANCE.replace("= True", '= "yes"'), "[windward.filters]", "soon = your_package:Soon")
    with pytest.raises(plugins.PluginError, match="expected momentary to be True or False"):
        plugins.filters()


def test_the_package_of_the_page_works(folder):
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


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "mine of windward.scores cannot be loaded"),
        ("class Mine: pass", "mine of windward.scores is no plugin"),
        (f"class Mine:\n    name = 'spread'\n{CALLED}", "'spread' is taken"),
        (f"{MINE}{CALLED}", r"windward.scores: expected @dataclass\(frozen=True\) \(your_package:Mine\)"),
        (f"import dataclasses\n@dataclasses.dataclass\n{MINE}{CALLED}", r"expected @dataclass\(frozen=True\)"),
        (f"import dataclasses\n@dataclasses.dataclass(frozen=True)\n{MINE}", "expected a method __call__"),
    ],
)
def test_an_entry_point_that_is_no_plugin_is_named(folder, code, message):
    install(folder, code, "mine = your_package:Mine")
    with pytest.raises(plugins.PluginError, match=message):
        plugins.scores()


def test_members_that_are_no_more_are_told_of(folder, caplog):
    """A plugin of an older version has what said how to keep its answers: it serves, and the log names what is idle."""
    code = documented_example().replace("    name: ClassVar", "    scope = 'rack'\n    parts = ()\n    name: ClassVar")
    install(folder, code)
    with caplog.at_level("WARNING", "windward.scorer"):
        assert "least_crowded" in plugins.scores()
    (record,) = [each for each in caplog.records if each.getMessage() == "plugins.ignored"]
    assert vars(record)["values"] == {"plugin": "least_crowded", "members": "scope, parts"}


def test_a_profile_says_which_package_is_broken(folder):
    install(folder, "1 / 0")
    with pytest.raises(ProfileError, match=r"least_crowded of windward\.scores cannot be loaded: division by zero"):
        parse_profile('[[scores]]\nuse = "spread"', "mine")
    plugins.scores.cache_clear()
    sys.modules.pop("your_package", None)
    code = documented_example().replace("raise ValueError(", "raise RuntimeError(")
    install(folder, code)
    with pytest.raises(ProfileError, match=r"line 1: scores\[1\]: RuntimeError: full: expected 1 or more, got 0"):
        parse_profile('[[scores]]\nuse = "least_crowded"\nfull = 0', "mine")
