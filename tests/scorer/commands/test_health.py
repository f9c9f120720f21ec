"""What ``windward health`` tells people."""

from __future__ import annotations

import pytest

from scorer.client import HealthResult
from scorer.commands.running.health import show

HEALTHY = HealthResult(
    ready=True, scorer="s", version="1", uptime_s=9.0, machines=2, machines_with_data=1, newest_sample_age_s=3.0,
    windows_s=[300], instances=4, ledger_change=7, profiles=["windward"], profile="windward",
)  # fmt: skip


@pytest.mark.parametrize("field", ["ledger_refusal", "ledger_unaccepted", "ledger_unsafe"])
def test_what_is_wrong_with_the_ledger_is_told(field: str) -> None:
    """In the words of the scorer; nothing when all is well."""
    assert "warning" not in show(HEALTHY)
    told = show(HealthResult(**{**{name: HEALTHY[name] for name in HEALTHY.__struct_fields__}, field: "it is full"}))
    assert "warning: it is full" in told.splitlines()
