"""Scores read from kept octaves, against scores made anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rpc.request import Request
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.formulas.octaves import KEPT_MAX, OFTEN, POINTS, Octaves
from scorer.ranking.formulas.variance import Added
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from scorer.snapshot.arrays import Floats
from tests.effort import effort
from tests.scorer.fleets import fleet, machine, request, toml

DIGITS = 25 * 1e-6
"""Of a score: a millionth of the capacity."""


def profile(**settings: Any) -> Profile:
    """Return the profile with `expected_overload` alone."""
    return parse_profile(toml({"scores": [{"use": "expected_overload", **settings}]}), "test")


class Rankings:
    """Rankings one after the other on a fleet, with what is kept between them."""

    def __init__(self, hosts: list[dict[str, Any]], how: Profile) -> None:
        self.offline, self.how = fleet(*hosts), how
        self.kept, self.ledger = Kept(), LedgerView()

    def score(self, asked: Request, *, anew: bool = False) -> Floats:
        """Return the score of all machines; ``anew``: with nothing kept."""
        kept = Kept() if anew else self.kept
        return (
            rank(asked, RankingInputs(self.offline.snapshot, self.ledger, self.how, self.offline.now_s, kept))
            .terms[0]
            .raw
        )

    def octaves(self) -> Octaves:
        """Return what is kept of octaves, which the last ranking read."""
        ranking = rank(
            request(cpu=1), RankingInputs(self.offline.snapshot, self.ledger, self.how, self.offline.now_s, self.kept)
        )
        term = ranking.terms[0]
        found: Octaves = term.machines.of_fleet("octaves", lambda _: pytest.fail("nothing was counted"))
        return found


def hosts_of(draw: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Return idle, full and overloaded machines of several sizes; some report no memory, one nothing."""
    hosts = [machine("blind", memory=1e11)] if draw.uniform() < 0.5 else []
    for number in range(count):
        size = float(draw.choice([8, 16, 48, 96]))
        usage: dict[str, Any] = {"cpu": {"mean": size * draw.uniform(0, 1.2), "std": size * draw.uniform(0, 0.3)}}
        if draw.uniform() < 0.8:
            usage["memory"] = {"mean": 1e11 * draw.uniform(0, 1), "std": 3e9}
        hosts.append(machine(f"m{number}", cpu=size, memory=1e11, usage=usage))
    return hosts


@settings(max_examples=effort(25, 250), deadline=None)
@given(
    seed=st.integers(0, 2**31),
    variation=st.sampled_from([1.0, 1.75, 6.0]),
    evenness=st.sampled_from([0.0, 1.0]),
    factor=st.sampled_from([1.0, 0.3]),
)
def test_a_score_read_from_an_octave_is_that_made_anew(
    seed: int, variation: float, evenness: float, factor: float
) -> None:
    """For amounts from a sixty-fourth of a core to four cores, and as many GiB."""
    draw = np.random.default_rng(seed)
    how = parse_profile(
        toml({
            "estimate": {"factor": {"cpu": factor}},
            "scores": [{
                "use": "expected_overload", "variation": variation, "variation_of": "requests", "evenness": evenness,
            }],
        }),
        "test",
    )  # fmt: skip
    rankings = Rankings(hosts_of(draw, 20), how)
    for least in (2.0**-6, 0.5, 2.0):
        for cpu, memory in draw.uniform(least, 2 * least, (OFTEN + 6, 2)).tolist():
            asked = request(cpu=cpu / variation, memory=2**30 * memory / variation)
            np.testing.assert_allclose(rankings.score(asked), rankings.score(asked, anew=True), atol=DIGITS)
    kept = rankings.octaves()._kept
    assert sum(columns is not None for columns in kept.values()) >= 2, "nothing was read from what is kept"


def asked_in_one_octave(rankings: Rankings) -> Request:
    """Ask for so many amounts of one octave that the next is read, and return one that was not asked for."""
    for number in range(OFTEN):
        rankings.score(request(cpu=1.0 + number / 40))
    return request(cpu=1.96875)


def test_an_octave_is_read_after_some_requests_and_until_the_next_placement() -> None:
    """What is kept after a placement would be of another ledger."""
    rankings = Rankings(hosts_of(np.random.default_rng(1), 20), profile())
    asked = asked_in_one_octave(rankings)
    again = rankings.score(asked)
    assert rankings.octaves()._kept
    assert (again != rankings.score(asked, anew=True)).any(), "it was made anew"
    rankings.ledger.apply(instance_of(request(cpu=4), "m3", rankings.offline.now_s, "placed"))
    assert (rankings.score(asked) == rankings.score(asked, anew=True)).all()


def test_machines_alike_have_one_score_wherever_they_are() -> None:
    """A product adds the last columns of an odd number in another order; min-max would spread that over 0 to 100."""
    for count in range(1, 40):
        usage = {"cpu": {"mean": 3.3, "std": 0.7}, "memory": 21}
        rankings = Rankings([machine(f"m{number}", usage=usage) for number in range(count)], profile())
        found = rankings.score(asked_in_one_octave(rankings))
        assert rankings.octaves()._kept, "it was made anew"
        assert len(set(found.tolist())) == 1


@pytest.mark.parametrize(
    ("what", "how", "scale"),
    [
        ("an amount is known better than to its half", {"variation": 0.5}, 1.0),
        ("the score could leave 0 to 100", {}, 8.0),
        ("twice the amount is no number", {}, 1e308),
        ("no amount is expected to be used", {}, 0.0),
    ],
)
def test_where_no_polynomial_is_close_nothing_is_kept(what: str, how: dict[str, float], scale: float) -> None:
    """The score is made anew however often such amounts are asked for."""
    rankings = Rankings(hosts_of(np.random.default_rng(2), 10), profile(weights={"cpu": 1.0}, **how))
    for number in range(2 * OFTEN):
        asked = request(cpu=scale * (1.0 + number / 80), memory=1)
        assert np.array_equal(rankings.score(asked), rankings.score(asked, anew=True), equal_nan=True), what


def test_octaves_are_bounded() -> None:
    """Whoever asks for amounts of all sizes fills no memory, and is answered as before."""
    octaves = Octaves()
    made: list[int] = []

    def smooth(largest: Any) -> bool:
        made.append(1)
        return True

    def read(asked: list[Added]) -> Any:
        return octaves.read(asked, lambda each: np.array([each.deviation]), smooth)

    for exponent in range(-600, 600):
        asked = [Added(0, 1.0, 1.25 * 2.0**exponent, 1.5 * 2.0**exponent)]
        for _ in range(OFTEN):
            octaves.count(asked)
        read(asked)
    assert len(made) == len(octaves._kept) == KEPT_MAX
    assert len(octaves._times) == 1024
    found = read([Added(0, 1.0, 1.25 * 2.0**-600, 1.5 * 2.0**-600)])
    assert found is not None
    assert POINTS.size == 7
