"""The services of scorers and planners, which the loop calls: the inputs of the answers, and a table of methods.

Long queries are answered by a planner (`scorer.planner.service`): here they raise `ForPlanners`, and the loop moves
them to the planners' list.
"""

import logging
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import msgspec
import redis

from schemas.process.version import product_version
from schemas.rpc import results
from schemas.rpc.envelope import Query
from schemas.rpc.parameters import Confirm, Release
from schemas.rpc.request import InvalidRequest
from scorer.background.checker import Checker
from scorer.ledger.record.transition import FORMAT, NotAcknowledged, Torn, UnknownFormat
from scorer.ledger.store.marker import Marker
from scorer.metrics import Metrics
from scorer.placement.choosing.plan import Steps
from scorer.placement.placer import Conflict, IdTaken, Late, Placing
from scorer.planning.violations import violations
from scorer.ranking.inputs import RankingInputs, machines_of
from scorer.ranking.profiles.profile import ProfileError
from scorer.rpc.methods import listings
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.listings import risk
from scorer.rpc.methods.placements import DecisionLog, Placements, ranked
from scorer.rpc.methods.records import CallError, ForPlanners, answer_to, read_object, read_params
from scorer.rpc.methods.update import Updates
from scorer.rpc.operator_rules import OperatorRules, cordon
from scorer.settings import AnsweringSettings, ScorerSettings
from scorer.wire import Command, ServerClock

Answer = msgspec.Struct | Steps[Any]
"""The result of a method, at once or in steps."""
_encode = msgspec.json.Encoder().encode
log = logging.getLogger("windward.scorer")
RULES_S = 1.0


def _number(version: object) -> float:
    return float(version) if isinstance(version, bytes) and version.isdigit() else 0.0


class AnsweringService:
    """Answers queries; the RPC loop calls it, one query after the other."""

    METHODS: ClassVar[Mapping[str, Callable[[Any, Query], Answer]]] = {}
    """The function of each method, by name."""
    ROWS_MAX: ClassVar[float] = math.inf
    """The most rows of an answer; more are left to a planner."""
    DESCRIBED_MAX: ClassVar[float] = math.inf
    """The limit for machines with the terms of a ranking."""

    def __init__(self, settings: AnsweringSettings, current: Current, rules: OperatorRules) -> None:
        self.current, self.rules, self._ledger = current, rules, current.follower.ledger
        self._decisions = DecisionLog(
            settings.names, settings.holder, settings.decisions_length, settings.decisions_bytes
        )
        self._updates = Updates(self.current, self._ledger)
        self._rules: Command = ("GET", settings.names.operator_version)
        self._rules_version = 0.0

    # ---- called by the loop

    def reads(self) -> Sequence[Command]:
        """Return commands to send after the command that takes a query; their answers are given to `accept`."""
        return [self._rules, *self.current.reads()]

    def accept(self, answers: Sequence[Any]) -> None:
        """Take the answers of `reads`, before any of the taken queries is answered.

        Waits for operators' rules that were written before a query was taken, at most `RULES_S` for each version.
        """
        before, self._rules_version = self._rules_version, _number(answers[0])
        until, latest = time.monotonic() + RULES_S, self.current.latest
        while before < self._rules_version > _number(latest.rules_version):
            if time.monotonic() > until:
                log.warning("scorer.rules.late", extra={"values": {"after_s": RULES_S}})
                break
            time.sleep(0.001)
        self.current.accept(answers[1:])

    def writes(self) -> Sequence[Command]:
        """Return commands to send with the answer; their results are ignored."""
        return self._decisions.take()

    def lost(self) -> None:
        """Read the ledger anew at the next turn, since the server may have restarted with other data."""
        self.current.follower.forget()

    def between(self) -> None:
        """Do other work that is due, after each turn; a scorer has none."""

    def steps(self, query: Query) -> Steps[bytes]:
        """Return the result as JSON, in steps between which other queries can be answered.

        Raises CallError, InvalidRequest or ForPlanners.
        """
        if (refusal := self.current.follower.refusal) and query.method != "health":
            raise CallError("UNAVAILABLE", refusal, retryable=True)
        try:
            result = self.METHODS[query.method](self, query)
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

    # ---- the methods of both, and what methods use

    def _rank(self, query: Query) -> results.RankResult:
        return ranked(read_object(query), self.current, self.DESCRIBED_MAX)

    def _machines(self, query: Query) -> results.MachinesResult:
        params = read_object(query)
        return listings.machines(params, self.inputs(str(params.get("profile", ""))), self.ROWS_MAX)

    def _risk(self, query: Query) -> results.RiskResult:
        return risk(read_object(query), self.inputs(""))

    def _instances(self, query: Query) -> results.InstancesResult:
        current = self.current
        found = current.ledger, self._ledger.find, current.snapshot.usages
        return listings.instances(read_object(query), *found, most=self.ROWS_MAX, broken=self._broken)

    def _broken(self) -> list[results.Violation]:
        inputs = self.inputs("")
        return violations(machines_of(inputs), inputs.ledger)

    def update(self, params: dict[str, Any], query: Query) -> results.UpdateResult:
        """Do the method ``update``, and log the decision."""
        answer = self._updates.update(params, self.current.call(query))
        begun = answer.moving and answer.profile  # it was ranked just now
        if (answer.moved_from or begun) and not answer.dry_run:
            self._decisions.note(query, [answer.id], answer)
        return answer

    def inputs(self, profile: str, text: str = "") -> RankingInputs:
        """Return the inputs of a ranking by a profile; ``text``: the profile's file, for one that is not known here."""
        return self.current.ranking(self.current.profiles.choose(profile, text))


