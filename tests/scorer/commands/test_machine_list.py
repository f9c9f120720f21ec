"""``windward machines list``: pages of a large fleet."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scorer.client import MachinesResult
from scorer.commands.machines import machines
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


@pytest.mark.parametrize(
    ("limit", "more", "shown", "total"),
    [(5, {}, 5, 25), (15, {}, 15, 25), (30, {}, 25, 25), (15, {"selector": "machine!=m03"}, 15, 24)],
)
def test_the_total_is_that_of_the_fleet(
    monkeypatch: pytest.MonkeyPatch, limit: int, more: dict[str, Any], shown: int, total: int
) -> None:
    """However many pages are read; one by one they end where the limit is reached."""
    scorer = Scorer(fleet(*(machine(f"m{number:02}") for number in range(25))))

    def read(_: Any, kind: type[MachinesResult], method: str, params: dict[str, Any]) -> MachinesResult:
        return msgspec.convert(scorer.ask(method, **params), kind)

    monkeypatch.setattr(machines.ask, "read", read)
    monkeypatch.setattr(machines, "_PAGE", 10)
    found, _ = machines._found(machines.ListSettings(limit=limit, **more))
    assert (len(found.machines), found.total, found.more) == (shown, total, shown < total)
