"""The owner of kept values: equal for equal settings, another for another type or setting."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ranking.machines.owner import owner_of
from tests.scorer.ranking.machines.test_kept import Counted, Other


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Counted(), Counted(), True),
        (Counted(1.0, {"a": 1.0, "b": 2.0}), Counted(1.0, {"b": 2.0, "a": 1.0}), True),
        (Counted(), Counted(2.0), False),
        (Counted(1.0, {"a": 1.0}), Counted(1.0, {"a": 2.0}), False),
        (Counted(), Other(), False),
    ],
)
def test_an_owner_is_type_and_settings(one: Any, other: Any, same: bool) -> None:
    """Equal plugins share what they keep; another type or another setting does not."""
    assert (owner_of(one) == owner_of(other)) is same
    assert not same or hash(owner_of(one)) == hash(owner_of(other))
