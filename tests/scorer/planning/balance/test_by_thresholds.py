"""Plans by thresholds: rounds, classes, targets that stay below the source, moves on their way."""

from dataclasses import replace

import numpy as np
import pytest

from schemas.resources import RESOURCES
from scorer.planning.balance.advice import leaving
from scorer.planning.balance.by_overload import ceiling_of, over_and_under
from scorer.planning.balance.rounds import Rounds, UnderWay, condition_of
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.rebalance_section import Rebalancing
from tests.scorer.fleets import fleet, machine, steps

THRESHOLDS = {"high": {"cpu": 65.0}, "low": {"cpu": 45.0}}


def usage(cpu):
    return {"usage": {"cpu": {"mean": cpu, "std": 0.2}, "memory": 5}}


def hot(**more):
    machines = [machine("hot", **usage(8)), *(machine(f"cold{n}", **usage(1)) for n in range(3))]
    return fleet(
        *machines, instances=[{"id": f"i{n}", "machine": "hot", "cpu": 1, "memory": 1, **more} for n in range(4)]
    )


def planned(of, now_s=0.0, **more):
    rounds, under_way = more.pop("rounds", None), UnderWay(more.pop("pending", {}))
    settings = Rebalancing(rule="thresholds", **{**THRESHOLDS, **more})
    profile = replace(load_profiles().choose("windward"), rebalance=settings)
    return leaving(RankingInputs(of.snapshot, of.ledger, profile, of.now_s + now_s), rounds, under_way)


def test_what_leaves_has_a_target_that_stays_below():
    """Two leave until the machine is below its threshold; each step keeps the rule of expected overload."""
    plan = planned(hot())
    assert len(steps(plan)) == 2
    assert all(one.overload["target"][1] <= one.overload["source"][0] for one in steps(plan))
    assert plan.totals["highest"][1] < plan.totals["highest"][0]
    assert all("node cpu usage" in step.reason for step in steps(plan))


def test_the_number_of_instances_has_a_threshold():
    counted = {"high": {"instances": 60.0}, "low": {"instances": 40.0}, "instances_full": 5}
    plan = planned(hot(), **counted)
    assert len(steps(plan)) == 1
    assert "node instances usage(80.00%)>threshold(60.00%)" in steps(plan)[0].reason
    assert steps(planned(hot(), **counted | {"instances_full": 7})) == []


def test_weights_say_what_goes_first():
    """Both resources are above; by cpu the one that uses cores goes, by memory the one that uses bytes."""
    machines = [machine("hot", usage={"cpu": 8, "memory": 80}), *(machine(f"cold{n}", **usage(1)) for n in range(3))]
    instances = [
        {"id": "cores", "machine": "hot", "cpu": 1.9, "memory": 1},
        {"id": "bytes", "machine": "hot", "cpu": 0.1, "memory": 19},
    ]
    more = {"high": {"cpu": 65.0, "memory": 65.0}, "low": {"cpu": 45.0, "memory": 45.0}, "moves_max": 1}
    for weights, first in (({"cpu": 1}, "cores"), ({"memory": 1}, "bytes")):
        plan = planned(fleet(*machines, instances=instances), weights=weights, **more)
        assert [one.id for one in steps(plan)] == [first]


def test_only_after_several_rounds():
    rounds = Rounds(condition_of(Rebalancing(rounds_over=2), 60.0))
    assert [len(steps(planned(hot(), 20.0 * n, rounds=rounds))) for n in range(3)] == [0, 0, 2]


