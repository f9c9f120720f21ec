"""Figures by class and of memory, checked by hand; the core-minutes of a world with evictions are in test_evictions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ops.replay.report.comparison import MEMORY_RATIOS, NIC_RATIOS, Result
from ops.replay.report.measures import class_figures, further_figures, measure, overlap
from ops.replay.report.report import BY_CLASS, LOAD, markdown
from ops.replay.simulator.policies import ProfilePolicy, RandomFeasible
from ops.replay.simulator.simulation import simulate
from ops.replay.traces.formats import Lives
from ops.replay.workload import WorkloadError
from ops.replay.worlds.worlds import Shape, build_world
from schemas.resources import CPU, MEMORY, NIC
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.replay.small_worlds import small_world, waves, world

LIVES = Lives(np.array([600.0, 1_200.0, 3_600.0]), np.array([1.0, 2.0, 4.0]), np.full(3, 2.0**32))
INSTANCES = [(5.0, 6.0, 0, 120), (5.0, 6.0, 0, 60)]


def figures(classes):
    """Of prod and batch on one machine of ten cores for two hours, of which the second is prod's alone."""
    small = world([10.0], INSTANCES, minutes=120, classes=classes)
    outcome = simulate(small, ProfilePolicy(load_profiles(()).choose("kubernetes")))
    return dict(class_figures(outcome, 0, 120))


def test_what_prod_loses_on_a_hot_machine():
    """Twelve cores are asked of ten for an hour: in equal parts prod lacks a sixth of its six, by weight nothing."""
    found = figures(["prod", "batch"])
    assert found.keys() == BY_CLASS.formats.keys() - {"mean"}  # all are shown
    assert found["hot90_prod"] == found["on_hot_prod"] == 0.5
    assert found["hot90_alone"] == found["lost_yielding"] == 0.0
    assert found["lost_prod"] == pytest.approx((6 - 5) * 60 / (6 * 120))


def test_a_machine_that_prod_makes_hot():
    found = figures(["batch", "prod"])
    assert found["hot90_prod"] == 0.5
    assert figures(["free", "prod"]) == found


def test_a_world_of_prod_alone_has_no_figures_by_class():
    assert figures(["prod", "mid"]) == {}
    small = world([10.0], INSTANCES, minutes=120)
    assert "hosted" not in measure(simulate(small, ProfilePolicy(load_profiles(()).choose("kubernetes"))))["steady"]


def test_a_first_try_that_was_the_last_is_a_refusal():
    """An instance that asks shortly before the end asks once."""
    instances = [(8.0, 1.0, 0, 120), (8.0, 1.0, 118, 9), (1.0, 1.0, 0, 9)]
    small = world([10.0], instances, minutes=120, classes=["prod", "prod", "batch"])
    outcome = simulate(small, ProfilePolicy(load_profiles(()).choose("kubernetes")))
    assert outcome.tries.tolist() == [1, 1, 1]
    assert class_figures(outcome, 0, 120)["refused_prod"] == 0.5


def test_two_stretches_have_minutes_in_common():
    assert [int(overlap(first, last, 10, 20)) for first, last in ((0, 10), (5, 15), (12, 14), (25, 30))] == [0, 5, 2, 0]


def with_memory(load):
    """A world of three machines whose memory is used as its cores are, to this share."""
    shape = Shape(machines=3, days=1, per_machine=8, memory=True, memory_load=load)
    return build_world(replace(waves(), memory=waves().cpu), LIVES, shape, 1)


def test_figures_of_memory():
    """Two machines of 10 and 20 bytes, four minutes, of which the first is not asked about."""
    load = np.array([[[9.0] * 4] * 2, [[99.0, 5.0, 9.5, 12.0], [99.0, 10.0, 10.0, 10.0]]])
    fleet = SimpleNamespace(
        measured=np.array([CPU, MEMORY]), load=load, capacity=np.array([[10.0, 10.0], [10.0, 20.0]])
    )
    found = further_figures(SimpleNamespace(fleet=fleet), 1, 4)
    assert found == pytest.approx({"mem_std": (0.0 + 0.225 + 0.25) / 3, "mem90": 2 / 6, "mem100": 1 / 6})
    assert tuple(found) == MEMORY_RATIOS


def with_network(load=0.3):
    """A world of three machines; two of three sources have rates, of a tenth of a line at most."""
    rates = (waves().cpu * 1e8).astype(np.float32)
    rates[::3] = np.nan
    return build_world(replace(waves(), nic=rates), LIVES, Shape(machines=3, per_machine=8, nic=True, nic_load=load), 1)


def test_a_world_with_a_network():
    """It is used to the share that is wanted, and its figures stand in the tables."""
    found = with_network()
    assert found.asked[NIC].min() > 0
    outcome = simulate(found, RandomFeasible(1))
    demand = outcome.fleet.load[outcome.fleet.measured == NIC].sum(axis=(0, 1)) / found.capacity[NIC].sum()
    assert demand[120:].mean() == pytest.approx(0.3, rel=0.15)
    figures = measure(outcome)["steady"]
    assert set(NIC_RATIOS) <= figures.keys()
    results = [Result("f", 1, name, False, figures) for name in ("a", "b")]
    assert markdown(results, "a").count("network above 90 %") == 2


@pytest.mark.parametrize("rates", [None, np.full((24, 288), np.nan, np.float32), np.zeros((24, 288), np.float32)])
def test_a_trace_without_rates_has_no_network(rates):
    with pytest.raises(WorkloadError, match="network"):
        build_world(replace(waves(), nic=rates), LIVES, Shape(machines=3, nic=True), 1)


def test_a_world_without_memory_has_none():
    assert MEMORY_RATIOS[0] not in measure(simulate(small_world(machines=3), RandomFeasible(1)))["steady"]
    assert set(MEMORY_RATIOS) <= measure(simulate(with_memory(0.6), RandomFeasible(1)))["steady"].keys()


@pytest.mark.parametrize(("memory", "columns"), [(True, 1), (False, 0)])
def test_columns_of_memory(memory, columns):
    """The tables show memory where every result has it."""
    found = dict.fromkeys(LOAD.formats, 0.1) | (dict.fromkeys(MEMORY_RATIOS, 0.25) if memory else {})
    results = [Result("f", 1, name, False, found) for name in ("a", "b")]
    page = markdown(results, "a")
    assert page.count("memory above 90 %") == 2 * columns
    assert page.count("25.00%") == 6 * columns


def test_the_load_of_memory_is_that_of_the_shape():
    low, high = with_memory(0.2), with_memory(0.4)
    ratio = np.median(high.usage.scale[MEMORY] / low.usage.scale[MEMORY])
    assert ratio == pytest.approx(2.0, rel=0.05)
