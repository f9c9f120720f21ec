"""Learned expected use: the fit finds what a fleet really uses, not what was there before; who uses it, and who not."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.tables.learned import Learned, Sums, read_learned
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.estimates.learning import Observation, fitted, learn, observe
from scorer.ranking.explanation.explain import answer
from scorer.ranking.profiles.profile import LoadModel
from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, ranked, request, scores, see

R = len(RESOURCES)
NAMES = tuple(f"m{n}" for n in range(40))


def observation(
    end: float,
    asked: np.ndarray,
    usage: np.ndarray,
    kinds: dict[str, np.ndarray] | None = None,
    said: float | np.ndarray = 0.0,
) -> Observation:
    """Return an observation of cpu alone."""

    def of(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[None], np.zeros((R - 1, values.size))])

    by_kind = {kind: of(values) for kind, values in (kinds or {}).items()}
    end_of = np.full(asked.size, end)
    return Observation(end_of, of(usage), of(asked), by_kind, asked.size * 5.0, NAMES, of(said * np.ones(asked.size)))


def series(seed: int, factor: float, noise: float = 0.1, other: float = 1.0) -> Learned:
    """Return what is learned of 40 machines with a base load each, on which instances come and go for some hours."""
    rng = np.random.default_rng(seed)
    base, known, before = rng.uniform(0, 20, 40), Learned(), None
    for hour in range(12):
        asked, of_kind = rng.uniform(0, 10, 40), rng.uniform(0, 10, 40)
        usage = base + factor * asked + other * factor * of_kind + rng.normal(0, noise, 40)
        now = observation(3600.0 * hour, asked + of_kind, usage, {"cache": of_kind})
        if before is not None:
            known = learn(known, before, now, 3600.0, 3600.0 * hour)
        before = now
    return known


@settings(max_examples=examples(15, 150), deadline=None)
@given(seed=st.integers(0, 2**31), factor=st.floats(0.05, 1.5))
def test_the_factor_is_found_whatever_was_there_before(seed: int, factor: float) -> None:
    """Base loads of twice what instances use do not enter the factor: the intercept is each machine's own."""
    known = series(seed, factor)
    assert known.factors["cpu"] == pytest.approx(factor, abs=0.03)
    assert not known.kinds


@pytest.mark.parametrize(("factor", "published"), [(3.0, 1.5), (-0.5, 0.05), (0.0, 0.05)])
def test_a_factor_is_bounded(factor: float, published: float) -> None:
    """Whatever the load does, an instance is expected to use something, and not twice what it asks."""
    assert series(1, factor).factors["cpu"] == published


def test_nothing_is_published_before_enough_evidence() -> None:
    """Too few hours, too few changes, or too much noise: no factor; and none for a resource nobody asks."""
    assert fitted(Sums(count=50, xx=100, xy=70, yy=49, instance_hours=99))[0] is None
    assert fitted(Sums(count=2, xx=100, xy=70, yy=49, instance_hours=1e3))[0] is None
    assert fitted(Sums(count=50, xx=100, xy=70, yy=1e5, instance_hours=1e3))[0] is None
    assert fitted(Sums(count=50, xx=100, xy=70, yy=50, instance_hours=1e3))[0] == pytest.approx(0.7)
    assert series(2, 0.7).factors.keys() == {"cpu"}
    assert "cpu" not in series(2, 0.7, noise=200.0).factors


def test_a_kind_that_differs_has_a_factor_of_its_own_and_one_that_does_not_has_none() -> None:
    """Shrunk toward the others: only where the difference is more than chance."""
    known = series(3, 0.5, other=1.6)
    assert known.kinds["cache"]["cpu"] > known.factors["cpu"] + 0.02
    assert series(4, 0.5).kinds == {}


