"""The service of a planner: its methods, and what it does between two queries, both in plain code on one replica."""

from __future__ import annotations

import logging
import time
from typing import Any, ClassVar

from schemas.rpc import results
from schemas.rpc.envelope import Query
from scorer.ledger.store.scripts import Ledger
from scorer.placement.choosing.steps import run_to_end
from scorer.planner.drain import drain
from scorer.planner.drainer import Drainer
from scorer.planner.proposer import Proposer
from scorer.planner.queries import capacity, plan, rebalance
from scorer.planner.settings import PlannerSettings
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.parameters import read_object
from scorer.rpc.operators.operator_rules import OperatorRules
from scorer.rpc.service import AnsweringService
from scorer.wire import AWAY, Wire

log = logging.getLogger("windward.planner")


class PlannerService(AnsweringService):
    """Answers what scorers leave to it; ``proposer`` and ``drainer`` have their turn between two queries."""

    def __init__(
        self, settings: PlannerSettings, current: Current, ledger: Ledger, rules: OperatorRules,
        proposer: Proposer | None = None, drainer: Drainer | None = None, wire: Wire | None = None,
    ) -> None:  # fmt: skip
        """``wire``: where answers may wait to be sent with the next command."""
        super().__init__(settings, current, ledger, rules)
        self._proposer, self._drainer, self._wire, self._drain_s = proposer, drainer, wire, settings.drain_s
        self._round_at, self._drain_at = 0.0, time.monotonic() + settings.drain_s

    def between(self) -> None:
        """Do a turn of the rounds, and ask for the drains that are due."""
        now = time.monotonic()
        if not self.current.ready or now < min(self._round_at, self._drain_at):
            return
        if self._wire is not None:
            self._wire.post([])
        if self._proposer is not None and now >= self._round_at:
            self._round_at = now + self._proposer.turn(self.current.clock())
        if self._drainer is not None and now >= self._drain_at:
            self._drain_at = now + self._drain_s
            self._drain_again(self._drainer)

    def _drain_again(self, drainer: Drainer) -> None:
        """Plan again what is due. A refusal or a fault is told in the log, and it is tried again when it is due."""
        try:
            for query in drainer.due(self.current.clock()):
                run_to_end(self.steps(query))
        except AWAY:
            raise
        except Exception as error:
            log.warning("planner.drain.failed", extra={"values": {"error": f"{type(error).__name__}: {error}"}})

    def _capacity(self, query: Query) -> results.CapacityResult:
        return capacity(read_object(query), self.inputs)

    def _drain(self, query: Query) -> results.DrainResult:
        return drain(query, self.current, self.rules, self.update)

    def _plan(self, query: Query) -> results.PlanResult:
        return plan(read_object(query), self.current)

    def _rebalance(self, query: Query) -> results.RebalanceResult:
        return rebalance(read_object(query), self.current)

    METHODS: ClassVar[dict[str, Any]] = {
        "capacity": _capacity,
        "drain": _drain,
        "plan": _plan,
        "rebalance": _rebalance,
        "rank": AnsweringService._rank,
        "machines": AnsweringService._machines,
        "instances": AnsweringService._instances,
    }
    """What answers each method."""
