"""Shell: takes the proposed moves of this cluster's pods, and carries each out.

    dry run of the eviction -> take the proposal -> hold the target -> evict this very pod -> see its replacement
         refused: declined, and its kind is left alone for a while       refused: let the target go, decline

The controller makes the replacement while the pod still ends, and the scheduler asks about it within some hundredths of
a second. An extender reads the ledger as often, so the eviction waits until each has seen the hold (`LEAD_S`). Without
that the second replacement went elsewhere in five of nine runs on a real control plane.

A proposal waits on the list while `Rates` says so. The hold is a reservation in the ledger (`hold_id`),
by which the extender sends the replacement to the target. It is released when the replacement is in the ledger,
on whichever node, and expires even if this process ends before. The proposal is then delivered again, and declined as
gone.

Several may run: each proposal is taken once, and all share one hold for a kind. Their rates add up.

A pod is evicted when a controller makes another one that can run elsewhere, and nothing is lost with its node. The
annotation ``cluster-autoscaler.kubernetes.io/safe-to-evict`` counts as it does for cluster-autoscaler: "false" keeps a
pod, "true" gives one up although it has local storage. ``windward.io/movable: "false"`` keeps a pod, too.
"""

import http.client
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec
import redis

from schemas.messages.proposal import READ_MAX, MoveProposal, read_proposal
from schemas.names import Names
from schemas.process.metrics import Table, counter, gauge
from schemas.process.redis_url import in_words
from schemas.rpc.request import Request
from schemas.values.read_json import whole
from scorer.client import Client, InstanceRow, WindwardError
from scorer.kubernetes.pods_api import ApiError, ApiServer, retry_after_s
from scorer.kubernetes.pods_body import Pod
from scorer.kubernetes.pods_request import REPLACES, Reading, hold_id, request_of
from scorer.kubernetes.pods_ties import why_it_stays
from scorer.ledger.record.instance import CLUSTER, LIVE
from scorer.wire import AWAY, Wire

DECLINED = (
    "gone", "elsewhere", "ending", "bare", "node", "namespace", "system", "kept", "local", "unreadable", "room",
    "budget", "refused",
)  # fmt: skip
"""Why a proposal is declined: there is no such pod; it is on another node; it is being deleted; nothing would make it
again; it belongs to its node; its namespace or its priority class is left alone; an annotation keeps it; it has local
storage; it cannot be an instance; the target has no room; a disruption budget; the API server or the scorer."""
WAITS = ("hour", "at_once", "kind", "backoff")
"""Why a proposal waits, the first two whatever its kind: so many were evicted in an hour; so many are not replaced
yet; one of its kind is not; an eviction of its kind was refused a moment ago."""


def why_not(pod: Pod | None, uid: str, source: str, namespaces: Collection[str]) -> str:
    """Return why a pod is not evicted, one of `DECLINED`; "" where it may be. ``namespaces``: pods in these stay."""
    if pod is None:
        return "gone"
    about = pod.metadata
    reasons = {
        "gone": about.uid != uid,
        "elsewhere": pod.spec.node_name != source,
        "ending": about.deletion_timestamp is not None,
        "namespace": about.namespace in namespaces,
    }
    return next((reason for reason, holds in reasons.items() if holds), "") or why_it_stays(pod)


class Rates:
    """The limits of evictions: in an hour, at a time, and one of a kind at a time."""

    def __init__(self, hour_max: int, at_once: int) -> None:
        self._hour_max, self._at_once = hour_max, at_once
        self._began: deque[float] = deque()
        self._open: set[str] = set()
        self._backoff: dict[str, float] = {}

    def why_wait(self, kind: str, now_s: float) -> str:
        """Return why no eviction of a kind may begin now, one of `WAITS`; "" where one may."""
        while self._began and self._began[0] <= now_s - 3600:
            self._began.popleft()
        if len(self._began) >= self._hour_max:
            return "hour"
        if len(self._open) >= self._at_once:
            return "at_once"
        if kind in self._open:
            return "kind"
        if self._backoff.get(kind, now_s) > now_s:
            return "backoff"
        self._backoff.pop(kind, None)
        return ""

    def begin(self, kind: str, now_s: float) -> None:
        self._began.append(now_s)
        self._open.add(kind)

    def end(self, kind: str) -> None:
        """Record that the evicted pod was replaced, or that its hold has ended."""
        self._open.discard(kind)

    def refuse(self, kind: str, until_s: float) -> None:
        """Start no eviction of a kind until then."""
        self._backoff[kind] = until_s


