"""What operators say of machines: defaults, and entries that cannot be read."""

from __future__ import annotations

import pytest

from schemas.messages.operator import DEFAULT, InvalidOperatorFacts, effective, read_operator_facts


def test_an_operators_entry_lies_over_the_default() -> None:
    """Key by key, groups of thresholds as a whole, taints together, cordon if either."""
    default = read_operator_facts(
        {
            "labels": {"a": "1", "b": "1"},
            "thresholds": {"cpu": 0.5, "memory": 0.6},
            "reserve": {"memory": "8G"},
            "taints": [{"key": "t"}],
        }
    )
    own = read_operator_facts(
        {"labels": {"b": "2"}, "thresholds": {"cpu": 0.9}, "cordon": True, "taints": [{"key": "u"}]}
    )
    both = effective({DEFAULT: default, "m": own}, "m")
    assert both.labels == {"a": "1", "b": "2"}
    assert both.thresholds == {"cpu": 0.9}
    assert both.reserve == {"memory": 8e9}
    assert [taint.key for taint in both.taints] == ["t", "u"]
    assert both.cordon
    assert effective({DEFAULT: default}, "other") == default


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
def test_an_operators_entry_that_cannot_be_read_is_named(entry: dict[str, object], field: str) -> None:
    """Out of range, unknown resource, wrong type, unknown field."""
    with pytest.raises(InvalidOperatorFacts, match=field):
        read_operator_facts(entry)
