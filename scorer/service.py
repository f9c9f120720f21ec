"""What the scorer answers: one method of the RPC each, on the newest snapshot and the current ledger."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from schemas.names import Names
from schemas.request import InvalidRequest, Request, read_request
from schemas.rpc import Query
from scorer import batch, lifecycle, listing
from scorer.ahead import Ahead, Continued
from scorer.follow import Follower
from scorer.instance import Instance
from scorer.learned import Learned, complete, nothing
from scorer.ledger import Ledger, request_digest
from scorer.metrics import Metrics
from scorer.placing import Conflict, IdTaken, Placement, Placing
from scorer.profile import ProfileError, Profiles
from scorer.rank import rank
from scorer.rpc import CallError
from scorer.snapshot import Snapshot, build_snapshot
from scorer.together import Asked, own, runs
from scorer.wire import Command

BATCH_MAX = 10_000
"""Instances in one query."""
_TELL_S = 0.05
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_SHARED = frozenset(Request.__struct_fields__) - {"id", "count"}


class Source(Protocol):
    """Where snapshots come from (`scorer.loader.Refresher`)."""

    latest: Snapshot | None
    ledger_machines: Iterable[str]
    """Machines that hold instances, so that they are there even without windows."""


class ScorerService:
    """Answers queries; the RPC loop calls it, one query after the other."""

    def __init__(
        self,
        *,
        names: Names,
        scorer: str,
        version: str,
        follower: Follower,
        ledger: Ledger,
        source: Source,
        profiles: Profiles,
        metrics: Metrics,
        same_server: bool,
        attempts_max: int = 20,
        decisions_length: int = 100_000,
        learned: Learned = nothing,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.profiles = profiles
        self._names = names
        self._scorer = scorer
        self._version = version
        self._follower = follower
        self._ledger = ledger
        self._source = source
        self._metrics = metrics
        self._same_server = same_server
        self._decisions_length = decisions_length
        self._learned = learned
        self._clock = clock
        self._ahead = Ahead()
        self._placing = Placing(ledger, follower, attempts_max, clock, self._ahead.rank, self._ahead.plan)
        self._snapshot = source.latest or build_snapshot((), {}, {})
        self._pending: deque[Command] = deque()
        self._runs: dict[str, list[Asked]] = {}
        self._answers: dict[str, bytes] = {}
        self._reloads = 0
        self._told, self._told_at = -1, 0.0
        self._started_at = clock()
        self._methods: Mapping[str, Callable[[Query, Any], Any]] = {
            "place": self._place,
            "rank": self._rank,
            "confirm": self._confirm,
            "update": self._update,
            "release": self._release,
            "machines": self._machines,
            "instances": self._instances,
            "health": self._health,
        }

    # ---- what the loop asks for

    def reads(self) -> Sequence[Command]:
        """The ledger's log is read with the taking of a query, when both are on one server."""
        return self._follower.reads() if self._same_server else ()

    def accept(self, answers: Sequence[Any]) -> None:
        """Bring ledger and snapshot up to date before deciding."""
        if self._same_server:
            self._follower.accept(answers)
        else:
            self._follower.poll()
        if self._reloads != self._follower.reloads:
            self._metrics.reloads.inc(self._follower.reloads - self._reloads)
            self._reloads = self._follower.reloads
        self._metrics.instances.set(len(self._follower.view))
        if self._source.latest is not None:
            self._snapshot = self._source.latest
        if self._follower.change != self._told and (now := time.monotonic()) > self._told_at + _TELL_S:
            self._source.ledger_machines = self._follower.view.machine_names
            self._told, self._told_at = self._follower.change, now
        self._metrics.ready.set(float(self.ready))

    def taken(self, queries: Sequence[Query]) -> None:
        """Note which of the queries taken together can be placed together."""
        self._answers.clear()
        self._runs = runs(queries, self._alone) if len(queries) > 1 else {}

    @property
    def ready(self) -> bool:
        """Whether windows and ledger have been read."""
        return self._follower.loaded and self._source.latest is not None

    def writes(self) -> Sequence[Command]:
        """The decision log."""
        commands = list(self._pending)
        self._pending.clear()
        return commands

    def prepare(self) -> None:
        """Make what the next decision will need, while nobody waits."""
        if self.ready:
            self._ahead.prepare(self._snapshot, self._follower.view, self._clock())

    def lost(self) -> None:
        """Read the ledger again: the server may have come back without it."""
        self._follower.forget()

    def answer(self, query: Query) -> bytes:
        """Return the result as JSON."""
        try:
            params = _decode(query.params)
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"params: {error}") from None
        if not isinstance(params, dict):
            raise InvalidRequest(f"params: expected an object, got {type(params).__name__}")
        if run := self._runs.pop(query.id, None):
            self._place_run(run)
        try:
            return self._answers.pop(query.id, b"") or _encode(self._methods[query.method](query, params))
        except ProfileError as error:
            raise InvalidRequest(str(error)) from None
        except IdTaken as taken:
            raise CallError("ALREADY_EXISTS", str(taken)) from None
        except Conflict as conflict:
            raise CallError("UNAVAILABLE", str(conflict), retryable=True) from None

    # ---- rank and place

    def _alone(self, query: Query) -> Asked | None:
        """Return a query for one instance that may be placed together with others like it; None for any other."""
        try:
            params = _decode(query.params) if query.method == "place" else None
            if not isinstance(params, dict) or "instances" in params:
                return None
            ((request,), (digest,), single) = read_batch(params, query.id)
        except (ValueError, msgspec.DecodeError):
            return None
        special = request.dry_run or request.all_or_nothing or request.machines_max or request.machines_min
        expired = query.deadline and query.deadline < self._clock()
        if not single or special or expired or request.id in self._follower.view.instances:
            return None
        return Asked(query, complete(request, self._learned), digest)

    def _place_run(self, run: Sequence[Asked]) -> None:
        """Place alike queries as a batch and keep their answers; those without one are placed each by itself.

        Their deadlines do not end it: what was reserved by then would be answered as known already.
        """
        requests, digests = [one.request for one in run], [one.digest for one in run]
        try:
            profile = self.profiles.choose(requests[0].profile)
            placement = self._placing.place(requests, self._snapshot, profile, digests=digests)
        except (ProfileError, InvalidRequest, IdTaken, Conflict):
            return
        self._metrics.conflicts.inc(placement.conflicts)
        for position, one in enumerate(run):
            if position in placement.missing:
                continue
            self._answers[one.query.id] = _encode(self._placed(one.query, own(placement, position), single=True))

    def _rank(self, _: Query, params: dict[str, Any]) -> dict[str, Any]:
        request = complete(read_request(params), self._learned)
        profile = self.profiles.choose(request.profile)
        world = (self._snapshot, self._follower.view, profile, self._clock())
        ranking = self._ahead.rank(request, *world)
        if isinstance(ranking, Continued):  # its terms are older than the last placement
            ranking = rank(request, *world)
        return ranking.answer()

    def _place(self, query: Query, params: dict[str, Any]) -> msgspec.Raw:
        requests, digests, single = read_batch(params, query.id)
        requests = [complete(request, self._learned) for request in requests]
        profile = self.profiles.choose(requests[0].profile)
        if other := next((one for one in requests if one.profile != requests[0].profile), None):
            raise InvalidRequest(f"profile: {other.profile!r} in a query that began with {requests[0].profile!r}")
        placement = self._placing.place(requests, self._snapshot, profile, digests=digests, deadline=query.deadline)
        self._metrics.conflicts.inc(placement.conflicts)
        return self._placed(query, placement, single)

    def _placed(self, query: Query, placement: Placement, single: bool) -> msgspec.Raw:
        """Count, put on the log of decisions and answer what was placed."""
        placed = sum(record is not None for record in placement.records)
        self._metrics.placements.labels("placed").inc(placed)
        if placed < len(placement.asked):
            self._metrics.placements.labels("missing").inc(len(placement.asked) - placed)
        result = place_answer(placement, single)
        encoded = _encode(result)
        decided = [one.id for position, one in enumerate(placement.asked) if position not in placement.known]
        if decided and not placement.asked[0].dry_run:
            self._note(query, decided, encoded)
        return msgspec.Raw(encoded)

    def _note(self, query: Query, instance_ids: Iterable[str], encoded: bytes) -> None:
        """Put a decision on the log of decisions, with its terms."""
        if not self._decisions_length:
            return
        ids = "\n".join(instance_ids)  # printable, so none has a line break
        self._pending.append(
            (
                "XADD", self._names.decisions, "MAXLEN", "~", self._decisions_length, "*",
                "ids", ids, "query", query.id, "scorer", self._scorer, "method", query.method,
                "answer", encoded,
            )
        )  # fmt: skip

    # ---- the life of an instance

    def _confirm(self, _: Query, params: dict[str, Any]) -> dict[str, Any]:
        return lifecycle.confirm(self._ledger, self._follower, params)

    def _release(self, _: Query, params: dict[str, Any]) -> dict[str, Any]:
        return lifecycle.release(self._ledger, self._follower, params)

    def _update(self, query: Query, params: dict[str, Any]) -> dict[str, Any]:
        answer = lifecycle.update(self._ledger, self._follower, params, self._snapshot, self.profiles, self._clock())
        if answer.get("moved_from") and not answer["dry_run"]:
            self._note(query, [answer["id"]], _encode(answer))
        return answer

    # ---- what there is

    def _machines(self, _: Query, params: dict[str, Any]) -> dict[str, Any]:
        profile = self.profiles.choose(str(params.get("profile", "")))
        return listing.machines(params, self._snapshot, self._follower.view, profile, self._clock())

    def _instances(self, _: Query, params: dict[str, Any]) -> dict[str, Any]:
        return listing.instances(params, self._follower.view, self._ledger.find)

    def _health(self, _: Query, params: dict[str, Any]) -> dict[str, Any]:
        if params:
            raise InvalidRequest(f"{next(iter(params))}: health takes no parameters")
        snapshot, now_s = self._snapshot, self._clock()
        newest = float(snapshot.seen_at.max()) if len(snapshot) and snapshot.has_data.any() else None
        return {
            "ready": self.ready,
            "scorer": self._scorer,
            "version": self._version,
            "uptime_s": now_s - self._started_at,
            "machines": len(snapshot),
            "machines_with_data": int(snapshot.has_data.sum()) if len(snapshot) else 0,
            "newest_sample_age_s": now_s - newest if newest is not None else None,
            "windows_s": list(snapshot.windows_s),
            "instances": len(self._follower.view),
            "ledger_change": self._follower.change,
            "profiles": sorted(self.profiles.by_name),
            "profile": self.profiles.default,
        }


