"""The answer in words: terms, verdicts, warnings."""

import json

import msgspec
import pytest

from schemas.resources import RESOURCES
from schemas.rpc.results import Refusal
from scorer.commands.placing.ranked import explained_only, ranking
from scorer.ranking import explain
from scorer.ranking.explain import answer as answer_of
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.scorer.fleets import PROFILES, fleet, machine, mixed, ranked, request


def test_an_answer_for_another_machine_warns_of_that_one():
    """One of a batch went there: the best machine's data are not its concern."""
    offline = fleet(machine("a"), machine("b", usage={"cpu": 1, "memory": 1}))
    found = ranked(offline, "kubernetes", cpu=1)
    warned = {name: explain.warnings(found, offline.snapshot.roster.index[name]) for name in "ab"}
    assert warned == {"a": ["a has no data"], "b": []}


@pytest.mark.parametrize("profile", sorted(PROFILES.by_name))
def test_machines_told_together_are_told_as_one_by_one(profile):
    described = [machine(f"m{n}", **({"usage": {"cpu": n, "memory": 9 * n}} if n % 3 else {})) for n in range(8)]
    offline = fleet(*described, machine("old", usage={"cpu": 1, "memory": 1}, age_s=900))
    rows = [3, 0, 8, 3, 5]
    together = ranked(offline, profile, cpu=2, memory=5)
    candidates, told = explain.candidates(together, rows), explain.told(together, rows)
    assert [each.machine for each in candidates] == [each.machine for each in told] == ["m3", "m0", "old", "m3", "m5"]
    for place, row in enumerate(rows):
        alone = ranked(offline, profile, cpu=2, memory=5)
        assert explain.candidates(alone, [row]) == [candidates[place]]
        assert explain.told(alone, [row]) == [told[place]]


def test_the_answer_has_the_terms_of_the_choice():
    offline = fleet(
        machine("a", usage={"cpu": {"mean": 2, "std": 1}, "memory": 20}, age_s=7),
        machine("b", usage={"cpu": {"mean": 6, "std": 1}, "memory": 60}),
        instances=[{"id": "i", "machine": "a", "cpu": 1, "memory": 10, "placed_ago_s": 0}],
    )
    answer = answer_of(ranked(offline, cpu=2, memory=5))
    json.dumps(msgspec.to_builtins(answer), allow_nan=False)
    best, runner_up = answer.candidates
    assert (answer.machine, best.machine, runner_up.machine) == ("a", "a", "b")
    assert best.resources["cpu"] == {
        "mean": 2.0, "std": 1.0, "credit": 1.0, "debit": 0.0, "promised": 1.0, "allocatable": 10.0,
        "utilization": pytest.approx(0.3),
        "request": 2.0,
    }  # fmt: skip
    assert (best.window_s, best.age_s, best.instances) == (3600, pytest.approx(7), 1)
    assert best.scores["expected_overload"]["weight"] == 3
    assert best.risk == pytest.approx((0.3 + 0.2 + 0.1) / 2)
    assert best.score == pytest.approx((3 * 100 + 100 * (1 - best.risk)) / 4)
    assert answer.expected == dict.fromkeys(RESOURCES, 0) | {"cpu": 2, "memory": 5}


def test_each_machine_is_told_its_place_and_what_it_lacks_to_the_best():
    machines = [machine(f"m{n}", usage={"cpu": n, "memory": 10 * n}) for n in range(1, 6)]
    answer = answer_of(ranked(fleet(*machines, machine("dark")), explain=True, cpu=1, memory=1))
    *feasible, dark = answer.machines or ()
    assert [one.place for one in feasible] == [1, 2, 3, 4, 5]
    for one in feasible:
        assert sum(one.lacks.values()) == pytest.approx((answer.score or 0.0) - one.score)
    assert (dark.machine, dark.place, dark.lacks) == ("dark", None, {})
    shown = ranking(explained_only(answer, "m3"))
    assert "m3, with the instance:" in shown
    assert "m3: feasible, place 3 of 5" in shown
    assert "points below m1: " in shown
    assert "dark: refused by fresh: without data" in ranking(explained_only(answer, "dark"))


def test_explain_has_every_machine_with_every_verdict():
    answer = answer_of(ranked(mixed(), explain=True, cpu=1))
    assert len(answer.machines) == 5
    shown = {each.machine: each for each in answer.machines}
    verdict = next(each for each in shown["busy0"].filters if each["filter"] == "fits")
    assert verdict["allowed"] is False
    assert verdict["reason"] == "too much cpu used"
    assert verdict["compared"]["taken"]["cpu"] == 9.5
    assert explain.answer(ranked(mixed(), cpu=1)).machines is None


def test_warnings_tell_warming_and_stale():
    thin = {"cpu": {"mean": 1, "coverage": 0.2}, "memory": {"mean": 1, "coverage": 0.2}}
    offline = fleet(machine("new", usage=thin), machine("old", usage={"cpu": 1}, age_s=900))
    warnings = explain.answer(ranked(offline)).warnings
    assert warnings == [
        "new is warming: 20% of its window is covered",
        "1 of 2 machines is warming: new",
        "1 of 2 machines have data older than 60 s",
    ]


def test_a_score_used_twice_is_told_twice():
    text = '[[filters]]\nuse = "cordon"\n' + "".join(
        f'[[scores]]\nuse = "target_load_packing"\nresource = "{name}"\n' for name in ("cpu", "memory")
    )
    offline = fleet(
        machine("a", usage={"cpu": 4, "memory": 0}), machine("b", usage={"cpu": 4}, operator={"cordon": True})
    )
    found = rank(request(), offline.inputs(parse_profile(text, "twice")))
    told = {one.machine: one.scores for one in answer_of(found, explain_all=True).machines or ()}
    assert {name: score["value"] for name, score in told["a"].items()} == {
        "target_load_packing": 100,
        "target_load_packing 2": 40,
    }
    assert [score["value"] for score in told["b"].values()] == [None, None]


def test_no_machine_fits_is_an_answer_in_one_line():
    found = ranked(mixed())
    assert found.chosen is None
    assert explain.summary(found) == "0/5 feasible: 3 cpu used over threshold, 2 stale"
    answer = explain.answer(found)
    assert answer.machine is None
    assert answer.candidates == []
    assert answer.refusals == [
        Refusal(filter="usage_threshold", reason="cpu used over threshold", machines=3),
        Refusal(filter="fresh", reason="stale", machines=2),
    ]


def test_a_request_larger_than_any_machine_says_so():
    assert explain.summary(ranked(mixed(), cpu=1000)) == "0/5 feasible: 3 cpu larger than the machine, 2 stale"
