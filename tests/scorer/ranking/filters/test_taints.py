"""The filter `taints`: machines that refuse what does not tolerate them."""

from __future__ import annotations

import pytest

from scorer.ranking.filters.taints import Taints
from tests.scorer.fleets import machine, passes


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], "plain avoided"),
        ([{"key": "gpu"}], "plain avoided gpu"),
        ([{"key": "gpu", "value": "no"}], "plain avoided"),
        ([{"key": "gpu", "value": "yes", "effect": "refuse"}], "plain avoided gpu"),
        ([{"key": "gpu", "effect": "avoid"}], "plain avoided"),
        ([{}], "plain avoided gpu"),
    ],
)
def test_taints(tolerations: list[dict[str, str]], expected: str) -> None:
    """A taint that refuses keeps away what does not tolerate it; one that avoids only costs score."""
    machines = [
        machine("plain"),
        machine("avoided", operator={"taints": [{"key": "old", "effect": "avoid"}]}),
        machine("gpu", operator={"taints": [{"key": "gpu", "value": "yes"}]}),
    ]
    assert passes(Taints(), *machines, tolerations=tolerations) == expected
