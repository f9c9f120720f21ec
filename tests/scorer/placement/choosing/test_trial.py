"""The what-if: what is proposed is seen, what is taken back leaves nothing, and the ledger stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.commands.shared.fleet_file import FleetState
from scorer.ledger.view.overlay import Overlay
from scorer.placement.choosing import trial as module
from scorer.placement.choosing.trial import Trial, prepare
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept, Shelf
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from scorer.ranking.seen import fleet_of
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request
from tests.scorer.ranking.test_arguments import everything

PROFILES = load_profiles()
IDLE = {"cpu": 0, "memory": 0}


def small(*instances: dict[str, Any], machines: int = 3) -> FleetState:
    """Idle machines of 8 cores, in two racks, with these instances."""
    return fleet(
        *(machine(f"m{n}", 8, 100, usage=IDLE, labels={"rack": str(n % 2)}) for n in range(machines)),
        instances=[{"memory": 1, **one} for one in instances],
    )


def trial_of(of: FleetState, profile: str = "kubernetes") -> Trial:
    """A what-if on a fleet."""
    return Trial(of.inputs(PROFILES.choose(profile)))


def test_each_step_sees_those_before() -> None:
    """Three instances of five cores go to three machines; there is none for the fourth, and why."""
    of = small()
    trial, asked = trial_of(of), request(cpu=5, memory=1)
    found = []
    for number in range(3):
        found.append(str(trial.best(asked).machine))
        trial.propose(asked, found[-1], f"i{number}")
    assert sorted(found) == ["m0", "m1", "m2"]
    assert trial.best(asked).machine is None
    assert trial.best(asked).why.startswith("0/3 feasible: 3 ")
    assert not len(of.ledger)
    trial.leave("i1")
    assert trial.best(asked).machine == found[1]


def test_among_some_machines() -> None:
    """As a column or as a function of the machines; the reason names the condition only where others are feasible."""
    trial, asked = trial_of(small()), request(cpu=5, memory=1)
    only = np.array([False, True, False])
    assert trial.best(asked, only).machine == "m1"
    assert (
        trial.best(asked, lambda machines: machines.label("rack").codes == machines.label("rack").codes[1]).machine
        == "m1"
    )
    none = np.zeros(3, np.bool_)
    assert trial.best(asked, none, "in the cellar").why == "3/3 feasible, none of them in the cellar"
    assert "cellar" not in trial.best(request(cpu=50), none, "in the cellar").why


def test_labels_shared_with_a_machine() -> None:
    """The values of all of them; by ``machine`` the machine alone; those of an unknown one are no labels."""
    trial = trial_of(small())
    assert trial.sharing("m0", []).tolist() == [True] * 3
    assert trial.sharing("m0", ["rack"]).tolist() == [True, False, True]
    assert trial.sharing("m0", ["rack", "machine"]).tolist() == [True, False, False]
    assert trial.sharing("gone", ["rack"]).tolist() == [False] * 3


def test_cordoned_machines_are_no_targets() -> None:
    """Those named last; the fleet itself stays open."""
    of = small()
    trial = trial_of(of)
    trial.cordon(["m0", "m1"])
    assert trial.allowed(request(cpu=1)).tolist() == [False, False, True]
    trial.cordon(["m2"])
    assert trial.allowed(request(cpu=1)).tolist() == [True, True, False]
    assert not of.snapshot.rules.has_cordon


def test_an_overlay_that_is_there_is_gone_on_with() -> None:
    """What was proposed before is seen, and what is proposed now is in it."""
    of = small({"id": "a", "machine": "m0", "cpu": 8})
    overlay = Overlay(of.ledger, without=["a"])
    trial = Trial(of.inputs(PROFILES.choose("kubernetes")).on(overlay))
    assert trial.allowed(request(cpu=8)).all()
    trial.propose(request(cpu=8), "m1", "new")
    assert [one.id for one in overlay.held_on("m1")] == ["new"]


STEPS = st.lists(
    st.tuples(st.sampled_from(["move", "leave", "put back"]), st.integers(0, 3), st.integers(0, 2)), max_size=12
)


@settings(max_examples=examples(60, 60), deadline=None)
@given(STEPS, st.sampled_from(sorted(PROFILES.by_name)))
def test_what_is_put_back_is_as_before(steps: list[tuple[str, int, int]], profile: str) -> None:
    """Whatever moved or left: with all put back a ranking is that of the ledger, and one is never there twice."""
    of = small(*({"id": f"i{n}", "machine": f"m{n % 3}", "cpu": n} for n in range(4)))
    trial, records = trial_of(of, profile), dict(of.ledger.instances)
    for step, n, row in steps:
        one = records[f"i{n}"]
        if step == "move":
            trial.move(one, f"m{row}")
        elif step == "leave":
            trial.leave(one.id)
        else:
            trial.put(one)
        there = [held.id for name in of.snapshot.names for held in trial.overlay.held_on(name)]
        assert len(there) == len({*there})
        trial.best(request(cpu=1))
    for one in records.values():
        trial.put(one)
    found, before = (
        rank(request(cpu=1, memory=1), inputs) for inputs in (trial.inputs, of.inputs(trial.inputs.profile))
    )
    assert found.feasible.tolist() == before.feasible.tolist()
    assert found.total.tolist() == pytest.approx(before.total.tolist(), abs=1e-9)
    assert dict(of.ledger.instances) == records


def test_identical_instances_go_where_one_by_one_would() -> None:
    """Together as by one ranking after another; the last ones have none."""
    of, asked = small(), request(cpu=3, memory=1)
    together, single = trial_of(of), trial_of(of)
    found: list[str | None] = []
    for number in range(7):
        found.append(single.best(asked).machine)
        if found[-1] is not None:
            single.propose(asked, found[-1], f"i{number}")
    assert together.together(asked, 7) == found
    assert found.count(None) == 1


def test_a_step_copies_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ranking is held: from the second step on the kept columns are renewed where they are."""
    copied, copy = list[int](), Shelf.copy
    trial, asked = trial_of(small(machines=8), "windward"), request(cpu=1, memory=1)
    rank(asked, replace(trial.inputs, overlay=None))
    for number in range(6):
        found = trial.best(asked, trial.allowed(asked))
        trial.together(asked, 2)
        trial.propose(asked, str(found.machine), f"i{number}")
        monkeypatch.setattr(Shelf, "copy", lambda shelf, seats: copied.append(1) or copy(shelf, seats))
    assert copied == []


