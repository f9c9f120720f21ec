"""Moves proposed by query: those of the command; nothing is changed."""

import re
from typing import Any

import pytest

from schemas.rpc.request import InvalidRequest
from scorer.planning.balance.advice import advice
from scorer.ranking.profiles.profile import ProfileError
from tests.rows import each_row
from tests.scorer.planning.balance.test_by_overload import hot_and_cold, moves
from tests.scorer.rpc.test_results import Scorer


@pytest.fixture
def scorer() -> Scorer:
    """One machine near its limit with five instances, three that are half idle."""
    offline = hot_and_cold()
    scorer = Scorer(offline)
    for one in offline.ledger.instances.values():
        scorer.service.current.ledger.apply(one)
    return scorer


def told(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["id"], one["source"], one["target"]) for one in found["moves"]]


@pytest.mark.parametrize("profile", ["windward", "koordinator"])
def test_the_moves_are_those_of_the_command(scorer: Scorer, profile: str) -> None:
    """By either rule, with their gain, copy and reason; the ledger stays as it is."""
    offline, current = hot_and_cold(), scorer.service.current
    expected = advice(offline.inputs(current.profiles.choose(profile)))
    before = dict(current.ledger.instances)
    found = scorer.ask("rebalance", profile=profile)
    unplaced = [(one.id, one.machine, None) for one, _ in expected.unplaced]
    assert told(found) == [*moves(expected), *unplaced]
    assert all(one["reason"] for one in found["moves"])
    assert found["rule"] == current.profiles.choose(profile).rebalance.rule
    if profile == "windward":
        assert found["moves"]
    for one, step in zip(found["moves"], expected.steps, strict=not unplaced):
        assert (one["gain"], one["copy_bytes"], one["copy_s"]) == (step.gain, step.copy_bytes, step.copy_s)
    assert found["totals"] == {name: list(pair) for name, pair in expected.totals.items()}
    assert current.ledger.instances == before


def test_settings_in_place_of_the_profiles(scorer: Scorer) -> None:
    """Fewer moves; and a label that source and target share, which here none does."""
    before = scorer.service.current.profiles.choose("koordinator").rebalance
    assert len(told(scorer.ask("rebalance", profile="koordinator"))) == 2
    assert len(told(scorer.ask("rebalance", profile="koordinator", moves_max=1))) == 1
    assert told(scorer.ask("rebalance"))
    assert told(scorer.ask("rebalance", same=["machine"])) == []
    assert told(scorer.ask("rebalance", settings={"gain_min": 1.0})) == []
    assert scorer.ask("rebalance", settings={"objective": "variance"})["objective"] == "variance"
    assert scorer.service.current.profiles.choose("koordinator").rebalance == before, "the profile itself stays"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gain_min": "much"}, "settings.gain_min: expected a number, got text"),
        ({"gain_min": 2}, "gain_min: expected a share from 0 to 1"),
        ({"gain": 0.1}, "settings: no setting 'gain'; there are classes, cluster_max"),
        ({"moves_max": 10**6}, "settings: no setting 'moves_max'"),
    ],
)
def test_settings_that_are_refused(scorer: Scorer, settings: dict[str, Any], said: str) -> None:
    """Each by its name; what is a parameter of its own has its own bound."""
    with pytest.raises(InvalidRequest, match=re.escape(said)):
        scorer.ask("rebalance", settings=settings)


@pytest.mark.parametrize("profile", ["windward", "koordinator"])
def test_several_rounds(scorer: Scorer, profile: str) -> None:
    """A machine gives in the round after `rounds_over` of them; the state is that of the answer before."""
    asked = {"profile": profile, "every_s": 60, "settings": {"rounds_over": 2, "over_s": 600}}
    alone, found, states = told(scorer.ask("rebalance", profile=profile)), [], [""]
    for _ in range(3):
        answer = scorer.ask("rebalance", **asked, rounds=states[-1])
        found.append(told(answer))
        states.append(answer["rounds"])
    assert found == [[], [], alone]
    assert told(scorer.ask("rebalance", **asked, rounds=states[1])) == []
    assert scorer.ask("rebalance", profile=profile)["rounds"] == ""


@each_row(
    ("asked", "error"),
    [({"moves_max": 0}, "moves_max"), ({"rounds": "[{},{},{}]"}, "rounds: give every_s"),
     ({"rounds": "[{}]", "every_s": 60}, "rounds: not the state of a round before"), ({"every_s": 0}, "every_s"),
     ({"same": [""]}, "same: expected names"), ({"profile": "none"}, "profile"),
     ({"apply": True}, "apply")],
)  # fmt: skip
def test_refused(scorer: Scorer, asked: dict[str, Any], error: str) -> None:
    with pytest.raises((InvalidRequest, ProfileError), match=error):
        scorer.ask("rebalance", **asked)
