"""Carries out the steps of a plan through a scorer; a stated rule says what follows a refusal.

| rule | after a refused step | used by |
|---|---|---|
| STOP | no other is tried | ``plan --apply``: run again, it does the rest; ``drain --undo`` |
| GO_ON | the others are tried | `undo`: each step counts for itself |
| DROP_DEPENDENTS | those that depend on it are dropped, the others are tried | ``rebalance --apply`` |

A step depends on another one that was to leave its target, where it would have made room. It also depends on a failed
move to its own source, where that move would have added load. Without an answer a step may have been carried out; then
no other is tried, except under GO_ON. The outcomes are yielded one by one: a caller stops iterating to cancel the rest.

| action | calls |
|---|---|
| place | ``place``, up to `PLACED_AT_ONCE` instances in one call |
| move | ``update`` with ``move``: the target is reserved, the instance holds both until it is confirmed there |
| change, update | ``update`` |
| release | ``release`` |
| cancel | ``update`` with ``cancel_move`` |
| restore | ``place`` where the instance was, and ``confirm`` with the time since which it runs |

A step names the generation that it was planned for: an instance that was replaced meanwhile is not touched. A move
reserves amounts and rules with its target. Ports, role and labels change at once (`NOT_MOVED`), after that.

`announce` puts moves whose targets are reserved, and exchanges of roles, on the lists from which a mover takes them
(`schemas.messages.proposal`). A message of a command has the fence `COMMANDS`, above any lease's number: no planner
overtakes it, and a mover that compares fences carries it out. The target is reserved already, so the mover's own
``update`` is the same move again. The message ends when the move does.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from typing import Any, Literal, TypeVar

import msgspec
import redis

from schemas.messages.proposal import begun_move, exchange_of_roles
from schemas.process.redis_url import in_words
from schemas.process.tables import readable
from schemas.rpc.request import Request
from schemas.rpc.results import PlanStep
from scorer.client import Client, Moving, WindwardError
from scorer.ledger.record.instance import as_request, of_builtins
from scorer.planning.wanted.wanted import NOT_MOVED, Action, restoring, step
from scorer.rpc import operator_rules
from scorer.settings import ClientSettings
from scorer.wire import AWAY, Wire

_Answer = TypeVar("_Answer")

PLACED_AT_ONCE = 500
"""Instances in one call: a scorer answers other queries between two calls."""
_NO_ANSWER = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_UNKNOWN = (*_NO_ANSWER, "INTERNAL")
"""Codes after which it is unknown whether a step was carried out."""
_GONE = ("NOT_FOUND", "FAILED_PRECONDITION")
"""Codes of a release whose reservation no longer exists."""


class OnRefusal(Enum):
    STOP = "stop"
    GO_ON = "go on"
    DROP_DEPENDENTS = "drop dependents"


@dataclass(frozen=True)
class Outcome:
    """What became of a step."""

    position: int
    """In the steps that were given."""
    step: PlanStep
    state: Literal["done", "refused", "unanswered", "dropped", "not tried"] = "done"
    machine: str | None = None
    """Where the instance is now, or moves to; None: nowhere."""
    generation: int = 0
    """The generation of a new instance."""
    until: float | None = None
    """Until when a new instance is reserved, epoch s."""
    moving: Moving | None = None
    """The move that was begun; None also where the instance is on its target already."""
    error: WindwardError | None = None
    """The refusal; for a step that was not tried the one that ended the run."""
    cause: PlanStep | None = None
    """The step on which a dropped step depends."""
    begun: bool = False
    """Whether a first part of it was carried out before the refusal."""

    @property
    def failed(self) -> bool:
        """Whether the step was tried and has failed."""
        return self.state in ("refused", "unanswered")

    @property
    def in_effect(self) -> bool:
        """Whether the step took effect, in part or possibly; a new instance without an answer did not."""
        unknown = self.failed and self.error is not None and self.error.code in _UNKNOWN
        return self.state == "done" or self.begun or (unknown and self.step.action != "place")

    def after(self, error: WindwardError) -> "Outcome":
        """Return this outcome with a failure of the next call."""
        state: Literal["refused", "unanswered"] = "unanswered" if error.code in _NO_ANSWER else "refused"
        return replace(self, state=state, error=error)


def carry_out(steps: Sequence[PlanStep], calls: "Calls", on_refusal: OnRefusal) -> Iterator[Outcome]:
    """Carry out the steps in their order; yield the outcome of each, except of steps that the plan itself refuses.

    The outcomes of one call of ``place`` come with the placed instances first.
    """
    ended: WindwardError | None = None
    undone: list[PlanStep] = []
    for group in _groups(steps):
        ready = []
        for one in group:
            if ended is not None:
                yield replace(one, state="not tried", error=ended)
            elif on_refusal is OnRefusal.DROP_DEPENDENTS and (cause := _depends(one.step, undone)):
                undone.append(one.step)
                yield replace(one, state="dropped", cause=cause)
            else:
                ready.append(one)
        for outcome in calls.make(ready) if ready else ():
            if ended is not None:
                yield replace(outcome, state="not tried", error=ended)
                continue
            if outcome.failed:
                undone.append(outcome.step)
                silent = outcome.state == "unanswered" and on_refusal is not OnRefusal.GO_ON
                ended = outcome.error if silent or on_refusal is OnRefusal.STOP else None
            yield outcome


def _groups(steps: Sequence[PlanStep]) -> Iterator[list[Outcome]]:
    """Yield the steps, by call: up to `PLACED_AT_ONCE` new instances together, any other alone."""
    ready = [Outcome(position, step) for position, step in enumerate(steps) if step.action != "refuse"]
    for is_new, group in groupby(ready, lambda one: one.step.action == "place"):
        some, size = list(group), PLACED_AT_ONCE if is_new else 1
        yield from (some[first : first + size] for first in range(0, len(some), size))


def _depends(step: PlanStep, undone: Sequence[PlanStep]) -> PlanStep | None:
    """Return the first failed step on which this one depends."""
    for other in undone:
        if step.target is not None and other.source == step.target:
            return other
        if step.source is not None and other.target == step.source:
            return other
    return None


@dataclass(frozen=True)
class Calls:
    scorer: Client
    profile: str = ""
    """The profile by which targets are checked; "": the scorer's own."""
    ttl_s: float | None = None
    """How long new instances and the targets of moves are held; None: the request's, or the scorer's default."""
    all_or_nothing: bool = False
    """The new instances of one call are reserved all or none."""
    tries: int = 1
    """The number of attempts of a call that conflicts with other callers; no call acts twice."""
    requests: Mapping[str, Request] = field(default_factory=dict)
    """Those of the instances to place, by id."""

    def make(self, group: Sequence[Outcome]) -> Iterator[Outcome]:
        """Yield the outcomes of one or several new instances, or of one other step."""
        if group[0].step.action == "place":
            yield from self._place(group)
            return
        made = [*group]
        try:
            for outcome in self._one(made[0]):
                made.append(outcome)
        except WindwardError as error:
            yield replace(made[-1].after(error), begun=len(made) > 1)
        else:
            yield made[-1]

    def _place(self, group: Sequence[Outcome]) -> Iterator[Outcome]:
        held: dict[str, Any] = {} if self.ttl_s is None else {"ttl_s": self.ttl_s}
        instances = [msgspec.to_builtins(self.requests[one.step.id]) | held for one in group]
        together: dict[str, Any] = {"all_or_nothing": True} if self.all_or_nothing else {}
        try:
            answer = self._call(self.scorer.place, instances=instances, **self._by, **together)
        except WindwardError as error:
            yield from (one.after(error) for one in group)
            return
        placed = {one.id: one for one in answer.placed}
        for one in group:
            if line := placed.get(one.step.id):
                yield replace(one, machine=line.machine, generation=line.generation, until=line.expires_at)
        missing = WindwardError("RESOURCE_EXHAUSTED", f"{answer.missing} find no machine: {answer.reason}")
        yield from (one.after(missing) for one in group if one.step.id not in placed)

    def _one(self, outcome: Outcome) -> Iterator[Outcome]:
        """Make the calls of a step; yield its outcome after each."""
        step = outcome.step
        own = {"generation": step.generation} if step.generation else {}
        later = step.changes
        if step.action == "release":
            self._call(self.scorer.release, step.id, **own)
            yield outcome
        elif step.action == "restore":
            old = of_builtins(step.record or {})
            self._call(self.scorer.place, **msgspec.to_builtins(as_request(old, old.machine)), **self._by)
            self._call(self.scorer.confirm, step.id, machine=old.machine, started_at=old.started_at)
            yield replace(outcome, machine=old.machine)
        elif step.action == "cancel":
            yield replace(outcome, machine=self._call(self.scorer.update, step.id, **own, cancel_move=True).machine)
        elif step.action == "move":
            later = {name: value for name, value in step.changes.items() if name in NOT_MOVED}
            outcome = replace(outcome, machine=step.target, moving=self._begin(step, own))
            yield outcome
        if later:
            answer = self._call(self.scorer.update, step.id, **own, **self._by, **later)
            yield replace(outcome, machine=outcome.machine or answer.machine)

    def _begin(self, step: PlanStep, own: dict[str, Any]) -> Moving | None:
        with_it = {name: value for name, value in step.changes.items() if name not in NOT_MOVED}
        held: dict[str, Any] = {} if self.ttl_s is None else {"ttl_s": self.ttl_s}
        answer = self._call(
            self.scorer.update, step.id, **own, **self._by, **with_it, **held, machine=step.target, move=True
        )
        if step.target not in (answer.machine, answer.moving.to if answer.moving else None):
            raise WindwardError("FAILED_PRECONDITION", f"{step.id} is on {answer.machine} and does not move")
        return answer.moving

    def _call(self, method: Callable[..., _Answer], *given: str, **params: Any) -> _Answer:
        for left in reversed(range(self.tries)):
            try:
                return method(*given, **params)
            except WindwardError as error:
                if not (left and error.retryable and error.code == "UNAVAILABLE"):
                    raise
        raise AssertionError("the last try returns or raises")

    @property
    def _by(self) -> dict[str, Any]:
        return {"profile": self.profile} if self.profile else {}


