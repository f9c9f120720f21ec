"""What is proposed over a ledger: seen by its readers alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance, Moving, copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.rules import Roster

CLUSTER = frozenset([("cluster", "c")])


def instance(number, machine, cpu=0.1):
    amounts = (cpu, *[0.0] * (len(RESOURCES) - 1))
    return Instance(id=f"i{number}", machine=machine, state="confirmed", amounts=amounts, cluster="c")


def cpu_on(overlay, machine):
    return [one.amounts[0] for one in overlay.held_on(machine)]


def test_what_is_proposed_lies_over_the_ledger():
    ledger = LedgerView([instance(1, "a", 0.1), instance(2, "a", 0.2)])
    overlay = Overlay(ledger)
    overlay.propose(instance(3, "a", 0.3))
    overlay.propose(instance(4, "a", 5.0))
    assert cpu_on(overlay, "a") == [0.1, 0.2, 0.3, 5.0]
    assert len(overlay.addresses_on("a")) == 4
    with pytest.raises(ValueError, match="already"):
        overlay.propose(instance(1, "a"))
    with pytest.raises(ValueError, match="already"):
        overlay.propose(instance(3, "a"))
    assert set(ledger.instances) == {"i1", "i2"}


def test_what_is_left_out_is_gone_for_its_readers_alone():
    """Tallies and holders are those without it; machines that the ledger never knew have what is proposed."""
    residents = Residents(ledger := LedgerView([instance(1, "a", 0.1), instance(2, "a", 0.2)]), Roster(("a", "new")))
    overlay = Overlay(ledger, without=["i1", "i9"])
    overlay.propose(instance(1, "new", 4.0))
    assert (cpu_on(overlay, "a"), cpu_on(overlay, "new")) == ([0.2], [4.0])
    assert (len(overlay.addresses_on("a")), len(overlay.addresses_on("new"))) == (1, 1)
    assert residents.tally(CLUSTER, overlay).tolist() == [1, 1]
    assert residents.tally(CLUSTER).tolist() == [2, 0]
    assert sorted(overlay.holders(CLUSTER)) == ["a", "new"]
    assert ledger.holders(CLUSTER) == ["a", "a"]
    assert sorted((machine, sign) for machine, sign, _ in overlay.difference()) == [("a", -1), ("new", 1)]


def test_a_moving_instance_is_left_out_on_both_its_machines():
    """Where it may go is asked without it. On the machine that it moves to it is a reservation: no window saw it."""
    moving = copy_with(instance(1, "a", 2.0), started_at=5.0, moving=Moving("b", 7.0, 9.0, 3))
    ledger = LedgerView([moving, instance(2, "b", 0.5)])
    residents = Residents(ledger, Roster(("a", "b")))
    placed = residents.placed()
    assert sorted(zip(placed.rows, placed.started_at, placed.reserved_at, strict=True)) == [
        (0, 5.0, 0.0), (1, 0.0, 0.0), (1, 0.0, 7.0),
    ]  # fmt: skip
    assert sorted(ledger.holders(CLUSTER)) == sorted(Overlay(ledger).holders(CLUSTER)) == ["a", "b", "b"]
    overlay = Overlay(ledger, without=["i1"])
    assert (cpu_on(overlay, "a"), cpu_on(overlay, "b")) == ([], [0.5])
    assert residents.tally(CLUSTER, overlay).tolist() == [0, 1]
    assert residents.tally(frozenset(), overlay).tolist() == [0, 1]
    assert overlay.holders(CLUSTER) == ["b"]
    ledger.forget("i1")
    assert ledger.machine_names == ("b",)


def test_changes_are_those_proposed():
    ledger = LedgerView([instance(1, "a")])
    ledger.apply(instance(2, "b"))
    overlay = Overlay(ledger)
    overlay.propose(instance(3, "c"))
    assert [machine for machine, *_ in overlay.changes] == ["c"]
    assert overlay.position == ledger.position + 1


def test_the_newest_changes_are_remembered(monkeypatch):
    """A reader of each change never begins anew; one that is far behind is told that some are forgotten."""
    monkeypatch.setattr("scorer.ledger.view.view.CHANGES_MAX", 4)
    ledger = LedgerView()
    for number in range(20):
        ledger.apply(instance(number, f"m{number}"))
        assert [machine for machine, *_ in ledger.changes_since(ledger.position - 1)] == [f"m{number}"]
    assert ledger.changes_since(0) is None


def test_what_is_withdrawn_was_never_there():
    residents = Residents(ledger := LedgerView([instance(1, "a", 0.1)]), Roster(("a", "b")))
    overlay = Overlay(ledger)
    overlay.propose(instance(2, "a", 2.0))
    overlay.propose(instance(3, "b", 3.0))
    assert residents.tally(CLUSTER, overlay).tolist() == [2, 1]
    overlay.withdraw("i2")
    overlay.leave("i3")
    assert (cpu_on(overlay, "a"), cpu_on(overlay, "b")) == ([0.1], [])
    assert residents.tally(CLUSTER, overlay).tolist() == [1, 0]
    assert overlay.holders(CLUSTER) == ["a"]
    overlay.leave("i1")
    overlay.propose(instance(1, "b", 0.1))
    overlay.propose(instance(2, "b", 2.0))
    assert (cpu_on(overlay, "a"), cpu_on(overlay, "b")) == ([], [0.1, 2.0])
    assert residents.tally(CLUSTER, overlay).tolist() == [0, 2]
    with pytest.raises(KeyError):
        overlay.withdraw("i3")


def declared(name, limits=()):
    return Instance(id=name, machine="m", state="confirmed", amounts=(0.0,) * len(RESOURCES), limits=limits)


def test_a_slot_shows_what_its_own_instance_declares():
    """Also beyond the columns' first length, and in a slot that another declared had before."""
    rest = (-1.0,) * (len(RESOURCES) - 1)
    view = LedgerView(declared(f"i{number}", (float(number), *rest) if number % 2 else ()) for number in range(600))
    view.forget("i1")
    view.apply(declared("next"))
    found = {name: view.slots.records[view.slot_of(name)]["limits"][0] for name in view.instances}
    odd = {f"i{number}": float(number) for number in range(3, 600, 2)}
    assert {name: limit for name, limit in found.items() if not np.isnan(limit)} == odd


