"""The profiles there are: built in, and from a user's file."""

import pytest

from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.catalogue import built_in_profiles, load_profiles
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.scores.global_variance import GlobalVariance
from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from tests.scorer.ranking.profiles.test_profile_file import GOOD


def test_the_built_in_profiles():
    """Six of them, each described; the old default spreads the load with weight 3 and weighs risk with 1."""
    profiles = built_in_profiles()
    assert set(profiles) == {"windward", "variance-and-risk", "kubernetes", "trimaran", "koordinator", "seed"}
    assert all(profile.description for profile in profiles.values())
    scores = {each.score.name: each for each in profiles["variance-and-risk"].scores}
    variance, risk = scores["global_variance"], scores["load_variation_risk"]
    assert isinstance(variance.score, GlobalVariance)
    assert (variance.weight, variance.normalise) == (3, "min-max")
    assert set(variance.score.weights) == {"cpu", "memory", "nic"}
    assert isinstance(risk.score, LoadVariationRisk)
    assert (risk.weight, profiles["variance-and-risk"].load_model.window) == (1, "longest-covered")
    weights = {each.score.name: each.weight for each in profiles["seed"].scores}
    assert weights["global_variance"] > 5 * weights["load_variation_risk"]


def test_the_default_goes_by_expected_overload_with_what_is_learned_and_without_what_left():
    """All filters; those of the old default in the same order and with the same settings, and its preferences."""
    default, before = (built_in_profiles()[name] for name in ("windward", "variance-and-risk"))
    assert load_profiles().choose() == default
    assert {each.filter.name for each in default.filters} == set(plugins.filters())
    assert tuple(each for each in default.filters if each in before.filters) == before.filters
    assert (default.load_model.debits, default.load_model.learned) == (True, True)
    assert (before.load_model.debits, before.load_model.learned) == (False, False)
    weights = [{each.score.name: each.weight for each in profile.scores} for profile in (default, before)]
    assert weights[0].pop("expected_overload") == weights[1].pop("global_variance") == 3
    assert [each.pop("failed_starts") for each in weights] == [20, 10]  # asked only while starts fail
    assert weights[0].pop("apart") * 50 > 100 * (3 + sum(weights[0].values())), (
        "no load brings two of a cluster together"
    )
    assert weights[0] == weights[1]


def test_a_users_file_joins_or_replaces(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    (tmp_path / "seed.toml").write_text("description = 'ours'")
    profiles = load_profiles([tmp_path], default="mine")
    assert profiles.choose().name == "mine"
    assert profiles.choose("seed").description == "ours"
    assert load_profiles([tmp_path / "mine.toml"]).choose("mine").scores
    with pytest.raises(ProfileError, match="no profile 'yours'; there are"):
        profiles.choose("yours")
    with pytest.raises(ProfileError, match=r"every scorer \(--profiles theirs.toml\), and name it theirs"):
        profiles.choose("theirs.toml")
    with pytest.raises(ProfileError, match="no profile 'gone'"):
        load_profiles(default="gone")


def test_a_bad_file_replaces_nothing(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    running = load_profiles([tmp_path])
    (tmp_path / "mine.toml").write_text(GOOD.replace("weight = 3", "weight = -3"))
    with pytest.raises(ProfileError, match=r"mine\.toml, line 17"):
        load_profiles([tmp_path])
    assert running.choose("mine").scores[0].weight == 3
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profiles([tmp_path / "nothing.toml"])


def test_processes_with_the_same_profiles_are_told_by_a_digest(tmp_path):
    for folder, text in (("a", "stale_s = 60\n"), ("b", "stale_s = 60\n"), ("c", "stale_s = 90\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.toml").write_text(text)
    (tmp_path / "a" / "other.toml").write_text("stale_s = 60\n")
    a, b, c, other = (tmp_path / one for one in ("a/mine.toml", "b/mine.toml", "c/mine.toml", "a/other.toml"))
    assert load_profiles([a]).digest == load_profiles([b]).digest == load_profiles([tmp_path / "b"]).digest
    others = [load_profiles(), load_profiles([c]), load_profiles([other]), load_profiles([a], "mine")]
    assert len({one.digest for one in (load_profiles([a]), *others)}) == 5
