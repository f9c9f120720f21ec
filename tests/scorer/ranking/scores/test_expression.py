"""The score `expression`: a value over a machine's columns, and what it refuses to read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.ranking.scores.expression import BY_RESOURCE, Expression
from tests.scorer.fleets import fleet, machine, ranked, score_told

ROOMY = machine("roomy", capacity={"cpu": 8, "memory": 100e9}, usage={"cpu": 6, "memory": 20e9})
SMALL = machine("small", capacity={"cpu": 8, "memory": 50e9}, usage={"cpu": 2, "memory": 10e9})
SILENT = machine("silent", capacity={"cpu": 8, "memory": 50e9}, usage={})


@pytest.mark.parametrize(
    ("value", "roomy", "small"),
    [
        ("allocatable.memory - taken.memory", 80e9, 40e9),
        ("allocatable.cpu - mean.cpu - expected.cpu", 2.0, 6.0),
        ("2 * (mean.cpu + 1) / allocatable.cpu", 1.75, 0.75),
        ("min(allocatable.cpu, 7) - max(mean.cpu, 3)", 1.0, 4.0),
        ("-count + 3", 3.0, 3.0),
        ("mean.memory / (mean.cpu - 6)", None, -2.5e9),
    ],
)
def test_values(value, roomy, small):
    found = score_told(fleet(ROOMY, SMALL), {"use": "expression", "weight": 1, "value": value})
    assert {name: each["amount"] for name, each in found.items()} == {"roomy": roomy, "small": small}


def test_the_largest_scores_100_and_the_others_their_share():
    """Most free memory is one line; a machine whose use is not known scores 0."""
    score = {"use": "expression", "weight": 1, "value": "allocatable.memory - mean.memory"}
    found = ranked(fleet(ROOMY, SMALL, SILENT), {"scores": [score]})
    totals = dict(zip(found.machines.roster.names, found.total.tolist(), strict=True))
    assert totals == {"roomy": 100.0, "silent": 0.0, "small": 50.0}


def test_the_maximum_is_read_however_it_is_written():
    assert raw_maxima("max.cpu") == raw_maxima("max .cpu") == {"roomy": 7.0, "small": 3.0}


def raw_maxima(value):
    busy = [one | {"usage": {"cpu": {"mean": 1, "max": most}}} for one, most in ((ROOMY, 7), (SMALL, 3))]
    found = score_told(fleet(*busy), {"use": "expression", "weight": 1, "value": value})
    return {name: each["amount"] for name, each in found.items()}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "at most 500"),
        ("mean.cpu" * 100, "at most 500"),
        ("mean.cpu +", "cannot be read"),
        ("(" * 240, "cannot be read"),
        ("1" * 400, "cannot be read"),
        ("mean.gpu", "'mean.gpu' is no number, column"),
        ("mean", "'mean' is no number, column"),
        ("speed.cpu", "'speed.cpu' is no number, column"),
        ("mean.cpu ** 2", "'mean.cpu ** 2' is no number"),
        ("True", "'True' is no number"),
        ("abs(mean.cpu)", "abs(mean.cpu)"),
        ("max(1, 2, 3)", "max(1, 2, 3)"),
        ("mean.cpu.__class__", "__class__"),
        ("[x for x in mean.cpu]", "is no number"),
        ("1/0", "names no column"),
        ("max(2, 1e400)", "names no column"),
    ],
)
def test_what_is_no_expression(value, why):
    with pytest.raises(ValueError, match="value: ") as refused:
        Expression(value=value)
    assert why in str(refused.value)


@given(st.recursive(
    st.sampled_from([f"{name}.cpu" for name in BY_RESOURCE] + ["count", "1", "0.5"]),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
    max_leaves=8,
))  # fmt: skip
def test_any_expression_ranks(value):
    """Totals are 0 to 100, whatever is divided by whatever."""
    used = {"use": "expression", "weight": 1, "value": f"{value} / count"}
    total = ranked(fleet(ROOMY, SMALL, SILENT), {"scores": [used]}).total
    assert ((total >= 0) & (total <= 100)).all()
