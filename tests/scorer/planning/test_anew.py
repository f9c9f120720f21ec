"""What if machines were lost: where their instances would go."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from scorer.placement.choosing.trial import Trial
from scorer.planning.anew import place_anew
from scorer.ranking.profiles.catalogue import load_profiles
from tests.scorer.fleets import fleet, machine


class Loss(NamedTuple):
    """How many were placed, and the ids of the others."""

    placed: int
    homeless: tuple[str, ...]


def lost(*instances: dict[str, Any], left: int = 2, profile: str = "kubernetes") -> tuple[Loss, Trial]:
    """Zone a is lost, with these instances; so many machines of 8 cores are left."""
    of = fleet(
        machine("gone", 32, 1000, usage={"cpu": 9, "memory": 50}, labels={"zone": "a"}),
        *(machine(f"b{n}", 8, 100, usage={"cpu": 1, "memory": 5}, labels={"zone": "b"}) for n in range(left)),
        instances=[{"machine": "gone", "memory": 1, **one} for one in instances],
    )
    trial = Trial(of.inputs(load_profiles().choose(profile)))
    found = place_anew(of.ledger.on_machine("gone"), trial, gone=True, left="zone!=a")
    homeless = tuple(one.instance.id for one in found if one.target is None)
    return Loss(len(found) - len(homeless), homeless), trial


@pytest.mark.parametrize("profile", ["kubernetes", "windward", "seed"])
def test_instances_are_placed_on_those_that_are_left(profile: str) -> None:
    """Alike ones and others; each sees those before it."""
    found, trial = lost({"id": "a", "cpu": 3}, {"id": "b", "cpu": 3}, {"id": "c", "cpu": 2}, profile=profile)
    assert (found.placed, found.homeless) == (3, ())
    assert {name: len(trial.overlay.held_on(name)) for name in ("b0", "b1", "gone")} == {"b0": 2, "b1": 1, "gone": 0}


def test_the_largest_first_and_the_rest_is_homeless() -> None:
    """Promises count: 16 cores are left for 18."""
    found, _ = lost(*({"id": f"i{n}", "cpu": cpu} for n, cpu in enumerate([2, 8, 8])))
    assert (found.placed, found.homeless) == (2, ("i0",))


def test_ports_and_clusters_are_kept_apart() -> None:
    """A port is free once on a machine, for alike instances as well."""
    found, _ = lost(*({"id": f"i{n}", "cpu": 1, "ports": [7000]} for n in range(3)))
    assert (found.placed, len(found.homeless)) == (2, 1)


def test_a_machine_without_instances() -> None:
    """Nothing is to be placed."""
    assert lost()[0].placed == 0


def test_what_the_requests_said_is_upheld() -> None:
    """Selector and anti-affinity are in the ledger; instances alike but for these are not placed as one."""
    apart = {"labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "x"}}]}
    found, _ = lost(
        {"id": "free", "cpu": 1}, {"id": "bound", "cpu": 1, "selector": "zone=a"},
        *({"id": f"i{n}", "cpu": 1, **apart} for n in range(3)),
    )  # fmt: skip
    assert found.placed == 3
    assert sorted(found.homeless) == ["bound", "i2"]