def read_batch(params: dict[str, Any], query_id: str) -> tuple[list[Request], list[str], bool]:
    """Return the single requests of a query, the digest of each, and whether it asked for just one.

    ``instances`` is a list of unlike requests; what stands beside it holds for each that does not say otherwise.
    An instance without an id gets the query's, so that a query sent twice reserves once.
    """
    if "instances" not in params:
        request = read_request(params)
        request = request if request.id else msgspec.structs.replace(request, id=query_id)
        check_id(request.id)
        requests = batch.expand(request)
        return requests, [request_digest(request)] * len(requests), request.count == 1
    shared = {name: value for name, value in params.items() if name != "instances"}
    for name in shared:
        if name not in _SHARED:
            raise InvalidRequest(f"{name}: does not go together with instances")
    given = params["instances"]
    if not isinstance(given, list) or not 1 <= len(given) <= BATCH_MAX:
        raise InvalidRequest(f"instances: expected a list of 1 to {BATCH_MAX} requests")
    requests, digests = [], []
    for position, one in enumerate(given):
        if not isinstance(one, dict):
            raise InvalidRequest(f"instances[{position}]: expected an object")
        try:
            request = read_request(shared | one)
            check_id(request.id)
        except InvalidRequest as error:
            raise InvalidRequest(f"instances[{position}].{error}") from None
        request = request if request.id else msgspec.structs.replace(request, id=f"{query_id}-{position + 1}")
        digest = request_digest(request)
        expanded = batch.expand(request)
        requests += expanded
        digests += [digest] * len(expanded)
        if len(requests) > BATCH_MAX:
            raise InvalidRequest(f"instances: more than {BATCH_MAX}")
    seen: set[str] = set()
    for request in requests:
        if request.id in seen:
            raise InvalidRequest(f"instances: id {request.id!r} stands there twice")
        seen.add(request.id)
    return requests, digests, False


