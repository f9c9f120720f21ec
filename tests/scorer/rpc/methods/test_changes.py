"""The record that an update wants."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.resources import RESOURCES
from schemas.rpc.parameters import Update
from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.record.instance import Instance
from scorer.rpc.methods.changes import SIZES, changed
from scorer.rpc.methods.parameters import read_params

REST = len(RESOURCES) - 2
ONE = Instance(
    id="a", machine="m", state="confirmed", amounts=(1.0, 2e9, *[None] * REST), limits=(2.0, -1.0, *[-1.0] * REST)
)


@pytest.mark.parametrize(
    ("asked", "field", "value"),
    [
        pytest.param({}, "amounts", ONE.amounts, id="nothing"),
        pytest.param({"cpu": "500m"}, "amounts", (0.5, 2e9, *[None] * REST), id="one amount"),
        pytest.param({"limits": {}}, "limits", (), id="no limits"),
        pytest.param({"maxmemory": "1K"}, "maxmemory", 1000.0, id="maxmemory"),
        pytest.param({"labels": {}}, "labels", {}, id="labels"),
        pytest.param({"selector": " "}, "rules.selector", " ", id="selector"),
    ],
)
def test_what_is_given_changes(asked: dict[str, Any], field: str, value: object) -> None:
    """The rest stays."""
    new: Any = changed(ONE, read_params(Update, {"id": "a", **asked}))
    for name in field.split("."):
        new = getattr(new, name)
    assert new == value


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        pytest.param({"cpu": "x"}, "cpu: ", id="amount"),
        pytest.param({"limits": {"gpu": 1}}, "limits: no resource 'gpu'", id="resource"),
        pytest.param({"selector": "= ="}, "selector: cannot read", id="selector"),
        pytest.param({"prefer": [{"selector": "(("}]}, "prefer[0].selector: cannot read", id="preference"),
        pytest.param({"affinity": [{"instances": {"a" * 253: "b" * 253}}] * 32, "selector": "a" * 300},
                     "characters in all", id="long"),
        pytest.param({"cpu": 1e300}, "at most", id="large"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_names_its_field(asked: dict[str, Any], wrong: str) -> None:
    """Also where nothing is ranked by it now."""
    with pytest.raises(InvalidRequest) as refused:
        changed(ONE, read_params(Update, {"id": "a", **asked}))
    assert wrong in str(refused.value)


def test_what_goes_with_a_move_is_a_parameter() -> None:
    """And a field of a request."""
    assert set(SIZES) < set(Update.__struct_fields__)
    assert set(SIZES) < set(Request.__struct_fields__)