@pytest.mark.parametrize(
    ("cores", "used", "counts"),
    [(10, 9, True), (10, 10.5, True), (10, 20, False), (160, 150, True), (1e6, 150, True), (1e6, 170, False)],
)
def test_usage_that_a_machine_cannot_have_is_no_evidence(cores: float, used: float, counts: bool) -> None:
    """By its capacity, of which at most 16 times the fleet's median of 10 cores is believed; its neighbours count."""
    others = [machine(f"m{n}", 10, usage={"cpu": 5}) for n in range(4)]
    offline = fleet(machine("a", cores, usage={"cpu": used}), *others, windows_s=[3600])
    seen = observe(offline.snapshot, offline.ledger)
    assert seen is not None
    assert np.isfinite(seen.usage[0]).tolist() == [counts, True, True, True, True]


def test_windows_that_overlap_teach_nothing() -> None:
    """Of two observations less than a window apart no machine counts."""
    first = observation(0.0, np.full(40, 1.0), np.full(40, 1.0))
    second = observation(1800.0, np.full(40, 5.0), np.full(40, 3.0))
    assert learn(Learned(), first, second, 3600.0, 1800.0).evidence["cpu"].count == 0


@pytest.mark.parametrize("wrong_by", [0.0, 0.7, -0.4])
def test_a_wrong_expected_of_some_does_not_enter_the_factor_of_the_others(wrong_by: float) -> None:
    """Also where a machine has fewer of the others the more it has of those, as under a policy that spreads load."""
    rng, known, before = np.random.default_rng(3), Learned(), None
    for hour in range(12):
        said = rng.uniform(0, 10, 40)
        asked = 12 - said + rng.uniform(0, 4, 40)
        usage = 5 + 0.3 * asked - wrong_by * said + rng.normal(0, 0.1, 40)  # less what was said
        now = observation(3600.0 * hour, asked, usage, said=said)
        if before is not None:
            known = learn(known, before, now, 3600.0, 3600.0 * hour)
        before = now
    assert known.factors["cpu"] == pytest.approx(0.3, abs=0.02)


def test_what_others_say_may_leave_no_evidence() -> None:
    """Where both change together nothing can be told of one."""
    rng, known, before = np.random.default_rng(3), Learned(), None
    for hour in range(12):
        asked = rng.uniform(0, 10, 40)
        now = observation(3600.0 * hour, asked, 5 + 0.3 * asked, said=2 * asked)
        if before is not None:
            known = learn(known, before, now, 3600.0, 3600.0 * hour)
        before = now
    assert not known.factors


def test_the_next_scorer_goes_on_from_what_is_written() -> None:
    """The value holds its evidence: read back it fades with a day's half-life and is added to."""
    known = series(5, 0.7)
    again = read_learned(msgspec.json.encode(known))
    assert again == known
    rest = observation(0.0, np.zeros(40), np.zeros(40)), observation(3600.0, np.zeros(40), np.zeros(40))
    later = learn(known, *rest, 3600.0, known.at + 86_400.0)
    assert later.version == known.version + 1
    assert later.evidence["cpu"].xx == pytest.approx(known.evidence["cpu"].xx / 2)
    assert later.factors["cpu"] == pytest.approx(known.factors["cpu"])
    assert [read_learned(raw) for raw in (b"{", b'{"factors":{"\xff":1}}', None)] == [None, None, None]


def test_an_observation_counts_each_instance_by_the_share_of_the_window_in_which_it_ran() -> None:
    """Running, started lately, ended lately; what said its use is taken out of the usage instead."""
    hosts = [machine("m", usage={"cpu": 8, "memory": 0}), machine("n", usage={"cpu": 1, "memory": 0})]
    running = [
        {"id": "long", "machine": "m", "cpu": 4, "placed_ago_s": 9000},
        {"id": "half", "machine": "m", "cpu": 2, "placed_ago_s": 1800},
        {"id": "said", "machine": "n", "cpu": 5, "expected": {"cpu": 0.5}, "placed_ago_s": 9000},
        {"id": "waits", "machine": "n", "cpu": 9, "state": "reserved"},
    ]
    left = [{"id": "gone", "machine": "n", "cpu": 4, "placed_ago_s": 9000, "ended_ago_s": 2700}]
    offline = fleet(*hosts, instances=running, leavers=left, windows_s=[3600])
    seen = observe(offline.snapshot, offline.ledger)
    assert seen is not None
    assert seen.asked[0].tolist() == pytest.approx([5.0, 1.0])
    assert seen.usage[0].tolist() == pytest.approx([8.0, 0.5])
    assert seen.said[0].tolist() == pytest.approx([0.0, 0.5])


