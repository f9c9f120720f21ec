"""How many more of a mix fit: by hand, against one kind, and against placing one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.commands.shared.fleet_file import FleetState
from scorer.ledger.view.overlay import Overlay
from scorer.placement.choosing.trial import Trial
from scorer.planning.capacity.mix import Mix, mix_of
from scorer.planning.capacity.mix_room import GREEDY_MAX, MixRoom, mix_room
from scorer.planning.capacity.room import room
from scorer.ranking.profiles.catalogue import load_profiles
from tests.effort import examples
from tests.scorer.fleets import fleet, machine

IDLE = {"cpu": 0, "memory": 0}


def of_sizes(*cpus: float, machines: tuple[float, ...] = (8, 8), **more: object) -> FleetState:
    """Machines of these cores, and an instance of each size on a machine of its own."""
    return fleet(
        machine("old", 100, 1e4, usage=IDLE, operator={"cordon": True}),
        *(machine(f"m{n}", cores, 1e4, usage=IDLE) for n, cores in enumerate(machines)),
        instances=[{"id": f"i{n}", "machine": "old", "cpu": cpu, "memory": 1, **more} for n, cpu in enumerate(cpus)],
    )


def fits(of: FleetState, profile: str = "kubernetes", greedy_max: int = GREEDY_MAX) -> tuple[Mix, MixRoom, Overlay]:
    """The mix, and how many more of it fit."""
    mix, trial = mix_of(of.ledger.instances.values(), 0.0), Trial(of.inputs(load_profiles().choose(profile)))
    return mix, mix_room(mix, trial, greedy_max), trial.overlay


def test_until_the_first_kind_no_longer_fits() -> None:
    """By hand: of 16 cores, 2 x (1 + 2 + 4) and the next cycle's 1; its 2 do not fit into what is left."""
    mix, found, _ = fits(of_sizes(1, 2, 4))
    assert [kind.request.cpu for kind in mix.kinds] == [1.0, 2.0, 4.0]
    assert found.total == sum(found.fit)
    assert found.fit == (3, 2, 2)
    assert found.first is mix.kinds[1]
    assert (found.limits[0].filter, found.limits[0].reason) == ("fits", "cpu too full")
    assert sum(found.by_machine.values()) == found.total


@pytest.mark.parametrize("profile", ["kubernetes", "windward", "seed"])
def test_one_kind_is_a_count_of_copies(profile: str) -> None:
    """The same number as without a mix."""
    of = of_sizes(1.5, machines=(8, 4, 20))
    mix, found, _ = fits(of, profile)
    alone = room(mix.kinds[0].request, Trial(of.inputs(load_profiles().choose(profile))))
    assert found.total == alone.total > 0
    assert found.spread == 0


def test_nothing_fits_and_nothing_was_placed() -> None:
    """The first instance is refused; without a mix there is nothing to say."""
    _, found, overlay = fits(of_sizes(9))
    assert (found.total, bool(found.limits)) == (0, True)
    assert overlay.held_on("m0") == []
    assert fits(of_sizes())[1].total == 0


@pytest.mark.parametrize("profile", ["kubernetes", "windward"])
@pytest.mark.parametrize("classes", [("prod", "prod"), ("prod", "batch")])
def test_what_is_spread_at_once_is_near_to_one_by_one(profile: str, classes: tuple[str, str]) -> None:
    """Within a few per cent, whatever part of it; and the shares hold."""
    cores = tuple(float(cores) for cores in np.random.default_rng(1).integers(20, 60, 30))
    of = fleet(
        machine("old", 100, 1e4, usage=IDLE, operator={"cordon": True}),
        *(machine(f"m{n}", each, 1e4, usage=IDLE) for n, each in enumerate(cores)),
        instances=[
            {"id": f"i{n}", "machine": "old", "cpu": cpu, "memory": 1, "priority_class": which}
            for n, (cpu, which) in enumerate(zip((0.5, 1.5), classes, strict=True))
        ],
    )
    _, exact, _ = fits(of, profile)
    _, near, _ = fits(of, profile, greedy_max=100)
    assert exact.spread == 0
    assert near.spread > exact.total / 2
    assert near.total == pytest.approx(exact.total, rel=0.03)
    assert abs(near.fit[0] - near.fit[1]) <= 2 + 8  # a rounding each time that a part is spread


@settings(max_examples=examples(15, 15), deadline=None)
@given(st.data())
def test_no_machine_holds_more_than_it_has(data: st.DataObject) -> None:
    """Sums along the count stay below allocatable, spread or not; and what limits it is told."""
    sizes = data.draw(st.lists(st.floats(0.5, 6), min_size=1, max_size=10))
    machines = tuple(data.draw(st.lists(st.floats(1, 30), min_size=1, max_size=4)))
    of = of_sizes(*sizes, machines=machines)
    mix, found, overlay = fits(of, "kubernetes", data.draw(st.sampled_from([10, GREEDY_MAX])))
    for n, cores in enumerate(machines):
        assert sum(one.amounts[0] or 0.0 for one in overlay.held_on(f"m{n}")) <= cores * (1 + 1e-9)
    asked = sum((kind.request.cpu or 0.0) * fit for kind, fit in zip(mix.kinds, found.fit, strict=True))
    if not found.spread:
        held = sum(one.amounts[0] or 0.0 for n in range(len(machines)) for one in overlay.held_on(f"m{n}"))
        assert held == pytest.approx(asked)
    assert found.first is not None
    assert found.limits
