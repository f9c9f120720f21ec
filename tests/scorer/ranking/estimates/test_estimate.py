"""The estimate of what an instance will use; who uses what is learned, and who does not."""

import pytest

from scorer.ledger.view.slots import request_record
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.explain import answer
from scorer.ranking.profiles.profile import LoadModel
from tests.scorer.fleets import fleet, machine, ranked, request, see


@pytest.mark.parametrize(
    ("estimate", "asked", "cpu"),
    [
        (Estimate(), {"cpu": 4, "limits": {"cpu": 8}}, 4),
        (Estimate(factor={"cpu": 0.85}), {"cpu": 4}, 3.4),
        (Estimate(base="larger", factor={"cpu": 0.85}), {"cpu": 4, "limits": {"cpu": 8}}, 6.8),
        (Estimate(base="larger", factor={"cpu": 1.2}), {"cpu": 4, "limits": {"cpu": 4}}, 4),
        (Estimate(base="limit-first", factor={"cpu": 1.5}), {"cpu": 4, "limits": {"cpu": 0}}, 0),
        (Estimate(base="limit-first", factor={"cpu": 1.5}), {"cpu": 4}, 6),
        (Estimate(default={"cpu": 0.25}), {}, 0.25),
        (Estimate(factor={"cpu": 0.85}), {"cpu": 4, "expected": {"cpu": 0.1}}, 0.1),
    ],
)
def test_what_an_instance_is_expected_to_use(estimate, asked, cpu):
    assert estimate.of_records(request_record(request(**asked)))[0, 0] == pytest.approx(cpu)
    offline = fleet(machine("m", usage={"cpu": 0}), instances=[{"id": "i", "machine": "m", "placed_ago_s": 0, **asked}])
    assert see(offline, None, LoadModel(estimate=estimate)).mean[0, 0] == pytest.approx(cpu)


LEARNED = {"learned": {"cpu": 0.5}}
MODEL = LoadModel(learned=True)


def test_requested_and_placed_instances_are_expected_to_use_the_learned_part():
    """Both alike; an explicit figure wins; what is promised stays what was asked."""
    placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 0}]
    offline = fleet(machine("m", usage={"cpu": 0, "memory": 0}), instances=placed, **LEARNED)
    machines = see(offline, request(cpu=2, memory=10), MODEL)
    assert (machines.expected[0], machines.expected[1]) == (1.0, 10.0)
    assert (machines.mean[0, 0], machines.allocated[0, 0]) == (2.0, 4.0)
    assert see(offline, request(cpu=2, expected={"cpu": 1.7}), MODEL).expected[0] == 1.7
    assert see(offline, request(cpu=2), LoadModel()).expected[0] == 2.0


def test_the_default_of_a_profile_is_not_a_part_of_what_is_asked():
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


def test_limits_never_use_it_and_the_answer_says_where_the_figure_comes_from():
    """A machine with 3 of 10 cores promised takes 7 more and not 8, whatever instances use."""
    placed = [{"id": "i", "machine": "m", "cpu": 3, "placed_ago_s": 9000}]
    offline = fleet(machine("m", usage={"cpu": 1, "memory": 0}), instances=placed, **LEARNED)
    profile = {"learned": True, "filters": [{"use": "fits"}], "scores": [{"use": "global_variance"}]}
    assert ranked(offline, profile, request(cpu=7)).chosen == "m"
    assert ranked(offline, profile, request(cpu=8)).chosen is None
    told = answer(ranked(offline, profile, request(cpu=2, memory=5, expected={"nic": 3})))
    assert told.learned == {"version": 1, "factors": {"cpu": 0.5}}
    assert told.expected_from == {
        "cpu": "learned: 50% of what is asked, of the fleet",
        "memory": "all that is asked",
        "nic": "as the request says",
    }
    assert answer(ranked(offline, profile | {"learned": False}, request(cpu=2))).learned is None
