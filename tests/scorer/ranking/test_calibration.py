"""Stated chances of overload, watched and corrected."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rpc.request import Request
from schemas.tables.learned import ChanceBin, Chances, Learned
from scorer.background.learner import stated_chances
from scorer.ledger.view.view import LedgerView
from scorer.ranking.calibration import (
    AHEAD_S,
    CASES_PRIOR,
    EDGES,
    HALF_LIFE_S,
    Calibration,
    Cases,
    Stated,
    calibrated,
    isotonic,
    shares_above,
    with_cases,
)
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.plugins import detail
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.scorer.fleets import fleet, machine

NOW, WINDOW_S = 1_800_000_000.0, 300
SPREAD = {"limit": 0.9, "std_factor": 1.0, "floor": 0.05}


def stated(*chances):
    return Stated({"cpu": np.array(chances)}, **SPREAD)


def snapshot(now_s, *usage, names="abcdefgh", std=0.0):
    """Return machines of ten cores with this CPU usage in a window of five minutes."""
    load = [{"cpu": {"mean": used, "std": std}, "memory": 0} for used in usage]
    hosts = [machine(name, usage=used) for name, used in zip(names, load, strict=False)]
    return fleet(*hosts, now=now_s, windows_s=[WINDOW_S]).snapshot


def watched(*usages, chances):
    watch = Calibration()
    watch.begin(stated(*chances), snapshot(NOW, *usages[0]), NOW)
    found = None
    for number, usage in enumerate(usages, 1):
        found = watch.look(snapshot(NOW + number * WINDOW_S, *usage), NOW + number * WINDOW_S)
    return found


def test_the_share_of_the_next_half_hour_is_observed():
    assert AHEAD_S == 6 * WINDOW_S
    found = watched((9.5, 1.0), (1.0, 1.0), (9.5, 1.0), *[(1.0, 1.0)] * 3, chances=(0.2, 0.01))
    chance, seen = found.observed["cpu"]
    assert chance.tolist() == [0.2, 0.01]
    assert seen == pytest.approx([2 / 6, 0.0])


def test_nothing_is_told_before_half_an_hour():
    assert watched(*[(1.0,)] * 5, chances=(0.2,)) is None


def test_a_window_with_spread_counts_in_part():
    shares = shares_above(0.9, snapshot(NOW, 9.0, 8.0, std=1.0), NOW)["cpu"]
    assert shares == pytest.approx([0.5, 0.1587], abs=1e-3)


def test_a_stale_machine_is_no_case():
    watch = Calibration()
    watch.begin(stated(0.2), snapshot(NOW, 1.0), NOW)
    last = snapshot(NOW + WINDOW_S, 9.5)
    for number in range(1, 6):
        assert watch.look(last, NOW + number * WINDOW_S) is None
    assert watch.look(last, NOW + AHEAD_S).observed["cpu"][0].size == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda watch: watch.look(snapshot(NOW + WINDOW_S, 1.0, names="x"), NOW + WINDOW_S),
        lambda watch: watch.look(snapshot(NOW, 1.0), NOW - 1.0),
        lambda watch: watch.forget(),
    ],
    ids=["another machine", "a clock set back", "forgotten"],
)
def test_it_begins_anew(change):
    watch = Calibration()
    assert watch.wants
    watch.begin(stated(0.2), snapshot(NOW, 1.0), NOW)
    assert not watch.wants
    assert change(watch) is None
    assert watch.wants


TRUTHS = {
    "calm": lambda p: 0.2 * p,
    "wild": np.sqrt,
    "right": lambda p: p,
    "wrong above": lambda p: np.minimum(p, 0.3),
    "never": lambda p: 0.0 * p,
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_corrected_chances_come_true(truth):
    """In each bin of a fleet that was not seen before, stated and observed agree within two points."""
    generator = np.random.default_rng(3)
    seen, other = (generator.beta(0.5, 2.0, 20_000) for _ in range(2))
    happened = (generator.random(seen.size) < truth(seen)).astype(float)
    bins = with_cases(None, Cases(stated(), {"cpu": (seen, happened)}), NOW).bins["cpu"]
    said = np.array([calibrated(bins, each) for each in other.tolist()])
    place = np.searchsorted(EDGES, other, side="right")
    for bin_ in range(1, len(EDGES)):
        if np.count_nonzero(here := place == bin_) >= 500:
            assert said[here].mean() == pytest.approx(truth(other[here]).mean(), abs=0.02)


def test_few_cases_say_little():
    """A single case that was above the limit for two fifths of the time moves 0.25 by a part of the difference."""
    bins = with_cases(None, Cases(stated(), {"cpu": (np.array([0.25]), np.array([0.4]))}), NOW).bins["cpu"]
    assert calibrated(bins, 0.25) == pytest.approx(0.25 + 0.15 / (CASES_PRIOR + 1))


def test_older_cases_count_less_and_those_of_another_spread_not():
    before = with_cases(None, Cases(stated(), {"cpu": (np.array([0.2, 0.2]), np.array([1.0, 0.0]))}), NOW)
    more = Cases(stated(), {"cpu": (np.array([0.25]), np.array([0.0]))})
    after = with_cases(before, more, NOW + HALF_LIFE_S)
    assert next(each for each in after.bins["cpu"] if each.cases) == ChanceBin(2.0, 0.45, 0.5)
    other = Cases(Stated(more.stated.chances, 0.8, 1.0, 0.05), more.observed)
    assert with_cases(before, other, NOW).bins["cpu"] == with_cases(None, other, NOW).bins["cpu"]


bins = st.lists(
    st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1.0)), min_size=len(EDGES) - 1, max_size=len(EDGES) - 1
).map(
    lambda pairs: [
        ChanceBin(cases, cases * (low + high) / 2, cases * share)
        for (cases, share), (low, high) in zip(pairs, itertools.pairwise(EDGES), strict=True)
    ]
)


@given(bins=bins, chances=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=10))
def test_a_corrected_chance_is_one_and_rises(bins, chances):
    found = [calibrated(bins, each) for each in sorted(chances)]
    assert all(0.0 <= each <= 1.0 for each in found)
    assert all(low <= high + 1e-12 for low, high in itertools.pairwise(found))


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.1, 100.0)), min_size=1, max_size=12))
def test_rising_keeps_the_mean(pairs):
    values, weights = zip(*pairs, strict=True)
    found = isotonic(values, weights)
    assert found == sorted(found)
    assert np.average(found, weights=weights) == pytest.approx(np.average(values, weights=weights))
    assert isotonic(sorted(values), weights) == pytest.approx(sorted(values))


PROFILE = """
learned = true