COLUMNS = ("allocated", "credit", "mean", "utilization", "estimated", "limited", "count", "maxmemory")


def columns(inputs: RankingInputs) -> list[Any]:
    """The columns of a ranking that placements change."""
    machines = rank(request(cpu=1), inputs).machines
    return [machines.column(name) for name in COLUMNS] + [machines.peaks(("today", "yesterday"))]


def alike(some: list[Any], others: list[Any]) -> None:
    """They are the same but for rounding."""
    for one, other in zip(some, others, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def stepwise(inputs: RankingInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare the inputs, two machines in each step; whole columns are only made without instances."""
    monkeypatch.setattr(module, "_ROWS", 2)
    assert sum(1 for _ in prepare(inputs)) > 3
    made = {key: values for key, (values, _) in fleet_of(inputs).shelf.derived.items()}
    assert made
    rank(request(cpu=1), inputs)
    assert all(fleet_of(inputs).shelf.derived[key][0] is values for key, values in made.items()), "none is made again"


@pytest.mark.parametrize("name", sorted(PROFILES.by_name))
def test_columns_that_are_prepared_in_steps_are_those_made_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each profile, with leavers, learned use and machines without data."""
    of, profile = everything(), PROFILES.choose(name)
    inputs = of.inputs(profile, Kept())
    stepwise(inputs, monkeypatch)
    alike(columns(inputs), columns(of.inputs(profile)))
    assert not list(prepare(inputs)), "what is kept is not made again"


def test_a_copied_ledger_begins_with_what_is_kept_of_it() -> None:
    """No column is made again; a change of either ledger is not seen in the other's columns."""
    of, profile = everything(), PROFILES.choose()
    now = of.inputs(profile, Kept())
    before = columns(now)
    copied = now.ledger.copy()
    inputs = replace(now, ledger=copied, kept=now.kept.of_copy(now.ledger, copied))
    assert set(fleet_of(inputs).shelf.derived) >= set(fleet_of(now).shelf.derived)
    assert not list(prepare(inputs))
    now.ledger.forget("a")
    alike(columns(inputs), before)
    alike(columns(now), columns(of.inputs(profile)))
    copied.forget("b")
    alike(columns(inputs), columns(replace(inputs, kept=Kept())))
    assert "b" in now.ledger.instances
    assert not (now.kept.of_copy(copied, copied)._current), "nothing is kept of that ledger"


def test_a_cordoned_machine_leaves_the_columns_of_the_others() -> None:
    """In a what-if nothing but its own row is made again; it takes none, and another cordon lets it again."""
    of, profile = small({"id": "a", "machine": "m1", "cpu": 3}, machines=10), PROFILES.choose()
    inputs = of.inputs(profile, Kept())
    alike(columns(inputs), columns(inputs))
    made = {key: values for key, (values, _) in fleet_of(inputs).shelf.derived.items()}
    trial = Trial(inputs)
    asked = request(cpu=1, memory=1)
    best = str(trial.best(asked).machine)
    trial.cordon([best])
    assert trial.best(asked).machine not in (best, None)
    kept = fleet_of(trial.inputs.on(trial.overlay)).shelf.derived
    assert set(kept) >= set(made)
    alike(columns(trial.inputs), columns(replace(trial.inputs, kept=Kept())))
    trial.cordon([])
    assert trial.best(asked).machine == best