def check_id(instance_id: str) -> None:
    """Refuse an id that is not printable."""
    if not instance_id.isprintable():
        raise InvalidRequest(f"id: {instance_id!r} holds characters that cannot be printed")


def place_answer(placement: Placement, single: bool) -> dict[str, Any]:
    """Return what `place` answers.

    ``placed`` holds a line for each instance; ``missing`` says how many have no machine and ``reason`` why. With one
    instance its line stands at the top level too, with the ranking's terms; ``machine`` is None when none fits.
    """
    placed = [instance_line(record) for record in placement.records if record is not None]
    ranking = placement.ranking
    result: dict[str, Any] = placement.answer or {"summary": "known already: not ranked again"}
    result |= {
        "placed": placed,
        "asked": len(placement.asked),
        "missing": len(placement.missing),
        "reason": next(iter(placement.missing.values()), ""),
        "repeated": placement.repeated,
        "conflicts": placement.conflicts,
        "dry_run": placement.asked[0].dry_run,
    }
    if placement.missing:
        reasons: dict[str, int] = {}
        for reason in placement.missing.values():
            reasons[reason] = reasons.get(reason, 0) + 1
        result["missing_reasons"] = reasons
        result["missing_ids"] = [placement.asked[position].id for position in sorted(placement.missing)][:1000]
    if single:
        result |= placed[0] if placed else {"id": placement.asked[0].id, "machine": None, "score": None}
        if ranking is not None and placed and placed[0]["machine"] != ranking.chosen:
            row = ranking.machines.roster.index.get(placed[0]["machine"])  # None: known, on a machine that is gone
            result["score"] = None if row is None else float(ranking.total[row])
    else:
        result.pop("score", None)
        result["machine"] = None if not placed else placed[0]["machine"]
    return result


def instance_line(record: Instance) -> dict[str, Any]:
    """Return what an answer says of an instance."""
    line: dict[str, Any] = {"id": record.id, "machine": record.machine, "state": record.state}
    line["reserved_at"] = record.reserved_at
    if record.state == "reserved":
        line["expires_at"] = record.expires_at
    if record.started_at:
        line["started_at"] = record.started_at
    if record.ended_at:
        line["ended_at"] = record.ended_at
    line["version"] = record.version
    return line
