"""Settings of over-commit by class: what is refused, and by which words."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.classes.strategy import Reclaim
from tests.rows import each_row


@each_row(
    ("settings", "message"),
    [
        ({"share": {}}, "share: expected at least one resource"),
        ({"share": {"gpu": 0.5}}, "share: no resource 'gpu'"),
        ({"policy": {"nic": "usage"}}, "policy.nic: share names no nic"),
        ({"share": {"cpu": 11.0}}, "share.cpu: expected 0 to 10, got 11.0"),
        ({"mid_share": {"cpu": float("nan")}}, "mid_share.cpu: expected 0 to 10"),
        ({"mid_unallocated": 1.5}, "mid_unallocated: expected 0 to 1"),
        ({"degrade_s": 0}, "degrade_s: expected more than 0"),
        ({"degrade_s": float("inf")}, "degrade_s: expected more than 0"),
        ({"peak_margin": -0.1}, "peak_margin: expected 0 to 10"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], message: str) -> None:
    """The message says which, and what is expected."""
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        Reclaim(**settings)


def test_only_what_is_named_is_sold_by_class() -> None:
    """The defaults are the peer's: cpu and memory."""
    assert Reclaim().rows == [0, 1]
    assert Reclaim(share={"nic": 0.5}).rows == [2]
