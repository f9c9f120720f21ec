"""The live instances as columns by slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.view import LedgerView


def instance(name: str, limits: tuple[float, ...] = ()) -> Instance:
    """Return a record."""
    return Instance(id=name, machine="m", state="confirmed", amounts=(0.0,) * len(RESOURCES), limits=limits)


def test_a_slot_shows_what_its_own_instance_declares() -> None:
    """Also beyond the columns' first length, and in a slot that another instance had before."""
    rest = (-1.0,) * (len(RESOURCES) - 1)
    view = LedgerView(instance(f"i{number}", (float(number), *rest) if number % 2 else ()) for number in range(600))
    view.forget("i1")
    view.apply(instance("next"))
    found = {name: view.slots.records[view.slot_of(name)]["limits"][0] for name in view.instances}
    odd = {f"i{number}": float(number) for number in range(3, 600, 2)}
    assert {name: limit for name, limit in found.items() if not np.isnan(limit)} == odd


LABELS: tuple[dict[str, str], ...] = ({}, {"app": "a"}, {"app": "b", "keeps": "cpu"}, {"app": "a"})
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
def test_instances_added_together_are_as_if_they_came_one_by_one(
    batch: list[tuple[dict[str, Any], list[str]]], gone: int
) -> None:
    """To the last digit of each sum; those of a kind share all but id and machine, as in a batch."""
    together, singly = LedgerView(), LedgerView()
    left = [copy_with(instance(f"old{number}", (1.0,) * len(RESOURCES)), machine="a") for number in range(4)]
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
