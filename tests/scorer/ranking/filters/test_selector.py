"""The filter `selector`: labels that a machine must have."""

from __future__ import annotations

import pytest

from schemas.rpc.request import InvalidRequest
from scorer.ranking.filters.selector import Selector
from scorer.ranking.formulas.selectors import parse_selector
from tests.rows import each_row
from tests.scorer.fleets import machine, passes


@each_row(
    ("selector", "expected"),
    [
        ("rack=r1", "a"),
        ("rack==r1", "a"),
        ("rack!=r1", "b c"),
        ("rack in (r1, r2)", "a b"),
        ("rack notin (r1)", "b c"),
        ("rack", "a b"),
        ("!rack", "c"),
        ("cores>32", "b"),
        ("cores<33", "a"),
        ("rack=r1,cores>1", "a"),
        ("", "a b c"),
        ("machine in (a,c)", "a c"),
        (" rack = r2 ", "b"),
        ("cores>32,!gpu", "b"),
    ],
)
def test_selector(selector: str, expected: str) -> None:
    """Each requirement of the grammar, alone and joined."""
    machines = [
        machine("a", labels={"rack": "r1", "cores": "32"}),
        machine("b", labels={"rack": "r2", "cores": "64"}),
        machine("c"),
    ]
    assert passes(Selector(), *machines, selector=selector) == expected


@each_row("text", ["rack=", "=r1", "rack in r1", "rack in ()", "a=b,", "a b", "cores>many", "a=b,,c=d", "(a)"])
def test_a_selector_that_cannot_be_parsed_is_named(text: str) -> None:
    """The error names the field and the part that cannot be read."""
    with pytest.raises(InvalidRequest, match="selector: cannot read"):
        parse_selector(text)
