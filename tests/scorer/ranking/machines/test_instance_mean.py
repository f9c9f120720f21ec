"""The mean as the sum over instances: what each was measured to use, what is expected of new ones, and the system."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from scorer.commands.shared.fleet_file import FleetState
from scorer.commands.shared.in_words import answer_of
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import instance_of
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.profile import LoadModel, Profile, ProfileError
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from scorer.ranking.seen import fleet_of
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine, ranked, request, see

CPU = RESOURCES.index("cpu")
MODEL = LoadModel(window=300, debits=True, mean_of="instances", estimate=Estimate(factor={"cpu": 0.5}))
AGED = {"usage_since_s": 5400.0}
"""Reported for so long that the measurement weighs three quarters."""


def one(name: str, cpu: float = 8.0, **more: Any) -> dict[str, Any]:
    """An instance that asks 8 cores and is expected to use 4."""
    return {"id": name, "machine": "m", "cpu": cpu, **more}


def host(*instances: dict[str, Any], leavers: Any = (), **more: Any) -> FleetState:
    """A machine of 40 cores that used 20 over its window, half a core of it the system's."""
    about = {"usage": {"cpu": 20}, "system": {"cpu": 0.5}} | more
    return fleet(machine("m", cpu=40, **about), instances=list(instances), leavers=list(leavers), windows_s=[300])


def cpu(offline: FleetState, column: str = "mean") -> float:
    """One column's figure of cpu."""
    return float(see(offline, None, MODEL).column(column)[CPU, 0])


