"""What operators say, where it is stored: read as far as it is known, strictly where it is written."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.messages.operator import (
    InvalidOperatorFacts,
    OperatorFacts,
    Taint,
    known_operator_facts,
    read_operator_facts,
)

KEPT = {"cordon": True, "labels": {"rack": "a"}, "taints": [{"key": "spare"}]}


@pytest.mark.parametrize(
    ("name", "more", "problems"),
    [
        ("a resource of a newer release", {"share": {"cpu": 0.5, "tape": 0.5}}, ["no resource 'tape'"]),
        ("two of them", {"reserve": {"tape": 1}, "capacity": {"tape": 2, "cpu": 4}}, ["reserve", "capacity"]),
        ("a field of a newer release", {"rack_unit": 7}, ["rack_unit"]),
        ("an effect of a newer release", {"taints": [{"key": "spare"}, {"key": "x", "effect": "drain"}]}, ["effect"]),
        ("a term of a newer power model", {"power": {"k0": 1.0, "k3": 1.0}}, ["k3"]),
        ("a value that cannot be", {"share": {"cpu": 7}}, ["share"]),
    ],
)
def test_what_is_known_of_an_entry_is_read(name: str, more: dict[str, Any], problems: list[str]) -> None:
    """The rest is told; a cordon, a label and a taint beside it hold."""
    with pytest.raises(InvalidOperatorFacts):
        read_operator_facts(KEPT | more)
    facts, unread = known_operator_facts(KEPT | more)
    assert (facts.cordon, facts.labels, facts.taints) == (True, {"rack": "a"}, (Taint(key="spare"),)), name
    assert len(unread) == len(problems)
    assert all(word in said for word, said in zip(problems, unread, strict=True)), unread
    assert facts.capacity == ({"cpu": 4.0} if "capacity" in more else {})


@pytest.mark.parametrize("value", [7, None, [], "x"])
def test_what_is_no_entry_says_nothing(value: Any) -> None:
    """And is told."""
    facts, unread = known_operator_facts(value)
    assert facts == OperatorFacts()
    assert len(unread) == 1
