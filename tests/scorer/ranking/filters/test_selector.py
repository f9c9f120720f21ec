"""The filter `selector`: labels that a machine must have; long ones are parsed in linear time, and bounded."""

import time

import numpy as np
import pytest

from schemas.rpc.request import InvalidRequest, Preference, Request
from scorer.ranking.filters.selector import Selector
from scorer.ranking.formulas.selectors import REQUIREMENTS_MAX, Requirement, check_selectors, parse_selector
from scorer.snapshot.rules import LabelColumn
from tests.scorer.fleets import machine, passes


@pytest.mark.parametrize(
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
def test_selector(selector, expected):
    """Each requirement of the grammar, alone and joined: by kubectl's selectors, ``>`` and ``<`` by node affinity."""
    machines = [
        machine("a", labels={"rack": "r1", "cores": "32"}),
        machine("b", labels={"rack": "r2", "cores": "64"}),
        machine("c"),
    ]
    assert passes(Selector(), *machines, selector=selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("rack=", "empty"),
        ("rack= ", "empty"),
        ("rack==", "empty"),
        ("rack=,cores= ", ""),
        ("rack= ,machine=empty", "empty"),
        ("rack!=", "r1 r2 absent"),
        ("rack in ()", "empty"),
        ("rack in (r1,)", "r1 empty"),
        ("rack in (,r1)", "r1 empty"),
        ("rack in (r1,,r2)", "r1 r2 empty"),
        ("rack in ( r1 , r2 )", "r1 r2"),
        ("rack in(r1)", "r1"),
        ("rack  in\t (r1)", "r1"),
        ("rack notin\n (r1)", "r2 empty absent"),
        ("rack notin ()", "r1 r2 absent"),
        ("rack notin (r1,)", "r2 absent"),
        ("rack", "r1 r2 empty"),
        ("! rack", "absent"),
        ("\rrack", "r1 r2 empty"),
        ("rack,machine in (r1)", "r1"),
        ("in=notin", "r1"),
        ("in in (in,notin)", "r1"),
        ("example.com/key-with-dash in (so,what)", "r2"),
        ("cores>31", "r1"),
        ("cores<1001", "r1"),
        ("cores>0", "r1"),
        ("signed<6", "r2"),
        ("ghz>1", "absent"),
        ("ghz<9223372036854775807", "absent"),
    ],
)
def test_a_selector_means_what_it_means_to_kubectl(selector, expected):
    """No value is the empty value; blanks are those of its lexer; a number is whole.

    Rows after ``labels.Parse`` (k8s.io/apimachinery, ``labels/selector_test.go``).
    """
    machines = [
        machine("r1", labels={"rack": "r1", "cores": "32", "in": "notin"}),
        machine(
            "r2",
            labels={"rack": "r2", "cores": "1_000", "example.com/key-with-dash": "so", "signed": "-5", "ghz": "2.5"},
        ),
        machine("empty", labels={"rack": "", "cores": "1e3", "ghz": "9223372036854775808"}),
        machine("absent", labels={"cores": "inf", "ghz": "9223372036854775806"}),
    ]
    assert passes(Selector(), *machines, selector=selector) == expected


REFUSED = [
    "=r1", "rack in r1", "a=b,", "a b", "cores>many", "a=b,,c=d", "(a)", ",a", "a=b c", "x=a||y=b", "x==a==b", "!x=a",
    "x<a", "x>", "x<", "x===a", "x=!a", "x in (a b)", "x in (a", "x in", "x in ((a))", "x in (a)(b)", "x in (a) y",
    "x in (a=b)", "!x in (a)", "!!x", "!", "x >= 1", "x>1_0", "x>1e3", "x>inf", "x>nan", "x=\uff11", "x in (\uff11)",
    "x\u00a0in (a)", "x=a\u00a0", "x in (a,\u3000b)", "()", "x>1.5", "x<9223372036854775808", "== !=",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_selector_that_cannot_be_parsed_is_named(text):
    with pytest.raises(InvalidRequest, match="selector: cannot read"):
        parse_selector(text)


def seconds(text):
    """Return the processor time it takes to refuse a text, which another process does not change."""
    started = time.process_time()
    with pytest.raises(InvalidRequest):
        parse_selector(text)
    return time.process_time() - started


@pytest.mark.parametrize("text", ["a," * 200_000, " " * 200_000 + "(", "a" + " " * 200_000 + "b", "a in (" * 200_000])
def test_a_long_selector_is_refused_at_once(text):
    """The time to parse does not grow with the square of the length: that would be minutes, not milliseconds."""
    assert seconds(text) < 2


def test_what_cannot_be_read_is_shown_in_part():
    with pytest.raises(InvalidRequest, match=r"selector: cannot read '\(\(") as refused:
        parse_selector("(" * 10_000)
    assert len(str(refused.value)) < 250
    assert str(refused.value).endswith("KEY in (A, B) or KEY > NUMBER, with commas between")


def test_requirements_are_counted_over_all_selectors_of_a_request():
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
def test_a_requirement_is_asked_of_each_distinct_value(requirement, wanted):
    assert requirement.holds(LabelColumn(("1", "2"), np.array([0, 1, -1]))).tolist() == wanted
    assert requirement.holds(LabelColumn((), np.array([-1]))).tolist() == [requirement.operator in ("!=", "notin")]
