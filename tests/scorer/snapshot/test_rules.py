"""Facts that change: only the rows of these machines are made again."""

from __future__ import annotations

import numpy as np

from schemas.messages.operator import OperatorFacts
from schemas.messages.sample import MachineFacts
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot


def facts(**labels: str) -> MachineFacts:
    """Return the facts of a machine with these labels."""
    return MachineFacts(v=1, machine="m", boot=1, at=1.0, labels=labels, capacity={"cpu": float(len(labels))})


OPERATOR = {"b": OperatorFacts(labels={"zone": "operator"})}
BEFORE = {"a": facts(rack="r1", zone="z1"), "b": facts(rack="r2", zone="z1"), "c": facts(rack="r1")}


def codes(snapshot: Snapshot, key: str) -> list[str]:
    """Return the label of each machine."""
    column = snapshot.rules.label(key)
    return [column.values[code] if code >= 0 else "" for code in column.codes]


def test_changed_facts_give_what_all_facts_give() -> None:
    """Labels come, change and go, an operator's word stays, a machine's facts vanish."""
    first = build_snapshot((), BEFORE, OPERATOR)
    assert codes(first, "rack") == ["r1", "r2", "r1"]
    after = {"a": facts(zone="z2"), "b": facts(zone="z9"), "c": facts(rack="r1", new="n")}
    second = build_snapshot((), after, OPERATOR, previous=first)
    anew = build_snapshot((), after, OPERATOR)
    for key in ("rack", "zone", "new", "nothing"):
        assert codes(second, key) == codes(anew, key)
    assert np.array_equal(second.rules.capacity_agent, anew.rules.capacity_agent, equal_nan=True)
    assert codes(first, "rack") == ["r1", "r2", "r1"]


def test_labels_that_did_not_change_are_kept() -> None:
    """One machine's flip makes one label anew, and nothing when its facts say the same again."""
    first = build_snapshot((), BEFORE, OPERATOR)
    rack = first.rules.label("rack")
    first.rules.label("zone")
    flipped = build_snapshot((), BEFORE | {"a": facts(rack="r1", zone="z7")}, OPERATOR, previous=first)
    assert flipped.rules.label("rack") is rack
    assert codes(flipped, "zone") == ["z7", "operator", ""]
    again = build_snapshot((), {name: facts(**said.labels) for name, said in BEFORE.items()}, OPERATOR, previous=first)
    assert again.rules is first.rules


def test_a_label_that_no_machine_has_takes_no_memory() -> None:
    """A caller may ask for any number of them."""
    rules = build_snapshot((), BEFORE, OPERATOR).rules
    assert rules.label("x1") is rules.label("x2")