def undo(outcomes: Sequence[Outcome], calls: Calls) -> dict[int, WindwardError]:
    """Undo the steps that are in effect, the last one first; return by position why a step is not undone.

    | step | undone by |
    |---|---|
    | place | release of that generation |
    | move | cancel; ports, role and labels as they were |
    | change, update | update to the amounts and rules that the instance had |
    | release | restore |

    Other instances may take room that a step freed: then the ledger refuses to undo it. Each call may be made again: a
    step that is undone already stays so.
    """
    made = [one for one in reversed(outcomes) if one.in_effect]
    left: dict[int, WindwardError] = {}
    for one, back in zip(made, carry_out([*map(_way_back, made)], calls, OnRefusal.GO_ON), strict=True):
        has_ended = one.step.action == "place" and back.error is not None and back.error.code in _GONE
        if back.error is not None and not has_ended:
            left[one.position] = back.error
    return left


def _way_back(outcome: Outcome) -> PlanStep:
    done = outcome.step
    if done.action == "place":
        return step("release", done.id, generation=outcome.generation)
    if done.action == "release":
        return step("restore", done.id, record=done.record)
    moved = done.action == "move"
    named = [name for name in done.changes if not moved or name in NOT_MOVED]
    back: Action = "cancel" if moved else "update" if done.action == "update" else "change"
    changes = restoring(of_builtins(done.record or {}), named)
    return step(back, done.id, generation=done.generation, changes=changes)


def announce(
    settings: ClientSettings, moves: Sequence[tuple[PlanStep, Moving]], why: str,
    roles: Sequence[Mapping[str, Any]] = (), lasts_s: float = 0.0,
) -> bool:  # fmt: skip
    """Put the moves on the list, in their order; return whether this worked, with the reason on stderr if not.

    They stay reserved then, and can be confirmed by hand. ``roles``: steps of a plan that exchange roles, which stay on
    the list of these for ``lasts_s``.
    """
    now_s = time.time()
    messages = [
        begun_move(step.id, step.generation, step.source or "", moving.to, moving.until, moving.number, now_s, why)
        for step, moving in moves
    ]
    for one in roles:
        named = (one["id"], one["generation"], one["source"], one["swap_role_with"], one["role"])
        messages.append(exchange_of_roles(*named, now_s + lasts_s, now_s, why))
    if not messages:
        return False
    try:
        with closing(Wire(settings.redis_arguments())) as wire:
            operator_rules.announce(wire, settings.names, messages, now_s)
    except (*AWAY, redis.ResponseError) as error:
        sys.stderr.write(f"the targets are reserved, but the moves are not on the list: {readable(in_words(error))}\n")
        return False
    return True