LABELS = ({}, {"app": "a"}, {"app": "b", "keeps": "cpu"}, {"app": "a"})
kinds = st.fixed_dictionaries(
    {
        "amounts": st.tuples(*[st.sampled_from([None, 0.0, 0.1, 7.7])] * len(RESOURCES)),
        "limits": st.sampled_from([(), (2.0, *[-1.0] * (len(RESOURCES) - 1))]),
        "maxmemory": st.sampled_from([0.0, 0.3]),
        "labels": st.sampled_from(LABELS),
        "ports": st.sampled_from([(), (1,), (1, 2)]),
        "cluster": st.sampled_from(["", "c"]),
        "role": st.sampled_from(["", "master"]),
        "kind": st.sampled_from(["", "redis"]),
        "priority_class": st.sampled_from(["prod", "batch"]),
        "state": st.sampled_from(["reserved", "confirmed"]),
    }
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(kinds, st.lists(st.sampled_from("abz"), min_size=1, max_size=4)), max_size=5), st.integers(0, 3)
)
def test_instances_added_together_are_as_if_they_came_one_by_one(batch, gone):
    """To the last digit of each sum; those of a kind share all but id and machine, as in a batch."""
    together, singly = LedgerView(), LedgerView()
    left = [copy_with(declared(f"old{number}", (1.0,) * len(RESOURCES)), machine="a") for number in range(4)]
    new = []
    for kind, machines in batch:
        first = Instance(id="", machine="", reserved_at=5.0, **kind)
        new += [copy_with(first, id=f"i{len(new) + at}", machine=machine) for at, machine in enumerate(machines)]
    for view in (together, singly):
        for one in left:
            view.apply(one)
        for one in left[:gone]:
            view.forget(one.id)
    together.add(new)
    for one in new:
        singly.apply(one)
    assert together.instances == singly.instances
    assert (together.version, together.numbers, together.position) == (singly.version, singly.numbers, singly.position)
    assert together.changes_since(0) == singly.changes_since(0)
    assert together.machine_names == singly.machine_names
    for facet in {facet for _, _, facets in singly.changes_since(0) or () for facet in facets}:
        assert sorted(together.matching(frozenset([facet]))) == sorted(singly.matching(frozenset([facet])))
    records = [view.slots.records[: together.slots.used].tolist() for view in (together, singly)]
    assert repr(records[0]) == repr(records[1])  # with what is not given as nan, which equals nothing