@pytest.mark.parametrize(
    "low, high, moves, told",
    [
        (0, 0, 3, ">threshold(27.50%)"),
        (0, 10, 3, ">threshold(37.50%)"),
        (0, 25, 3, ">threshold(52.50%)"),
        (0, 60, 0, ""),
        (5, 10, 3, ">threshold(37.50%)"),
        (17, 40, 2, ">threshold(67.50%)"),
        (18, 10, 0, ""),
    ],
)
def test_a_distance_of_0_from_the_mean_is_a_distance(low, high, moves, told):
    """The mean is 27.5 %, and the machines with room are 17.5 points below it. The reason has what was compared."""
    plan = planned(hot(), deviation=True, low={"cpu": low}, high={"cpu": high})
    assert len(steps(plan)) == moves
    assert all(f"cpu usage({80 - 10 * n:.2f}%){told}" in step.reason for n, step in enumerate(steps(plan)))


CPU, MEMORY = RESOURCES.index("cpu"), RESOURCES.index("memory")
FRESH = np.array([True, True, True, False])


def utilization():
    found = np.full((len(RESOURCES), 4), np.nan)
    found[CPU] = 0.9, 0.5, 0.1, 0.9
    found[MEMORY] = 0.2, 0.8, np.nan, 0.2
    return found


@pytest.mark.parametrize(
    ("high", "low", "deviation", "over", "under"),
    [
        pytest.param({}, {}, False, [1, 1, 1, 0], [1, 1, 1, 0], id="without thresholds every fresh machine is both"),
        pytest.param({"cpu": 80}, {}, False, [1, 0, 0, 0], [1, 1, 1, 0], id="any above high"),
        pytest.param({"cpu": 80, "memory": 70}, {}, False, [1, 1, 0, 0], [1, 1, 1, 0], id="of any resource"),
        pytest.param({"cpu": 90}, {"cpu": 50}, False, [0, 0, 0, 0], [0, 1, 1, 0], id="equal is not above"),
        pytest.param({}, {"cpu": 60, "memory": 50}, False, [1, 1, 1, 0], [0, 0, 1, 0], id="unknown is not above low"),
        pytest.param({"cpu": 20}, {"cpu": 20}, True, [1, 0, 0, 0], [0, 0, 1, 0], id="around the mean of 0.5"),
    ],
)
def test_over_and_under(high, low, deviation, over, under):
    found = over_and_under(utilization(), FRESH, high, low, deviation)
    assert [each.astype(int).tolist() for each in found] == [over, under]


def test_the_ceiling_of_targets():
    assert ceiling_of([CPU, MEMORY], utilization(), FRESH, {"cpu": 80}).tolist() == [0.8, np.inf]
    assert ceiling_of([CPU], utilization(), FRESH, {"cpu": 20}, True).tolist() == pytest.approx([0.7])


NAMES = ("a", "b")


@pytest.mark.parametrize(
    ("rounds_over", "seen", "found"),
    [
        pytest.param(1, "xx", "xx", id="at once"),
        pytest.param(2, "xxxx", "..xx", id="from the third round on"),
        pytest.param(2, "xx.xxx", ".....x", id="a quiet round begins anew"),
        pytest.param(2, "......", "......", id="never over"),
    ],
)
def test_rounds_in_a_row(rounds_over, seen, found):
    rounds = Rounds(condition_of(Rebalancing(rounds_over=rounds_over, over_s=600.0), 60.0))
    answers = [
        rounds.sources(NAMES, np.array([mark == "x", True]), 1_000.0 + 60 * n).tolist() for n, mark in enumerate(seen)
    ]
    assert "".join("x" if first else "." for first, _ in answers) == found
    assert [second for _, second in answers][:rounds_over] == [rounds_over == 1] * rounds_over


def test_rounds_far_apart_are_still_in_a_row():
    """The count outlives two rounds however long they are, and a machine that is silent for longer begins anew."""
    for pause_s, expected in ((3_600.0, True), (10_000.0, False)):
        rounds = Rounds(condition_of(Rebalancing(rounds_over=2), 3_600.0))
        over = np.array([True, False])
        answers = [rounds.sources(NAMES, over, 1e6 + pause_s * n)[0] for n in range(3)]
        assert answers[-1] == expected
