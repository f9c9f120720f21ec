"""Profiles: what they may say, and errors that name file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from scorer import plugins
from scorer.profile import ProfileError, built_in_profiles, load_profiles, locate, parse_profile
from scorer.scores.global_variance import GlobalVariance
from scorer.scores.load_variation_risk import LoadVariationRisk

GOOD = """\
window = "longest-covered"
credits = "window"

[estimate]
factor = { cpu = 0.85 }

[[filters]]
use = "fresh"

[[filters]]
use = "usage_threshold"
thresholds = { cpu = 0.8 }
window = 300

[[scores]]
use = "global_variance"
weight = 3
normalise = "min-max"

[[scores]]
use = "load_variation_risk"
credits = "none"
"""


def test_a_profile_is_read_with_every_sight_of_its_own() -> None:
    """Window, credits and estimate of the profile hold unless a filter or score brings its own."""
    profile = parse_profile(GOOD, "mine")
    assert [each.filter.name for each in profile.filters] == ["fresh", "usage_threshold"]
    assert profile.filters[0].sight is None
    assert (profile.filters[1].sight.window, profile.filters[1].sight.credits) == (300, "window")  # type: ignore[union-attr]
    variance, risk = profile.scores
    assert (variance.weight, variance.normalise) == (3, "min-max")
    assert risk.sight is not None
    assert risk.sight.credits == "none"
    assert risk.sight.estimate == profile.sight.estimate


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"fresh"', '"freash"', 8, "filters[1].use: no filter 'freash'; there are"),
        ('"global_variance"', '"local_variance"', 16, "scores[1].use: no score 'local_variance'; there are"),
        ("weight = 3", "weight = -3", 17, "scores[1].weight: expected a number of zero or more, got -3"),
        ("weight = 3", 'weight = "much"', 17, "scores[1].weight: Expected `float`, got `str`"),
        ("cpu = 0.8 }", "cpu = 1.8 }", 12, "filters[2].thresholds.cpu: expected a share from 0 to 1, got 1.8"),
        ("cpu = 0.8 }", "disk = 0.8 }", 12, "filters[2].thresholds: no resource 'disk'"),
        ("cpu = 0.85", "cpu = -1", 5, "estimate.factor.cpu: expected a number of zero or more"),
        (
            'use = "fresh"',
            'use = "fresh"\nage_max = 3',
            9,
            "filters[1].age_max: no such setting of fresh; there are age_s_max",
        ),
        ('use = "fresh"', 'use = "fresh"\nage_s_max = "old"', 9, "filters[1].age_s_max: Expected `float`"),
        ('use = "fresh"', "age_s_max = 3", 7, "filters[1]: `use` is missing"),
        ('"longest-covered"', '"longest"', 1, "window: "),
        ('"longest-covered"', "-5", 1, "window: expected a length in seconds"),
        ('credits = "window"', 'credits = "generous"', 2, "credits: Invalid enum value 'generous'"),
        ('"min-max"', '"minmax"', 18, "scores[1].normalise: Invalid enum value 'minmax'"),
        ('credits = "window"', "colour = 1", 2, "colour: no such setting; there are description"),
        ('credits = "window"', "stale_s = 0", 2, "stale_s: expected more than 0"),
        ('credits = "window"', "credits = window", None, "line 2"),
        ("{ cpu = 0.8 }", '{ cpu = 0.8, nic = "x" }', 12, "filters[2].thresholds.nic: Expected `float`, got `str`"),
        (
            "{ cpu = 0.8 }",
            '{}\nstatistic = "p42"',
            13,
            "filters[2].statistic: Invalid enum value 'p42'; there are mean",
        ),
        ('"min-max"', '"max"', 18, "scores[1].normalise: Invalid enum value 'max'; there are none, min-max, rank"),
        (
            'use = "fresh"',
            'use = "daily_peak"\ndays = ["x"]',
            9,
            "filters[1].days[1]: Invalid enum value 'x'; there are",
        ),
    ],
)
def test_an_error_names_file_line_and_field(old: str, new: str, line: int | None, message: str) -> None:
    """One line that says where in which file what is wrong."""
    with pytest.raises(ProfileError) as caught:
        parse_profile(GOOD.replace(old, new, 1), "mine", "mine.toml")
    text = str(caught.value)
    assert message in text
    assert text.startswith("mine.toml" if line is None else f"mine.toml, line {line}: ")
    assert "\n" not in text


def test_lines_of_inline_and_dotted_keys() -> None:
    """The line of a key is found in plain, dotted and nested tables."""
    text = "a = 1\n[b]\nc.d = 2\n[[e]]\nf = 1\n[e.g]\nh = 1\n[[e]]\nf = 2"
    assert [
        locate(text, path) for path in ((), ("a",), ("b", "c"), ("e", 0, "f"), ("e", 0, "g", "h"), ("e", 1, "f"))
    ] == [
        1,
        1,
        3,
        5,
        7,
        9,
    ]


def test_the_built_in_profiles() -> None:
    """Five of them, each described; the default spreads the load with weight 3 and weighs risk with 1."""
    profiles = built_in_profiles()
    assert set(profiles) == {"windward", "kubernetes", "trimaran", "koordinator", "seed"}
    assert all(profile.description for profile in profiles.values())
    scores = {each.score.name: each for each in profiles["windward"].scores}
    variance, risk = scores["global_variance"], scores["load_variation_risk"]
    assert isinstance(variance.score, GlobalVariance)
    assert (variance.weight, variance.normalise, set(variance.score.weights)) == (
        3,
        "min-max",
        {"cpu", "memory", "nic"},
    )
    assert isinstance(risk.score, LoadVariationRisk)
    assert (risk.weight, profiles["windward"].sight.window) == (1, "longest-covered")
    assert {each.filter.name for each in profiles["windward"].filters} == set(plugins.filters())
    weights = {each.score.name: each.weight for each in profiles["seed"].scores}
    assert weights["global_variance"] > 5 * weights["load_variation_risk"]


def test_a_users_file_joins_or_replaces(tmp_path: Path) -> None:
    """A file is a profile by its name; a built-in name is replaced; a directory brings all its files."""
    (tmp_path / "mine.toml").write_text(GOOD)
    (tmp_path / "seed.toml").write_text("description = 'ours'")
    profiles = load_profiles([tmp_path], default="mine")
    assert profiles.choose().name == "mine"
    assert profiles.choose("seed").description == "ours"
    assert load_profiles([tmp_path / "mine.toml"]).choose("mine").scores
    with pytest.raises(ProfileError, match="no profile 'yours'; there are"):
        profiles.choose("yours")
    with pytest.raises(ProfileError, match="no profile 'gone'"):
        load_profiles(default="gone")


def test_a_bad_file_replaces_nothing(tmp_path: Path) -> None:
    """Reading is all or nothing: the profiles that were read before stay whole."""
    (tmp_path / "mine.toml").write_text(GOOD)
    running = load_profiles([tmp_path])
    (tmp_path / "mine.toml").write_text(GOOD.replace("weight = 3", "weight = -3"))
    with pytest.raises(ProfileError, match=r"mine\.toml, line 17"):
        load_profiles([tmp_path])
    assert running.choose("mine").scores[0].weight == 3
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profiles([tmp_path / "nothing.toml"])


def test_effective_settings_are_complete() -> None:
    """What is shown of a profile holds every setting in force, defaults included."""
    shown = parse_profile(GOOD, "mine").effective()
    assert shown["filters"][0] == {"use": "fresh", "age_s_max": 60.0, "intervals_max": 3.0}
    assert shown["filters"][1]["window"] == 300
    assert shown["scores"][1]["margin"] == 1.0
    assert shown["scores"][1]["credits"] == "none"
