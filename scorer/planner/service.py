"""The service of a planner: its methods, and its rounds between two queries, in plain code on one replica."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from schemas.rpc import results
from schemas.rpc.envelope import Query
from scorer.placement.choosing.plan import run_to_end
from scorer.planner.drain import Drainer, drain
from scorer.planner.proposer import Proposer
from scorer.planner.queries import capacity, plan, rebalance
from scorer.planner.settings import PlannerSettings
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.records import read_object
from scorer.rpc.operator_rules import OperatorRules
from scorer.rpc.service import AnsweringService
from scorer.wire import AWAY

log = logging.getLogger("windward.planner")


@contextmanager
def _told() -> Iterator[None]:
    """Log a refusal or a fault of a drain; it is tried again when it is due."""
    try:
        yield
    except AWAY:
        raise
    except Exception as error:
        log.warning("planner.drain.failed", extra={"values": {"error": f"{type(error).__name__}: {error}"}})


class PlannerService(AnsweringService):
    """Answers the queries that scorers move to it; ``proposer`` and ``drainer`` run between two queries."""

    def __init__(
        self, settings: PlannerSettings, current: Current, rules: OperatorRules, proposer: Proposer | None = None,
        drainer: Drainer | None = None,
    ) -> None:  # fmt: skip
        super().__init__(settings, current, rules)
        self._proposer, self._drainer, self._drain_s = proposer, drainer, settings.drain_s
        self._round_at = math.inf if proposer is None else 0.0
        self._drain_at = math.inf if drainer is None else time.monotonic() + settings.drain_s

    def between(self) -> None:
        """Do a turn of the rounds, and run the drains that are due.

        Answers have arrived by then: a round survives a lost connection, and the loop would not give back a query.
        """
        now = time.monotonic()
        if not self.current.ready or now < min(self._round_at, self._drain_at):
            return
        self.rules.wire.ask([])
        if self._proposer is not None and now >= self._round_at:
            self._round_at = now + self._proposer.turn(self.current.clock())
            if not self._proposer.well:
                self.lost()
                return
        if self._drainer is not None and now >= self._drain_at:
            self._drain_at = now + self._drain_s
            self._drain_again(self._drainer)
            self.rules.wire.post(self.writes())

    def _drain_again(self, drainer: Drainer) -> None:
        """Plan due drains again, for each set of drain settings; a failure of one does not stop the others."""
        with _told():
            for query in drainer.due(self.current.clock()):
                with _told():
                    run_to_end(self.steps(query))

    def _capacity(self, query: Query) -> results.CapacityResult:
        return capacity(read_object(query), self.inputs)

    def _drain(self, query: Query) -> results.DrainResult:
        return drain(query, self.inputs, self.rules, self.update, self.current.cordon)

    def _plan(self, query: Query) -> results.PlanResult:
        return plan(read_object(query), self.inputs)

    def _rebalance(self, query: Query) -> results.RebalanceResult:
        return rebalance(read_object(query), self.inputs)

    METHODS: ClassVar[dict[str, Any]] = {
        "capacity": _capacity,
        "drain": _drain,
        "plan": _plan,
        "rebalance": _rebalance,
        "rank": AnsweringService._rank,
        "machines": AnsweringService._machines,
        "instances": AnsweringService._instances,
    }
    """The function that answers each method."""