[[scores]]
use = "expected_overload"
limit = {}
"""


@pytest.mark.parametrize(("limit", "told"), [(0.9, 0.1), (0.85, 0.5)], ids=["the same limit", "another limit"])
def test_the_correction_reaches_answers_of_the_score_that_was_watched(limit, told):
    """Of a stated half a tenth came true; a score of another limit states what it always did."""
    seen_bins = [ChanceBin(1e9, of * 1e9, of * 0.2e9) for of in (0.005, 0.03, 0.07, 0.15, 0.25, 0.35, 0.45, 0.5)]
    seen_bins += [ChanceBin()] * 4
    chances = Chances(**SPREAD, at=NOW, bins={"cpu": seen_bins})
    seen = snapshot(NOW, 10 * limit).with_use(Learned(chances=chances))
    inputs = RankingInputs(seen, LedgerView(), parse_profile(PROFILE.format(limit), "mine"), NOW)
    ranking = rank(Request(), inputs)
    (term,) = ranking.terms
    shown = detail(term.weighted.score, ranking.said(term, 0)[1], Request(), term.machines, 0)
    assert shown[f"chance_above_{100 * limit:.0f}_percent"]["cpu"] == pytest.approx(told, abs=1e-6)
    watched_of = stated_chances(inputs)
    assert watched_of.limit == limit
    assert watched_of.chances["cpu"] == pytest.approx([0.5], abs=1e-5)
