"""Shell: rounds of rebalancing under the lease `rebalance`; moves are proposed on a Redis list.

    another holds the lease      wait for it
    this one holds it            every round: settle what is open, plan, write

A round plans on the fleet as it is then, and counts open proposals as done. All writing is one script with the number
of the lease, which refuses an older number: a process that was suspended or cut off does not know that it lost the
lease, and can write nothing. The next holder of the lease withdraws the proposals of earlier ones.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import redis

from schemas.messages.proposal import write_proposal
from schemas.names import Names
from schemas.process.metrics import counter, gauge
from schemas.process.redis_url import in_words
from schemas.rpc.results import RebalanceResult
from scorer.background.checker import ServerSettings
from scorer.ledger.record.transition import Overtaken, UnknownFormat
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.metrics import AnsweringMetrics
from scorer.placement.choosing.trial import homeless
from scorer.planner.settings import PlannerSettings
from scorer.planning.balance.advice import advice
from scorer.planning.balance.proposals import OUTCOMES, Term, propose
from scorer.planning.balance.rounds import Rounds, UnderWay, condition_of
from scorer.planning.violations import WHY, violations
from scorer.ranking.inputs import FleetState, RankingInputs, Tables, machines_of
from scorer.ranking.profiles.plugins import PluginError
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.survive import domains
from scorer.wire import AWAY, Wire

RESULTS = ("planned", "waiting", "failed")


class Metrics(AnsweringMetrics):
    """The metrics of a planner: of its queries, and of its rounds of rebalancing."""

    PROCESS = "planner"

    rounds = counter("windward_planner_rounds", "Rounds of rebalancing, by result", result=RESULTS)
    proposals = counter("windward_planner_proposals", "Proposed moves, by outcome", outcome=OUTCOMES)
    open = gauge("windward_planner_open", "Proposed moves on each list", list=("waiting", "taken"))
    leads = gauge("windward_planner_leads", "1 while this process holds the lease of the rounds")
    overload = gauge("windward_planner_overload", "Expected load above the limit, in machines of mean size")
    broken = gauge("windward_fleet_rule_violations", "Broken rules by cause, told by the holder of the lease", why=WHY)
    without_place = gauge("windward_fleet_without_place_instances", "If what `survive` names were lost: of the worst")
    planned_at = gauge("windward_planner_round_timestamp_seconds", "When it planned a round last")


log = logging.getLogger("windward.planner")

_SCRIPT = Path(__file__).with_name("write_moves.lua").read_text()
READ_MAX = 10_000
"""The most messages of each list that a round reads."""
LOSSES_S = 1.0
"""A round tries the loss of further domains for so long, and of one at least."""


class MovesQueue:
    """The lists of one prefix."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self._wire = wire
        self._keys = (names.moves_waiting, names.moves_taken, names.moves_fence, names.moves_roles)

    def read(self) -> tuple[list[bytes], list[bytes]]:
        """Return the waiting messages, the next one first, and the taken ones."""
        keys = (*self._keys[:2], self._keys[3])
        waiting, taken, roles = self._wire.all(*(("LRANGE", key, -READ_MAX, -1) for key in keys))
        return [*roles[::-1], *waiting[::-1]], taken

    def write(
        self,
        number: int,
        withdrawn: Sequence[bytes],
        returned: Sequence[tuple[bytes, bytes]],
        proposed: Sequence[bytes],
    ) -> int:
        """Write the result of a round; return how many proposals were returned to the queue.

        ``returned`` has pairs: a taken message, and the one that replaces it on the waiting list. A fence that is not a
        number is logged and replaced, since an error would fail each round for ever. Raises Overtaken, and what the
        wire raises.
        """
        arguments: list[bytes | int] = [number, len(withdrawn), *withdrawn, len(returned)]
        arguments += [part for pair in returned for part in pair]
        arguments += [len(proposed), *proposed]
        kind, count, *damaged = self._wire.one("EVAL", _SCRIPT, len(self._keys), *self._keys, *arguments)
        if kind == b"overtaken":
            raise Overtaken(f"a planner with the number {count} has written since {number}")
        if any(damaged):
            values = {"found": repr(damaged[0]), "replaced_by": number}
            log.warning("planner.fence.replaced", extra={"values": values})
        return int(count)

    def close(self) -> None:
        self._wire.close()


LEASE = "rebalance"
_KNOWN = (*AWAY, UnknownFormat, PluginError, redis.ResponseError)
"""Failures whose text is enough, without a traceback."""


