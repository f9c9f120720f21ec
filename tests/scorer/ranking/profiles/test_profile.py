"""A profile's settings as they are in effect."""

from __future__ import annotations

from scorer.ranking.profiles.profile_file import parse_profile
from tests.scorer.ranking.profile_text import GOOD


def test_effective_settings_are_complete() -> None:
    """What is shown of a profile holds every setting in force, defaults included."""
    shown = parse_profile(GOOD, "mine").effective()
    assert shown["filters"][0] == {"use": "fresh", "age_s_max": 60.0, "intervals_max": 3.0}
    assert shown["filters"][1]["window"] == 300
    assert shown["scores"][1]["margin"] == 1.0
    assert shown["scores"][1]["credits"] == "none"
