"""What a move costs: the plan takes only moves that gain more than their copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.commands.shared.fleet_file import FleetState
from scorer.planning.balance import cost
from scorer.planning.balance.cost import LASTS_S
from scorer.planning.balance.loads import Loads
from scorer.planning.balance.moves import Hosts, Movable
from scorer.planning.balance.search import plan
from scorer.planning.balance.tentative import Draft
from scorer.ranking.profiles.rebalance_section import Rebalancing
from tests.effort import examples
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine
from tests.scorer.planning.balance.test_by_overload import moves, planned

NIC = 1e9
GIB = 2.0**30


def hot(**instance: Any) -> FleetState:
    """A hot machine with one instance, and a cold one; memory in bytes, NICs of 1 GB/s."""
    machines = [
        machine(
            name, 10, 1e13, capacity={"nic": NIC}, usage={"cpu": {"mean": mean, "std": 0.5}, "memory": 1e9, "nic": 0}
        )
        for name, mean in (("hot", 9.0), ("cold", 0.5))
    ]
    return fleet(*machines, instances=[{"id": "i", "machine": "hot", "cpu": 3, "memory": GIB, **instance}])


@each_row(
    ("instance", "bounds", "moved"),
    [
        pytest.param({}, {}, True, id="a GiB is copied in two seconds"),
        pytest.param({"memory": 200 * GIB}, {}, True, id="seven minutes leave a third of the gain"),
        pytest.param({"memory": 400 * GIB}, {}, False, id="fourteen of the thirty minutes for which the gain counts"),
        pytest.param({"memory": 400 * GIB}, {"gain_min": 0.0}, False, id="and a plan that takes any gain"),
        pytest.param({"memory": 400 * GIB}, {"nic_share": 0.8}, True, id="which is shorter with more of the NIC"),
        pytest.param({"memory": 400 * GIB}, {"nic_share": 1.0}, False, id="with all of it the NICs are full"),
        pytest.param({"memory": 4000 * GIB}, {"gain_min": 0.0}, False, id="longer than the gain counts"),
    ],
)
def test_a_move_gains_more_than_it_costs(instance: dict[str, Any], bounds: dict[str, Any], moved: bool) -> None:
    """The larger the memory and the slower the NIC, the longer both machines carry the instance and the copying."""
    assert moves(planned(hot(**instance), **bounds)) == ([("i", "hot", "cold")] if moved else [])


def test_gain_and_cost_are_told_apart() -> None:
    """The gain is what holds after the copy; the cost grows with the memory."""
    (small,), (large,) = planned(hot()).steps, planned(hot(memory=200 * GIB)).steps
    assert small.gain == pytest.approx(large.gain)
    assert 0 < small.cost < large.cost / 100
    assert large.gain - large.cost >= Rebalancing().gain_min


def test_memory_that_nobody_knows_is_assumed() -> None:
    """An instance without memory is copied as one with 4 GiB for each core that it asks for."""
    (step,) = planned(hot(memory=0)).steps
    assert step.copy_bytes == 3 * 4 * GIB


def one_instance(loads: Loads, usage: float, memory: float, rate: float) -> tuple[Movable, Hosts]:
    """One instance on the first machine; copies take a core and their bytes of the second resource."""
    machines = loads.utilization.shape[1]
    movable = Movable(
        np.array([0]), np.array([[usage], [0.0]]), np.array([[0.04], [0.0]]), np.array([True]), np.array([-1]),
        np.array([memory]),
    )  # fmt: skip
    every, none = np.ones(machines, np.bool_), np.zeros(machines, np.int64)
    rates, cores, copied = np.full(machines, rate), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    return movable, Hosts(every, every, np.full(2, np.inf), rates, none, none, cores, copied)


@settings(max_examples=examples(60, 60), deadline=None)
@given(st.floats(0.8, 1.0), st.floats(0.0, 0.8), st.floats(0.5, 4.0), st.floats(0.0, 3.0), st.floats(0.01, 1.0))
def test_the_mean_over_the_time_for_which_it_counts(
    source: float, target: float, usage: float, memory_min: float, rate: float
) -> None:
    """Gain less cost: the mean of what the move changes, the copy in it, step by step."""
    shares = np.array([[source, target], [0.1, 0.2]])
    capacity = np.array([[10.0, 20.0], [2.0, 2.0]])
    loads = Loads.of(shares, np.full((2, 2), 0.05), capacity, np.array([0.5, 0.5]), 0.9, 0.05)
    movable, hosts = one_instance(loads, usage, memory_min * 60 * rate, rate)
    draft = Draft(loads.copy(), movable, Rebalancing(gain_min=0.0), hosts)
    plan(draft, lambda _: np.ones(2, np.bool_), draft.settings.moves_max)
    steps = draft.steps
    copying = np.array([1.0, rate])
    used, variance = movable.usage[:, 0], movable.variance[:, 0]
    stays, seconds = loads.now().sum(), memory_min * 60
    while_copying = loads.one_with(0, copying, np.zeros(2)) + loads.one_with(1, used + copying, variance)
    moved = loads.copy()
    moved.move(0, 1, used, variance)
    mean = (seconds * while_copying + (LASTS_S - seconds) * moved.now().sum()) / LASTS_S
    if steps:
        assert steps[0].gain - steps[0].cost == pytest.approx(stays - mean, abs=1e-12)
    else:
        fits = (moved.utilization[:, 1] <= 0.9).all() and moved.now()[1] <= loads.now()[0]
        assert stays - mean <= 1e-9 or not fits


def test_cores_and_rates_are_those_that_the_lab_charges() -> None:
    """One place says what copying takes; the lab reads it there."""
    from ops.replay.simulator import simulation
    from ops.replay.worlds import worlds

    assert simulation.COPY_CORES is cost.COPY_CORES
    assert worlds.MEMORY_BYTES_PER_CORE == cost.UNKNOWN_MEMORY