class Proposer:
    """Does the rounds. Call ``turn`` in a loop; it returns how long to wait before the next call.

    ``read`` returns the fleet at a time.
    """

    def __init__(
        self,
        settings: PlannerSettings,
        ledger: Ledger,
        read: Callable[[float], FleetState],
        queue: MovesQueue,
        profile: Profile,
        metrics: Metrics,
    ) -> None:
        self._settings, self._read, self._queue = settings, read, queue
        self._lease = Lease(ledger, LEASE, settings.holder, settings.lease_s)
        self.profile, self._metrics = profile, metrics
        self.server = ServerSettings(ledger.wire, "planner", metrics.unsafe)
        self._number: int | None = None
        self._due_s = -math.inf
        self._forget()
        self.well = False
        """Whether the last turn reached its servers."""

    def turn(self, now_s: float) -> float:
        """Take or renew the lease; with it do a round when one is due. Return the seconds until the next turn."""
        try:
            self._turn(now_s)
            self.well = True
        except Exception as error:  # a fault of the rounds, too, ends neither the process nor its answers
            self.well = not isinstance(error, AWAY)
            self._metrics.rounds.labels("failed").inc()
            said = f"{type(error).__name__}: {in_words(error)}"
            known = isinstance(error, _KNOWN)
            log.warning("planner.round.failed", extra={"values": {"error": said}}, exc_info=not known)
        return min(self._settings.every, self._settings.lease_s / 3)

    def _turn(self, now_s: float) -> None:
        self.server.look()
        number = self._lease.take()
        self._metrics.leads.set(number is not None)
        if number != self._number:
            log.info("planner.lease", extra={"values": {"leads": number is not None, "number": number or 0}})
            self._number = number
            self._forget()
        if number is None:
            self._metrics.rounds.labels("waiting").inc()
        elif now_s >= self._due_s:
            self._due_s = now_s + self._settings.every
            self._round(number, now_s)

    def _forget(self) -> None:
        self._term, self._tables = Term(self._number or 0, self._settings.ack_s), Tables()
        self._rounds: Rounds | None = None
        self._metrics.broken.clear()
        self._losses: dict[str, int] = {}
        """By the first machine of a domain, how many would find no place; the one tried last is the last."""
        self._metrics.without_place.set(math.nan)
        self._due_s = -math.inf

    def _round(self, number: int, now_s: float) -> None:
        settings, profile = self._settings, self.profile
        waiting, taken = self._queue.read()
        seen = self._read(now_s)  # afterwards: the ledger has each move that was on the lists
        settled = self._term.settle(waiting, taken, seen.ledger.instances, now_s, profile.rebalance.rest_s)
        condition = condition_of(profile.rebalance, settings.every)
        if self._rounds is None or self._rounds.condition != condition:
            self._rounds = Rounds(condition)
        inputs = seen.inputs(profile, self._tables)
        broken = Counter(one.why for one in violations(machines_of(inputs), inputs.ledger))
        for why in WHY:
            self._metrics.broken.labels(why).set(broken[why])
        self._try_losses(inputs)
        plan = advice(inputs, self._rounds, UnderWay(settled.pending, settled.handing, self._term.resting))
        new = propose(plan, seen.ledger.instances, number, now_s, settings.proposal_s)
        if self._lease.take() != number:  # this process was suspended meanwhile, and another plans
            return
        try:
            returned = self._queue.write(
                number, settled.withdrawn, settled.returned, [write_proposal(one) for one in new]
            )
        except Overtaken as error:
            log.warning("planner.overtaken", extra={"values": {"error": str(error)}})
            return
        self._term.opened |= {one.id: one for one in new}
        self._metrics.open.labels("waiting").set(len(waiting) + len(new) + returned)
        self._metrics.open.labels("taken").set(len(taken) - returned)
        self._tell(plan, settled.outcomes, len(new), now_s)

    def _try_losses(self, inputs: RankingInputs) -> None:
        """Try the loss of some more domains, and tell how many instances of the worst would find no place."""
        machines, until_s = {each[0]: each for each in domains(inputs)}, time.monotonic() + LOSSES_S
        self._losses = {name: count for name, count in self._losses.items() if name in machines}
        for name in [*(machines.keys() - self._losses.keys()), *self._losses]:
            self._losses.pop(name, None)
            self._losses[name] = homeless(machines[name], inputs)
            if time.monotonic() >= until_s:
                break
        self._metrics.without_place.set(max(self._losses.values(), default=math.nan))

    def _tell(self, plan: RebalanceResult, outcomes: tuple[str, ...], proposed: int, now_s: float) -> None:
        for outcome in (*outcomes, *["proposed"] * proposed):
            self._metrics.proposals.labels(outcome).inc()
        self._metrics.rounds.labels("planned").inc()
        self._metrics.overload.set(plan.totals["overload"][0])
        self._metrics.planned_at.set(now_s)
        if outcomes or proposed:
            values = {"proposed": proposed, **Counter(outcomes)}
            log.info("planner.round", extra={"values": values})

    def stop(self) -> None:
        """Give the lease up, so that another planner takes it at once."""
        try:
            self._lease.give_up()
        except (*AWAY, UnknownFormat, redis.ResponseError):
            log.warning("planner.lease.kept", extra={"values": {"error": "the ledger is away; the lease runs out"}})
