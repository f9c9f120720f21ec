"""What operators say of machines: defaults, and entries that cannot be read."""

import pytest

from schemas.messages import operator


def test_an_operators_entry_lies_over_the_default():
    """Key by key, groups of thresholds as a whole, taints together, cordon if either."""
    default = operator.read_operator_facts(
        {
            "labels": {"a": "1", "b": "1"},
            "thresholds": {"cpu": 0.5, "memory": 0.6},
            "reserve": {"memory": "8G"},
            "taints": [{"key": "t"}],
        }
    )
    own = operator.read_operator_facts(
        {"labels": {"b": "2"}, "thresholds": {"cpu": 0.9}, "cordon": True, "taints": [{"key": "u"}]}
    )
    both = operator.effective({operator.DEFAULT: default, "m": own}, "m")
    assert both.labels == {"a": "1", "b": "2"}
    assert both.thresholds == {"cpu": 0.9}
    assert both.reserve == {"memory": 8e9}
    assert [taint.key for taint in both.taints] == ["t", "u"]
    assert both.cordon
    assert operator.effective({operator.DEFAULT: default}, "other") == default


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"share": {"cpu": 2}}, "share"),
        ({"reserve": {"gpu": 1}}, "reserve"),
        ({"cordon": "yes"}, "cordon"),
        ({"taints": [{"key": ""}]}, "taints"),
        ({"reserve": {"cpu": "x"}}, "reserve"),
        ({"colour": 1}, "colour"),
    ],
)
def test_an_operators_entry_that_cannot_be_read_is_named(entry, field):
    with pytest.raises(operator.InvalidOperatorFacts, match=field):
        operator.read_operator_facts(entry)


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
def test_what_is_known_of_an_entry_is_read(name, more, problems):
    """The rest is told; a cordon, a label and a taint beside it hold."""
    with pytest.raises(operator.InvalidOperatorFacts):
        operator.read_operator_facts(KEPT | more)
    facts, unread = operator.known_operator_facts(KEPT | more)
    assert (facts.cordon, facts.labels, facts.taints) == (True, {"rack": "a"}, (operator.Taint(key="spare"),)), name
    assert len(unread) == len(problems)
    assert all(word in said for word, said in zip(problems, unread, strict=True)), unread
    assert facts.capacity == ({"cpu": 4.0} if "capacity" in more else {})


@pytest.mark.parametrize("value", [7, None, [], "x"])
def test_what_is_no_entry_says_nothing(value):
    facts, unread = operator.known_operator_facts(value)
    assert facts == operator.OperatorFacts()
    assert len(unread) == 1