class ScorerService(AnsweringService):
    """Answers queries that take a few milliseconds: 1,000 rows take 20 ms, the terms of 100 machines as long."""

    ROWS_MAX: ClassVar[float] = 1_000
    DESCRIBED_MAX: ClassVar[float] = 100

    def __init__(
        self, settings: ScorerSettings, current: Current, rules: OperatorRules, metrics: Metrics,
        checker: Checker | None = None,
    ) -> None:  # fmt: skip
        super().__init__(settings, current, rules)
        self._checker, self._metrics = checker, metrics
        self._scorer, self._acknowledged_by = settings.holder, settings.acknowledged_by
        self._version = product_version()
        placing = Placing(self._ledger, self.current.follower, settings.attempts_max, self.current.clock)
        self._placements = Placements(self.current, metrics, placing, self._decisions)
        self._started_at = self.current.clock()
        self._marker = Marker(settings.names)
        self._marks: list[Command] = []

    def reads(self) -> Sequence[Command]:
        return [self._marker.read(), *super().reads()]

    def accept(self, answers: Sequence[Any]) -> None:
        super().accept(answers[1:])
        follower = self.current.follower
        if follower.loaded:
            self._marks = self._marker.accept(answers[0], follower.epoch, len(follower.view), self._reported)
            self._metrics.unaccepted.set(float(bool(self._marker.refusal)))

    def _reported(self) -> int:
        """Return how many instances agents report that ran before the ledger began."""
        began_s = float(self.current.follower.epoch or "inf")
        return self.current.snapshot.usages.columns.running_before(began_s, self.current.clock())

    def writes(self) -> Sequence[Command]:
        marks, self._marks = self._marks, []
        return [*marks, *super().writes()]

    # ---- the methods

    def _place(self, query: Query) -> Steps[results.PlaceResult]:
        if self._marker.refusal:
            raise CallError("FAILED_PRECONDITION", self._marker.refusal)
        return self._placements.place(query)

    def _confirm(self, query: Query) -> results.ConfirmResult:
        asked: Confirm = read_params(Confirm, read_object(query))
        if asked.move is not None and not asked.machine:
            raise InvalidRequest("move: give the machine that it goes to, too")
        transition = self._ledger.confirm(
            asked.id, machine=asked.machine, started_at=asked.started_at, generation=asked.generation, move=asked.move,
            call=self.current.call(query), dry_run=asked.dry_run,
        )  # fmt: skip
        self.current.follower.absorb(transition)
        return answer_to(results.ConfirmResult, transition, asked.id, "confirm", asked.dry_run)

    def _release(self, query: Query) -> results.ReleaseResult:
        asked: Release = read_params(Release, read_object(query))
        transition = self._ledger.release(
            asked.id, machine=asked.machine, generation=asked.generation, failed=asked.failed,
            call=self.current.call(query), dry_run=asked.dry_run,
        )  # fmt: skip
        self.current.follower.absorb(transition)
        answer = answer_to(results.ReleaseResult, transition, asked.id, "release", asked.dry_run)
        if asked.failed and not (answer.repeated or answer.dry_run):
            self._metrics.failed_starts.inc()
        return answer

    def _update(self, query: Query) -> results.UpdateResult:
        return self.update(read_object(query), query)

    def _cordon(self, query: Query) -> results.CordonResult:
        return cordon(query, self.current.snapshot, self.rules, off=False)

    def _uncordon(self, query: Query) -> results.CordonResult:
        return cordon(query, self.current.snapshot, self.rules, off=True)

    def _for_planners(self, query: Query) -> NoReturn:
        raise ForPlanners(query.method)

    def _health(self, query: Query) -> results.HealthResult:
        if params := read_object(query):
            raise InvalidRequest(f"{next(iter(params))}: health takes no parameters")
        current, now_s = self.current, self.current.clock()
        snapshot, follower, checker = current.snapshot, current.follower, self._checker
        return results.HealthResult(
            ready=current.ready,
            degraded=current.degraded,
            scorer=self._scorer,
            version=self._version,
            clock_ahead_s=round(current.clock.ahead_s, 3) if isinstance(current.clock, ServerClock) else 0.0,
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
            ledger_check=checker.found if checker else None,
            ledger_unaccepted=self._marker.refusal,
            ledger_unsafe=checker.server.unsafe if checker else "",
            ledger_acknowledged_by=self._acknowledged_by,
            profiles=sorted(current.profiles.by_name),
            profile=current.profiles.default,
        )

    METHODS: ClassVar = {
        "place": _place,
        "rank": AnsweringService._rank,
        "confirm": _confirm,
        "update": _update,
        "release": _release,
        "capacity": _for_planners,
        "cordon": _cordon,
        "uncordon": _uncordon,
        "drain": _for_planners,
        "plan": _for_planners,
        "rebalance": _for_planners,
        "machines": AnsweringService._machines,
        "risk": AnsweringService._risk,
        "instances": AnsweringService._instances,
        "health": _health,
    }
    """The function of each method of `schemas.rpc.parameters.RPC`."""
