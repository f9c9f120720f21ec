"""Selectors: long ones are parsed in linear time and refused beyond a number of requirements."""

from __future__ import annotations

import time

import numpy as np
import pytest

from schemas.rpc.request import InvalidRequest, Preference, Request
from scorer.ranking.formulas.selectors import REQUIREMENTS_MAX, Requirement, check_selectors, parse_selector
from scorer.snapshot.rules import LabelColumn


def seconds(text: str) -> float:
    """Return the processor time it takes to refuse a text, which another process does not change."""
    started = time.process_time()
    with pytest.raises(InvalidRequest):
        parse_selector(text)
    return time.process_time() - started


@pytest.mark.parametrize("text", ["a," * 200_000, " " * 200_000 + "(", "a" + " " * 200_000 + "b", "a in (" * 200_000])
def test_a_long_selector_is_refused_at_once(text: str) -> None:
    """The time to parse does not grow with the square of the length: that would be minutes, not milliseconds."""
    assert seconds(text) < 2


def test_what_cannot_be_read_is_shown_in_part() -> None:
    """The message holds the beginning of the text, not all of it."""
    with pytest.raises(InvalidRequest, match=r"selector: cannot read '\(\(") as refused:
        parse_selector("(" * 10_000)
    assert len(str(refused.value)) < 250
    assert str(refused.value).endswith("KEY in (A, B) or KEY > NUMBER, with commas between")


def test_requirements_are_counted_over_all_selectors_of_a_request() -> None:
    """Many preferences with many requirements each are refused, naming how many there are."""
    preference = Preference(",".join(f"!a{number}" for number in range(100)))
    with pytest.raises(InvalidRequest, match=f"prefer: 200 requirements in all selectors, at most {REQUIREMENTS_MAX}"):
        check_selectors(Request(prefer=(preference, preference)))


@pytest.mark.parametrize(
    ("requirement", "wanted"),
    [
        (Requirement("a", "=", ("1",)), [True, False, False]),
        (Requirement("a", "!=", ("1",)), [False, True, True]),
        (Requirement("a", "in", ("2", "9")), [False, True, False]),
        (Requirement("a", "notin", ("2", "9")), [True, False, True]),
        (Requirement("a", ">", ("1",)), [False, True, False]),
        (Requirement("a", "<", ("2",)), [True, False, False]),
    ],
    ids=str,
)
def test_a_requirement_is_asked_of_each_distinct_value(requirement: Requirement, wanted: list[bool]) -> None:
    """The third machine has no such label."""
    assert requirement.holds(LabelColumn(("1", "2"), np.array([0, 1, -1]))).tolist() == wanted
    assert requirement.holds(LabelColumn((), np.array([-1]))).tolist() == [requirement.operator in ("!=", "notin")]
