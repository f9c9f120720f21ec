"""The refresher: a snapshot whose rows could not be prepared is used all the same."""

from __future__ import annotations

from typing import Any

from scorer.background.refresher import Refresher
from scorer.metrics import Metrics
from scorer.snapshot.snapshot import Latest
from scorer.wire import Wire
from tests.scorer.fleets import fleet, machine


class OneSnapshot:
    """A loader that has one snapshot, once."""

    wire = windows = Wire({"url": "redis://127.0.0.1"})
    refused = 3

    def __init__(self) -> None:
        self._left = [fleet(machine("a")).snapshot]

    def refresh(self, ledger_machines: Any = (), woken: Any = None) -> Any:
        return self._left.pop() if self._left else None


def test_what_preparing_raises_keeps_no_snapshot_back() -> None:
    """What fails before anybody asks must not leave the scorer without machines."""

    def fails(snapshot: object) -> None:
        raise ZeroDivisionError("division by zero")

    loader: Any = OneSnapshot()
    latest, metrics = Latest(), Metrics()
    wake_ups: Any = lambda stopping: None  # noqa: E731
    refresher = Refresher(loader, latest, fails, metrics, 0.05, wake_ups)
    refresher.look()
    assert latest.snapshot is not None
    assert latest.snapshot.names == ("a",)
    assert metrics.refresh_failures.labels("rows")._value.get() == 1
    assert metrics.refresh_failures.labels("tables")._value.get() == 3
    refresher.look()
    assert latest.snapshot is not None