@each_row(
    ("what", "offline", "mean", "credit"),
    [
        ("measured for 90 minutes", host(one("a", usage={"cpu": 6}, **AGED)), 0.5 + 0.75 * 6 + 0.25 * 4, 1.0),
        ("two", host(*(one(n, usage={"cpu": 6}, **AGED) for n in "ab")), 0.5 + 2 * 5.5, 2.0),
        ("one just placed", host(one("a", usage={"cpu": 6}, **AGED), one("b", placed_ago_s=5)), 0.5 + 5.5 + 4, 5.0),
        ("not confirmed", host(one("a", usage={"cpu": 6}, **AGED), one("b", started=False)), 0.5 + 5.5 + 4, 5.0),
        ("nobody there", host(), 0.5, 0.0),
        ("long known", host(one("a", usage={"cpu": 6}, usage_since_s=1e9)), 6.5, 0.0),
        ("too few are measured", host(one("a", usage={"cpu": 6}, **AGED), one("b")), 20.0, 0.0),
        ("four of five are", host(*(one(n, usage={"cpu": 6}, **AGED) for n in "abcd"), one("e")), 0.5 + 4 * 5.5 + 4, 8),
        ("the system is not known", host(one("a", usage={"cpu": 6}, **AGED), system={"memory": 1}), 20.0, 0.0),
        ("the report is old", host(one("a", usage={"cpu": 6}, usage_age_s=601)), 20.0, 0.0),
        ("of what had the id before", host(one("a", usage={"cpu": 6}, placed_ago_s=-60)), 0.5 + 4 + 6, 4.0),
        ("no reports", host(one("a"), system={}), 20.0, 0.0),
        ("the window has no mean", host(one("a", usage={"cpu": 6}), usage={"memory": 1}), math.nan, 4.0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_mean(what: str, offline: FleetState, mean: float, credit: float) -> None:
    """Where enough is measured the sum counts, else the window's mean with its credits and debits.

    What was reported until an instance started is of another: load of nobody, until the next report.
    """
    assert cpu(offline) == pytest.approx(mean, abs=0.01, nan_ok=True)
    assert cpu(offline, "credit") == pytest.approx(credit, abs=0.02)
    assert cpu(offline, "debit") == pytest.approx(0.0 * mean, nan_ok=True)


def test_what_is_nobodys_is_load_all_the_same() -> None:
    """An id that the ledger does not have there: counted with the system, not as an instance."""
    offline = host(one("a", usage={"cpu": 6}), one("b", usage={"cpu": 3}, usage_since_s=1e9))
    offline.ledger.forget("a")
    assert cpu(offline) == pytest.approx(0.5 + 6 + 3, abs=0.02)


def test_what_ended_is_gone_at_once_unless_it_goes_on() -> None:
    """The next report no longer has it; one that is still reported a minute later is load as before."""
    stays = one("b", usage={"cpu": 3}, usage_since_s=1e9)
    left = one("a", usage={"cpu": 6})
    assert cpu(host(stays, leavers=[left | {"ended_ago_s": 59.5}])) == pytest.approx(3.5, abs=0.02)
    assert cpu(host(stays, leavers=[left | {"ended_ago_s": 60.5}])) == pytest.approx(9.5, abs=0.02)


def test_an_answer_says_which_mean_it_is() -> None:
    """By resource; what is shown as the mean is what was measured of it."""
    offline = host(one("a", usage={"cpu": 6}, **AGED))
    profile = parse_profile('window = 300\nmean_of = "instances"\nestimate.factor = { cpu = 0.5 }', "mine")
    said = answer_of(ranked(offline, profile)).candidates[0].resources
    assert said["cpu"]["of_instances"] == 1.0
    assert (said["cpu"]["mean"], said["cpu"]["credit"], said["cpu"]["debit"]) == (pytest.approx(5.0), 1.0, 0.0)
    assert said["memory"]["of_instances"] == 0.0
    plain = answer_of(ranked(offline, {"window": 300})).candidates[0].resources
    assert "of_instances" not in plain["cpu"]


@given(st.lists(st.sampled_from(["reserve", "confirm", "leave"]), max_size=12), st.randoms(use_true_random=False))
def test_kept_columns_are_those_made_anew(steps: list[str], rng: Any) -> None:
    """Whatever comes and leaves, what is kept between decisions is what a new ranking would find."""
    offline = fleet(
        *(machine(name, usage={"cpu": 9, "memory": 5}, system={"cpu": 1, "memory": 1}) for name in "mno"),
        instances=[{**one(f"i{n}", usage={"cpu": n, "memory": 2}), "machine": "mno"[n % 3]} for n in range(7)],
        windows_s=[300],
    )
    kept, ledger = Kept(), offline.ledger
    for number, step in enumerate(steps):
        if step == "reserve":
            ledger.apply(instance_of(request(id=f"new{number}", cpu=3), rng.choice("mno"), offline.now_s))
        elif ledger.instances:
            record = ledger.instances[rng.choice(sorted(ledger.instances))]
            how = {"state": "confirmed", "started_at": offline.now_s} if step == "confirm" else {
                "state": "released", "ended_at": offline.now_s - rng.choice([0, 100])}  # fmt: skip
            ledger.apply(copy_with(record, **how))
        found = fleet_of(RankingInputs(offline.snapshot, ledger, Profile("any"), offline.now_s, kept), MODEL)
        fresh = fleet_of(RankingInputs(offline.snapshot, ledger, Profile("any"), offline.now_s), MODEL)
        for column in ("mean", "credit", "of_instances", "utilization"):
            mine, anew = (Machines(each, request(), offline.now_s).column(column) for each in (found, fresh))
            np.testing.assert_allclose(mine, anew, rtol=1e-9, atol=1e-9)


def test_both_means_know_the_load_of_the_same_machines() -> None:
    """What is kept of a snapshot is shared by load models of one window: a ranking by one changes none by the other."""
    reported = {"system": {"cpu": 1, "memory": 1}}
    machines = (machine(name, usage=usage, **reported) for name, usage in [("m", {"nic": 1}), ("n", {"cpu": 3})])
    offline, kept = fleet(*machines), Kept()
    for mean_of in ("window", "instances"):
        for score in ("expected_overload", "global_variance"):
            profile = parse_profile(f'mean_of = "{mean_of}"\n[[scores]]\nuse = "{score}"', "mine")
            found = rank(request(cpu=1), offline.inputs(profile, kept))
            anew = rank(request(cpu=1), offline.inputs(profile))
            assert found.total.tolist() == anew.total.tolist()
            assert found.total[0] == 0.0 < found.total[1]


def test_a_copy_adds_what_is_expected_of_it() -> None:
    """A batch that looks ahead sees what a new ranking would."""
    machines = see(host(one("a", usage={"cpu": 6}, **AGED)), request(cpu=2), MODEL)
    ahead = machines.take(np.array([0]), np.array([3]))
    assert (ahead.mean - machines.mean)[CPU].tolist() == [3.0]
    assert (ahead.credit - machines.credit)[CPU].tolist() == [3.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('mean_of = "instances"\ncredits = "none"', "the sum over instances goes with credits"),
        ('mean_of = "machines"', "mean_of"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(text: str, said: str) -> None:
    """With the reason."""
    with pytest.raises(ProfileError, match=said):
        parse_profile(text, "mine")


def test_a_score_with_other_credits_sees_the_windows_mean() -> None:
    """The sum over instances has credits in it already."""
    profile = parse_profile('mean_of = "instances"\n[[scores]]\nuse = "least_allocated"\ncredits = "none"', "mine")
    assert profile.load_model.mean_of == "instances"
    assert profile.scores[0].load_model is not None
    assert profile.scores[0].load_model.mean_of == "window"