REPLACED = ("target", "elsewhere", "unseen")
"""Where the replacement came: to the held node; to another; none was seen while the node was held."""


class Metrics(Table):
    """Its metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "evictor"

    evicted = counter("windward_evictor_evicted", "Pods evicted")
    would = counter("windward_evictor_dry_runs", "Evictions that were tried alone, without --apply")
    declined = counter("windward_evictor_declined", "Proposals declined, by reason", reason=DECLINED)
    replaced = counter("windward_evictor_replaced", "Evicted pods by where their replacement came", where=REPLACED)
    waiting = gauge("windward_evictor_waiting", "Proposals that wait, by reason", reason=WAITS)
    open = gauge("windward_evictor_open", "Evicted pods whose replacement was not seen yet")
    up = gauge("windward_evictor_up", "1 while the last turn could ask Redis, scorer and API server")


log = logging.getLogger("windward.evictor")

LEAD_S = 0.5
"""Time from the hold to the eviction, many times `scorer.kubernetes.extender.fleet.LOOK_S`."""
_REMEMBERED_MAX = 10_000
BUDGET_STATUS = (http.client.TOO_MANY_REQUESTS, http.client.INTERNAL_SERVER_ERROR)
"""A budget allows none now; two budgets match the pod."""
GONE_STATUS = (http.client.NOT_FOUND, http.client.CONFLICT)
"""There is no such pod; or another one has this name."""


@dataclass(frozen=True)
class How:
    """The settings that an operator may change."""

    reading: Reading
    apply: bool = False
    hold_s: float = 120.0
    backoff_s: float = 30.0
    not_namespaces: Collection[str] = ()


@dataclass(frozen=True)
class _Open:
    """An evicted pod whose replacement was not seen yet."""

    message: bytes
    request: Request
    """The hold."""
    before: frozenset[str]
    """The ids of its kind when it was evicted."""
    until_s: float


class Evictor:
    """Call `turn` again and again."""

    def __init__(
        self,
        proposals: "Proposals",
        scorer: Client,
        api: ApiServer,
        rates: Rates,
        how: How,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._proposals, self._scorer, self._api = proposals, scorer, api
        self._rates, self._how, self._metrics, self._clock = rates, how, metrics, clock
        self._open: list[_Open] = []
        self._others: dict[str, None] = {}
        """Proposals for instances that are no pods of this cluster, and without --apply the reported ones."""
        self.trouble = ""
        """Why the last turn failed; "" where it did not."""

    @property
    def open(self) -> int:
        """How many evicted pods are not replaced yet."""
        return len(self._open)

    def turn(self) -> None:
        """Check which evicted pods are replaced, then start the moves that may begin; nothing is raised."""
        try:
            for one in list(self._open):
                self._look(one)
            self._begin_some()
        except (*AWAY, redis.RedisError, WindwardError, ApiError) as error:
            said = f"{type(error).__name__}: {in_words(error)}"
            if said != self.trouble:
                log.warning("evictor.failed", extra={"values": {"error": said}})
            self.trouble = said
        else:
            if self.trouble:
                log.info("evictor.well")
            self.trouble = ""
        self._metrics.up.set(not self.trouble)
        self._metrics.open.set(len(self._open))

    # ---- what was evicted

    def _look(self, one: _Open) -> None:
        """End the moves whose pod was replaced, or whose hold has expired."""
        rows = self._of_kind(one.request.kind)
        came = [row for row in rows if row.id not in one.before and REPLACES not in row.labels]
        if not came and self._clock() < one.until_s:
            return
        where = "unseen" if not came else "elsewhere"
        if any(row.machine == one.request.machine for row in came):
            where = "target"
        self._let_go(one.request)
        self._proposals.acknowledge(one.message)
        self._open.remove(one)
        self._rates.end(one.request.kind)
        self._metrics.replaced.labels(where).inc()
        values = {"kind": one.request.kind, "target": one.request.machine, "came": where}
        log.info("evictor.replaced", extra={"values": values})

    def _of_kind(self, kind: str) -> list[InstanceRow]:
        return self._scorer.instances(kind=kind, labels={CLUSTER: self._how.reading.cluster}, limit=1000).instances

    def _let_go(self, held: Request) -> None:
        self._proposals.let_go(held.id)
        try:
            self._scorer.release(held.id)
        except WindwardError as error:  # it has ended, or ends by itself
            log.debug("evictor.hold.kept", extra={"values": {"error": str(error)}})

    # ---- what is proposed

    def _begin_some(self) -> None:
        messages, fence = self._proposals.waiting()
        waits: Counter[str] = Counter()
        for message in messages:
            move = read_proposal(message)
            if move is None or move.fence < fence or move.expires_at < self._clock() or move.id in self._others:
                continue  # the planner takes them off the list
            if (why := self._rates.why_wait("", self._clock())) in WAITS[:2]:  # whatever its kind
                waits[why] += 1
                continue
            rows = self._scorer.instances(id=move.instance).instances
            if not rows or rows[0].state not in LIVE or rows[0].labels.get(CLUSTER) != self._how.reading.cluster:
                self._pass_over(move)
                continue
            if why := self._rates.why_wait(rows[0].kind, self._clock()):
                waits[why] += 1
                continue
            self._begin(message, move, rows[0])
        for why in WAITS:
            self._metrics.waiting.labels(why).set(waits[why])

    def _pass_over(self, move: MoveProposal) -> None:
        self._others[move.id] = None
        while len(self._others) > _REMEMBERED_MAX:
            del self._others[next(iter(self._others))]

    def _begin(self, message: bytes, move: MoveProposal, row: InstanceRow) -> None:
        pod = self._api.pod(row.labels.get("namespace", ""), row.labels.get("pod", ""))
        why = why_not(pod, move.instance, move.source, self._how.not_namespaces)
        if pod is not None and not why:
            why = self._refused(pod, row.kind, dry_run=True)
        if not self._how.apply:
            self._pass_over(move)
            self._metrics.would.inc()
            log.info("evictor.dry_run", extra={"values": _told(move, pod) | {"result": why or "would be evicted"}})
        elif self._proposals.take(message):
            if pod is not None and not why:
                why = self._carry_out(message, move, pod, row)
            if why:
                self._proposals.acknowledge(message)
                self._metrics.declined.labels(why).inc()
                log.info("evictor.declined", extra={"values": _told(move, pod) | {"kind": row.kind, "reason": why}})

    def _carry_out(self, message: bytes, move: MoveProposal, pod: Pod, row: InstanceRow) -> str:
        """Hold the target and evict the pod; return the reason of a refusal, "" without one."""
        reading = self._how.reading
        try:
            asked = request_of(pod, move.instance, reading)
        except ValueError:
            return "unreadable"
        held = msgspec.structs.replace(
            asked, id=hold_id(reading.cluster, asked.kind), machine=move.target, ttl_s=self._how.hold_s,
            labels={name: one for name, one in asked.labels.items() if name != CLUSTER} | {REPLACES: move.instance},
        )  # fmt: skip
        try:
            if row.moving is not None:  # a command began the move: its reservation would count beside the hold
                self._scorer.update(move.instance, cancel_move=True, generation=move.generation)
            before = frozenset(one.id for one in self._of_kind(held.kind))
            placed = self._scorer.place(**msgspec.to_builtins(held))
        except WindwardError as error:
            log.warning("evictor.not_held", extra={"values": _told(move, pod) | {"error": str(error)}})
            return "refused"
        if placed.machine != move.target:
            return "room"
        self._proposals.hold(held.id, placed.generation or 0, self._how.hold_s)
        time.sleep(LEAD_S)
        if why := self._refused(pod, held.kind, dry_run=False):
            self._let_go(held)
            return why
        now_s = self._clock()
        self._open.append(_Open(message, held, before, now_s + self._how.hold_s))
        self._rates.begin(held.kind, now_s)
        self._metrics.evicted.inc()
        log.info("evictor.evicted", extra={"values": _told(move, pod)})
        return ""

    def _refused(self, pod: Pod, kind: str, *, dry_run: bool) -> str:
        """Request the eviction; return the reason of a refusal, "" without one, or where the result is unknown."""
        try:
            answer = self._api.evict(pod, dry_run=dry_run)
        except ApiError:
            if dry_run:
                raise
            return ""  # it may be evicted: its replacement will tell
        if answer.status < http.client.BAD_REQUEST:
            return ""
        if answer.status in GONE_STATUS:
            return "gone"
        self._rates.refuse(kind, self._clock() + (retry_after_s(answer) or self._how.backoff_s))
        log.info("evictor.refused", extra={"values": {"pod": pod.metadata.name, "error": answer.said}})
        return "budget" if answer.status in BUDGET_STATUS else "refused"


def _told(move: MoveProposal, pod: Pod | None) -> dict[str, str]:
    name = "" if pod is None else f"{pod.metadata.namespace}/{pod.metadata.name}"
    return {"uid": move.instance, "pod": name, "source": move.source, "target": move.target}


class Proposals:
    """The list of proposed moves, of which only some are taken: another program may move the others.

    Raises the errors of the connection, and ``redis.ResponseError``.
    """

    def __init__(self, wire: Wire, names: Names) -> None:
        self._wire = wire
        self._waiting, self._taken, self._fence = names.moves_waiting, names.moves_taken, names.moves_fence
        self._holds = names.holds

    def waiting(self) -> tuple[list[bytes], int]:
        """Return the waiting messages, the next one first, and the fence: a move with an older number is obsolete."""
        messages, fence = self._wire.all(("LRANGE", self._waiting, -READ_MAX, -1), ("GET", self._fence))
        if (number := whole(b"0" if fence is None else fence)) is None:
            said = f"the fence of moves is no number: {fence[:80]!r}: the planner's next round replaces it"
            raise redis.ResponseError(said)
        return messages[::-1], number

    def take(self, message: bytes) -> bool:
        """Take a message as a mover does; return whether it was still on the list."""
        _, place = self._wire.all(("WATCH", self._waiting), ("LPOS", self._waiting, message))
        if place is None:
            self._wire.all(("UNWATCH",))
            return False
        moved = (("LREM", self._waiting, -1, message), ("LPUSH", self._taken, message))
        *_, done = self._wire.all(("MULTI",), *moved, ("EXEC",))
        return done is not None

    def acknowledge(self, message: bytes) -> None:
        """Acknowledge a message as done or declined; the planner reads in the ledger which of the two it was."""
        self._wire.all(("LREM", self._taken, 1, message))

    def hold(self, instance_id: str, generation: int, lasts_s: float) -> None:
        """Let extenders accept a reservation as a hold; the list of holds expires with its last one."""
        self._wire.all(("HSET", self._holds, instance_id, generation), ("EXPIRE", self._holds, round(lasts_s) + 60))

    def let_go(self, instance_id: str) -> None:
        """Let extenders no longer accept a reservation as a hold."""
        self._wire.all(("HDEL", self._holds, instance_id))
