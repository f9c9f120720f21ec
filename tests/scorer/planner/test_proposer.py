"""Rounds of rebalancing that fail."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from scorer.planner.metrics import Metrics
from scorer.planner.proposer import Proposer
from scorer.planner.settings import PlannerSettings
from tests.rows import each_row


@each_row(
    ("error", "well", "traced"),
    [
        (ZeroDivisionError(), True, True), (redis.ResponseError("WRONGTYPE"), True, False),
        (redis.ConnectionError("lost"), False, False),
    ],
)  # fmt: skip
def test_a_round_that_fails_ends_nothing(
    error: Exception, well: bool, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever fails is counted and told, a fault of the program with its place; the planner goes on answering."""

    def fails() -> Any:
        raise error

    caplog.clear()  # the rows share it
    settings, metrics = PlannerSettings(name="p", lease_s=30.0), Metrics()
    wire = SimpleNamespace(ask=lambda commands: [redis.ResponseError("NOPERM") for _ in commands])
    ledger = SimpleNamespace(wire=wire, lease=lambda *_: (1, "p"))
    queue = SimpleNamespace(read=fails)
    others: Any = ledger, fails, queue, None, metrics
    proposer = Proposer(settings, *others)
    with caplog.at_level(logging.WARNING):
        assert proposer.turn(0.0) == 10.0
    assert (proposer.well, metrics.rounds.labels("failed")._value.get()) == (well, 1)
    assert [(one.message, bool(one.exc_info)) for one in caplog.records] == [("planner.round.failed", traced)]
