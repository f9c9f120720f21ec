"""Profile files: what is read, and which line and field an error names."""

from __future__ import annotations

import pytest

from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.profiles.profile_file import locate, parse_profile
from tests.rows import each_row
from tests.scorer.ranking.profile_text import GOOD


def test_a_profile_is_read_with_every_sight_of_its_own() -> None:
    """Window, credits and estimate of the profile hold unless a filter or score brings its own."""
    profile = parse_profile(GOOD, "mine")
    assert [each.filter.name for each in profile.filters] == ["fresh", "usage_threshold"]
    assert profile.filters[0].load_model is None
    assert (profile.filters[1].load_model.window, profile.filters[1].load_model.credits) == (300, "window")  # type: ignore[union-attr]
    variance, risk = profile.scores
    assert (variance.weight, variance.normalise) == (3, "min-max")
    assert risk.load_model is not None
    assert risk.load_model.credits == "none"
    assert risk.load_model.estimate == profile.load_model.estimate


def test_a_profile_has_at_most_32_scores() -> None:
    """The loops of the library have room for so many."""
    one = '[[scores]]\nuse = "least_allocated"\n'
    assert len(parse_profile(one * 32, "many").scores) == 32
    with pytest.raises(ProfileError, match="expected at most 32 scores, got 33"):
        parse_profile(one * 33, "many")


@each_row(
    ("old", "new", "line", "message"),
    [
        ('"fresh"', '"freash"', 8, "filters[1].use: no filter 'freash'; there are"),
        ('"global_variance"', '"local_variance"', 16, "scores[1].use: no score 'local_variance'; there are"),
        ("weight = 3", "weight = -3", 17, "scores[1].weight: expected a number of zero or more, got -3"),
        ("weight = 3", 'weight = "much"', 17, "scores[1].weight: expected a number, got text"),
        ("cpu = 0.8 }", "cpu = 1.8 }", 12, "filters[2].thresholds.cpu: expected a share from 0 to 1, got 1.8"),
        ("cpu = 0.8 }", "gpu = 0.8 }", 12, "filters[2].thresholds: no resource 'gpu'"),
        ("cpu = 0.85", "cpu = -1", 5, "estimate.factor.cpu: expected a number of zero or more"),
        (
            'use = "fresh"',
            'use = "fresh"\nage_max = 3',
            9,
            "filters[1].age_max: no such setting of fresh; there are age_s_max",
        ),
        ('use = "fresh"', 'use = "fresh"\nage_s_max = "old"', 9, "filters[1].age_s_max: expected a number"),
        ('use = "fresh"', "age_s_max = 3", 7, "filters[1]: `use` is missing"),
        ('"longest-covered"', '"longest"', 1, "window: "),
        ('"longest-covered"', "-5", 1, "window: expected a length in seconds"),
        ('credits = "window"', 'credits = "generous"', 2, "credits: no such choice: 'generous'"),
        ('"min-max"', '"minmax"', 18, "scores[1].normalise: no such choice: 'minmax'"),
        ('credits = "window"', "colour = 1", 2, "colour: no such setting; there are description"),
        ('credits = "window"', 'mean_of = "instances"', 2, "mean_of: this setting is gone: a machine's mean is"),
        ('use = "fresh"', 'use = "fresh"\nmean_of = "window"', 9, "filters[1].mean_of: this setting is gone"),
        ('credits = "window"', "stale_s = 0", 2, "stale_s: expected more than 0"),
        ('credits = "window"', "credits = window", None, "line 2"),
        ("{ cpu = 0.8 }", '{ cpu = 0.8, nic = "x" }', 12, "filters[2].thresholds.nic: expected a number, got text"),
        (
            "{ cpu = 0.8 }",
            '{}\nstatistic = "p42"',
            13,
            "filters[2].statistic: no such choice: 'p42'; there are mean",
        ),
        ('"min-max"', '"max"', 18, "scores[1].normalise: no such choice: 'max'; there are none, min-max, rank"),
        (
            'use = "fresh"',
            'use = "daily_peak"\ndays = ["x"]',
            9,
            "filters[1].days[1]: no such choice: 'x'; there are",
        ),
        ('use = "fresh"', 'use = "daily_peak"\ndays = []', 9, "filters[1].days: expected at least one"),
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