LEARNED = {"learned": {"cpu": 0.5}}
MODEL = LoadModel(learned=True)


def test_requested_and_placed_instances_are_expected_to_use_the_learned_part() -> None:
    """Both alike; an explicit figure wins; what is promised stays what was asked."""
    placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 0}]
    offline = fleet(machine("m", usage={"cpu": 0, "memory": 0}), instances=placed, **LEARNED)
    machines = see(offline, request(cpu=2, memory=10), MODEL)
    assert (machines.expected[0], machines.expected[1]) == (1.0, 10.0)
    assert (machines.mean[0, 0], machines.allocated[0, 0]) == (2.0, 4.0)
    assert see(offline, request(cpu=2, expected={"cpu": 1.7}), MODEL).expected[0] == 1.7
    assert see(offline, request(cpu=2), LoadModel()).expected[0] == 2.0


def test_the_default_of_a_profile_is_not_a_part_of_what_is_asked() -> None:
    """It is expected whole where no amount is asked, of the requested instance and of placed ones."""
    placed = [{"id": "i", "machine": "m", "memory": 4, "placed_ago_s": 0}]
    offline = fleet(machine("m", usage={"cpu": 0, "memory": 0}), instances=placed, **LEARNED)
    model = LoadModel(learned=True, estimate=Estimate(default={"cpu": 3.0}))
    assert see(offline, request(), model).expected[0] == 3.0
    assert see(offline, request(memory=4, expected={"memory": 1}), model).expected[:2].tolist() == [3.0, 1.0]
    assert see(offline, request(cpu=0), model).expected[0] == 0.0
    assert see(offline, request(cpu=2), model).expected[0] == 1.0
    assert see(offline, request(), model).mean[0, 0] == 3.0
    least = {"use": "least_allocated"}
    profile = {"learned": True, "estimate": {"default": {"cpu": 3.0}}, "scores": [least]}
    assert answer(ranked(offline, profile, request(memory=4))).expected_from["cpu"] == "the profile's estimate"


def test_every_score_that_adds_the_instance_adds_what_it_is_expected_to_use() -> None:
    """The risk of 2 cores of which half is used is that of 1; the peer's form adds the request."""
    offline = fleet(machine("m", usage={"cpu": 5, "memory": 0}), **LEARNED)
    half = scores(LoadVariationRisk(), offline, request(cpu=2), MODEL)
    assert half == scores(LoadVariationRisk(), offline, request(cpu=1), LoadModel())
    peer = LoadVariationRisk(newcomer="request")
    assert scores(peer, offline, request(cpu=2), MODEL) == scores(peer, offline, request(cpu=2), LoadModel())


def test_limits_never_use_it_and_the_answer_says_where_the_figure_comes_from() -> None:
    """A machine with 3 of 10 cores promised takes 7 more and not 8, whatever instances use."""
    placed = [{"id": "i", "machine": "m", "cpu": 3, "placed_ago_s": 9000}]
    offline = fleet(machine("m", usage={"cpu": 1, "memory": 0}), instances=placed, **LEARNED)
    profile = {"learned": True, "filters": [{"use": "fits"}], "scores": [{"use": "global_variance"}]}
    assert ranked(offline, profile, request(cpu=7)).chosen == "m"
    assert ranked(offline, profile, request(cpu=8)).chosen is None
    told = answer(ranked(offline, profile, request(cpu=2, memory=5, expected={"nic": 3})))
    assert told.learned == {"version": 1, "factors": {"cpu": 0.5}}
    assert told.expected_from == {
        "cpu": "learned: 50% of what is asked, fitted to the load of machines, of the fleet",
        "memory": "all that is asked",
        "nic": "as the request says",
    }
    assert answer(ranked(offline, profile | {"learned": False}, request(cpu=2))).learned is None
