"""The service of a scorer: the table of the RPC's methods, and the object that the loop calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any

import msgspec
import redis

from schemas.process.version import product_version
from schemas.rpc import results
from schemas.rpc.envelope import Query
from schemas.rpc.request import InvalidRequest
from scorer.ledger.record.transition import FORMAT, NotAcknowledged, Torn, UnknownFormat
from scorer.ledger.store.marker import Marker
from scorer.ledger.store.scripts import Ledger
from scorer.placement.choosing.steps import Steps
from scorer.placement.offers.placement import Conflict, IdTaken, Late
from scorer.placement.placer import Placing
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import ProfileError
from scorer.rpc.methods import listings, transitions
from scorer.rpc.methods.capacity import capacity
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.decisions import DecisionLog
from scorer.rpc.methods.errors import CallError
from scorer.rpc.methods.parameters import read_object
from scorer.rpc.methods.placements import Placements
from scorer.rpc.methods.update import Updates
from scorer.rpc.operators.cordon import cordon
from scorer.rpc.operators.drain import drain
from scorer.rpc.operators.operator_rules import OperatorRules
from scorer.rpc.operators.plan import plan
from scorer.rpc.operators.rebalance import rebalance
from scorer.settings import ScorerSettings
from scorer.wire import Command

_encode = msgspec.json.Encoder().encode


class ScorerService:
    """Answers queries; the RPC loop calls it, one query after the other."""

    def __init__(
        self,
        settings: ScorerSettings,
        current: Current,
        ledger: Ledger,
        rules: OperatorRules,
        checked: Callable[[], dict[str, int] | None] = lambda: None,
        clock_ahead_s: Callable[[], float] = lambda: 0.0,
        unsafe: Callable[[], str] = str,
    ) -> None:
        """``checked`` returns what the last check of the ledger found; None when none is known.

        ``unsafe`` returns what endangers the ledger on its server.
        """
        self._clock_ahead_s = clock_ahead_s
        self.current = current
        self._ledger, self._rules = ledger, rules
        self._checked, self._unsafe = checked, unsafe
        self._scorer, self._acknowledged_by = settings.scorer, settings.acknowledged_by
        self._version = product_version()
        self._decisions = DecisionLog(
            settings.names, settings.scorer, settings.decisions_length, settings.decisions_bytes
        )
        placing = Placing(ledger, current.follower, settings.attempts_max, current.clock)
        self._placements = Placements(current, placing, self._decisions)
        self._updates = Updates(current, ledger)
        self._started_at = current.clock()
        self._marker = Marker(settings.names)
        self._marks: list[Command] = []

    # ---- called by the loop (`scorer.rpc.replies.Service`)

    @property
    def methods(self) -> Collection[str]:
        """The methods there are, by name."""
        return METHODS

    def reads(self) -> Sequence[Command]:
        """Return the commands that read the ledger's log and its marker."""
        return [self._marker.read(), *self.current.reads()]

    def accept(self, answers: Sequence[Any]) -> None:
        """Bring the inputs up to date."""
        self.current.accept(answers[1:])
        follower = self.current.follower
        if follower.loaded:
            self._marks = self._marker.accept(answers[0], follower.epoch, len(follower.view))
            self.current.metrics.unaccepted.set(float(bool(self._marker.refusal)))

    def writes(self) -> Sequence[Command]:
        """Return the commands that write the log of decisions and the ledger's marker."""
        marks, self._marks = self._marks, []
        return [*marks, *self._decisions.take()]

    def lost(self) -> None:
        """Have the ledger read again: the server may have restarted with other data."""
        self.current.follower.forget()

    def steps(self, query: Query) -> Steps[bytes]:
        """Return the result as JSON, in steps between which other queries may be answered."""
        if (refusal := self.current.follower.refusal) and query.method != "health":
            raise CallError("UNAVAILABLE", refusal, retryable=True)
        try:
            result = METHODS[query.method](self, query)
            if isinstance(result, Generator):
                result = yield from result
            return _encode(result)
        except ProfileError as error:
            raise InvalidRequest(str(error)) from None
        except IdTaken as taken:
            raise CallError("ALREADY_EXISTS", str(taken)) from None
        except Late as late:
            raise CallError("DEADLINE_EXCEEDED", str(late), retryable=True) from None
        except redis.ReadOnlyError:
            if not self.current.same_server:  # its name may lead to another server by now
                self._ledger.wire.close()
                self.lost()
            raise
        except Torn as torn:
            self.current.metrics.torn.inc()
            raise CallError("FAILED_PRECONDITION", str(torn)) from None
        except (Conflict, NotAcknowledged, UnknownFormat) as failure:
            raise CallError("UNAVAILABLE", str(failure), retryable=True) from None

    # ---- the methods

    def _place(self, query: Query) -> Steps[results.PlaceResult]:
        if self._marker.refusal:
            raise CallError("FAILED_PRECONDITION", self._marker.refusal)
        return self._placements.place(query)

    def _rank(self, query: Query) -> Steps[results.RankResult]:
        return self._placements.rank(query)

    def _confirm(self, query: Query) -> results.ConfirmResult:
        return transitions.confirm(self._ledger, self.current.follower, read_object(query), self.current.call(query))

    def _release(self, query: Query) -> results.ReleaseResult:
        return transitions.release(self._ledger, self.current.follower, read_object(query), self.current.call(query))

    def _update(self, query: Query) -> results.UpdateResult:
        return self._updated(read_object(query), query)

    def _updated(self, params: dict[str, Any], query: Query) -> results.UpdateResult:
        answer = self._updates.update(params, self.current.call(query))
        begun = answer.moving and answer.profile  # it was ranked just now
        if (answer.moved_from or begun) and not answer.dry_run:
            self._decisions.note(query, [answer.id], answer)
        return answer

    def _inputs(self, profile: str) -> RankingInputs:
        return self.current.ranking(self.current.profiles.choose(profile))

    def _capacity(self, query: Query) -> Steps[results.CapacityResult]:
        return capacity(read_object(query), self._inputs)

    def _cordon(self, query: Query) -> Steps[results.CordonResult]:
        return cordon(query, self.current.snapshot, self._rules, off=False)

    def _uncordon(self, query: Query) -> Steps[results.CordonResult]:
        return cordon(query, self.current.snapshot, self._rules, off=True)

    def _drain(self, query: Query) -> Steps[results.DrainResult]:
        return drain(query, self.current, self._rules, self._updated)

    def _plan(self, query: Query) -> Steps[results.PlanResult]:
        return plan(read_object(query), self.current)

    def _rebalance(self, query: Query) -> Steps[results.RebalanceResult]:
        return rebalance(read_object(query), self.current)

    def _machines(self, query: Query) -> Steps[results.MachinesResult]:
        params = read_object(query)
        return listings.machines(params, self._inputs(str(params.get("profile", ""))))

    def _instances(self, query: Query) -> Steps[results.InstancesResult]:
        return listings.instances(
            read_object(query), self.current.ledger, self._ledger.find, self.current.snapshot.usages
        )

    def _health(self, query: Query) -> results.HealthResult:
        if params := read_object(query):
            raise InvalidRequest(f"{next(iter(params))}: health takes no parameters")
        current, now_s = self.current, self.current.clock()
        snapshot, follower = current.snapshot, current.follower
        return results.HealthResult(
            ready=current.ready,
            degraded=current.degraded,
            scorer=self._scorer,
            version=self._version,
            clock_ahead_s=round(self._clock_ahead_s(), 3),
            uptime_s=now_s - self._started_at,
            machines=len(snapshot),
            machines_with_data=snapshot.machines_with_data,
            newest_sample_age_s=now_s - snapshot.newest_at if snapshot.machines_with_data else None,
            windows_s=list(snapshot.windows_s),
            instances=len(follower.view),
            ledger_change=follower.change,
            ledger_format=FORMAT,
            ledger_epoch=follower.epoch,
            ledger_refusal=follower.refusal,
            ledger_check=self._checked(),
            ledger_unaccepted=self._marker.refusal,
            ledger_unsafe=self._unsafe(),
            ledger_acknowledged_by=self._acknowledged_by,
            profiles=sorted(current.profiles.by_name),
            profile=current.profiles.default,
        )


METHODS: Mapping[str, Callable[[ScorerService, Query], msgspec.Struct | Steps[msgspec.Struct]]] = {
    "place": ScorerService._place,
    "rank": ScorerService._rank,
    "confirm": ScorerService._confirm,
    "update": ScorerService._update,
    "release": ScorerService._release,
    "capacity": ScorerService._capacity,
    "cordon": ScorerService._cordon,
    "uncordon": ScorerService._uncordon,
    "drain": ScorerService._drain,
    "plan": ScorerService._plan,
    "rebalance": ScorerService._rebalance,
    "machines": ScorerService._machines,
    "instances": ScorerService._instances,
    "health": ScorerService._health,
}
"""What answers each method of `schemas.rpc.parameters.RPC`."""
