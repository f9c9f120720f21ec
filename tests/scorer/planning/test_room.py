"""How many more instances of a kind fit: as many as placing them one by one finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.trial import Trial
from scorer.planning.room import MACHINE_MAX, room
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request


def found(of, profile="windward", **params):
    return room(request(**params), Trial(of.inputs(load_profiles().choose(profile))))


def one_by_one(of, profile, **params):
    """Copies by machine when they are placed one after the other until none fits."""
    asked, overlay, counts = request(**params), Overlay(of.ledger), [0] * len(of.snapshot)
    while (
        chosen := rank(
            asked, RankingInputs(of.snapshot, overlay.base, load_profiles().choose(profile), of.now_s).on(overlay)
        ).chosen
    ) is not None and sum(counts) < 500:
        overlay.propose(instance_of(asked, chosen, of.now_s, f"copy {sum(counts)}"))
        counts[of.snapshot.names.index(chosen)] += 1
    return counts


def small():
    return fleet(
        machine("idle", 8, 100, usage={"cpu": 0.5, "memory": 5}),
        machine("used", 8, 100, usage={"cpu": 4, "memory": 60}),
        machine("closed", 8, 100, usage={"cpu": 0, "memory": 5}, operator={"cordon": True}),
        instances=[{"id": "i", "machine": "used", "cpu": 5, "memory": 10}],
    )


def test_promises_limit_it():
    """What is promised already is counted; the filter that refuses the next copy is named with its machines."""
    here = found(small(), "kubernetes", cpu=2, memory=1)
    assert here.copies.tolist() == [4, 1, 0]
    assert here.total == 5
    assert not here.at_least
    assert [(one.filter, one.machines) for one in here.limits] == [("fits", 2), ("cordon", 1)]


def test_measured_load_limits_it_first():
    by_load = found(small(), "koordinator", cpu=1, memory=1).copies.tolist()
    assert by_load == one_by_one(small(), "koordinator", cpu=1, memory=1)
    assert by_load[1] < found(small(), "kubernetes", cpu=1, memory=1).copies.tolist()[1]


def test_what_may_be_there_once():
    assert found(small(), cpu=0.1, memory=1, ports=[7000]).copies.tolist() == [1, 1, 0]


def test_a_filter_over_the_fleet_is_asked_one_by_one():
    racks = fleet(*(machine(f"m{n}", usage={"cpu": 1, "memory": 5}, labels={"rack": "ab"[n % 2]}) for n in range(4)))
    apart = {"labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "x"}, "topology": "rack"}]}
    assert found(racks, cpu=0.1, memory=1, **apart).total == 2


def test_nothing_asked_has_no_limit():
    here = found(small(), "kubernetes", labels={"app": "x"})
    assert here.at_least
    assert here.copies.max() == MACHINE_MAX


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["windward", "koordinator", "kubernetes", "trimaran", "seed"]))
def test_it_is_what_placing_one_by_one_finds(seed, profile):
    rng = np.random.default_rng(seed)
    of = fleet(
        *(
            machine(
                f"m{n}", float(rng.integers(2, 12)), 100,
                usage={"cpu": {"mean": float(rng.uniform(0, 6)), "std": 0.2}, "memory": float(rng.uniform(5, 80))},
            )
            for n in range(4)
        ),
        instances=[
            {"id": f"i{n}", "machine": f"m{rng.integers(4)}", "cpu": float(rng.uniform(0, 2)), "memory": 4}
            for n in range(6)
        ],
    )  # fmt: skip
    params = {"cpu": float(rng.uniform(0.3, 2)), "memory": float(rng.uniform(1, 20))}
    assert found(of, profile, **params).copies.tolist() == one_by_one(of, profile, **params)


@pytest.mark.parametrize("copies", [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000])
def test_any_number_is_found(copies):
    of = fleet(machine("m", float(copies) + 0.5, 10_000, usage={"cpu": 0, "memory": 5}))
    assert found(of, "kubernetes", cpu=1, memory=1).total == copies
