"""Update: changes a confirmed instance in one transition, or moves it in two steps; a move is ranked like a placement.

    begun = client.update("db-1", machine="m2", move=True)        # or machine="": the best one
    ...                                                           # copy it, start it on m2
    client.confirm("db-1", machine="m2", generation=begun["generation"], move=begun["moving"]["number"])

A move in two steps reserves the target, and frees the source when the instance runs on the target. It may change
amounts, limits, expected use and rules, too (`SIZES`): the target holds the new amounts, the
source the old ones, until the confirmation.

Until then the instance is confirmed on its source and holds both machines: its amounts, its ports and its role on both;
its cluster counts it once, and the choice of the target ignores it. ``moving`` of its record has the target, the times
of its begin and its end, and the number of the move. The effect of each step:

| step | the instance | source | target |
|---|---|---|---|
| ``confirm`` with ``machine`` = the target | is on the target | freed by the same script; leaves a debit | held |
| ``ttl_s`` (an hour) is over, or ``update`` with ``cancel_move`` | stays | held | freed |
| ``release`` | has ended | freed | freed |
| ``confirm`` without the target | stays, moving | held | held |
| ``update`` of amounts, ports, role, labels | stays, moving; what grows must have room on both | held | held |
| ``update`` of amounts, when the move changes some | refused | held | held |
| ``update`` to another machine, another move | refused | held | held |
| the same move again, with the same amounts | stays, moving; answered ``repeated`` | held | held |

``generation`` names the reservation of the instance, ``move`` the move: a late ``confirm`` with the number of a move
that ended by itself does not confirm the next one.
"""

import time
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.parameters import Update
from schemas.rpc.request import (
    CHANGEABLE_FIELDS,
    InvalidRequest,
    Quantity,
    Request,
    check_labels,
    check_rules,
    read_amount,
)
from schemas.rpc.results import RankResult, UpdateResult
from scorer.ledger.record.instance import (
    RULES,
    Instance,
    arrival,
    as_fields,
    as_request,
    machines_of,
    rules_of,
    too_large,
    why_not_a_deployers,
    with_arrival,
)
from scorer.ledger.record.limits import Limit, of_growth, one_to_a_port
from scorer.ledger.record.transition import CHANGED, NO_QUERY, Call, Candidate, Change, Transition
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.overlay import Overlay
from scorer.placement.choosing.trial import leading
from scorer.placement.placer import Conflict, expected_change
from scorer.planning.candidates import followers
from scorer.ranking import explain
from scorer.ranking.formulas.selectors import check_selectors
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import check_looked_at, with_rules
from scorer.ranking.rank import limits, rank
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.records import CallError, answer_to, confirmed, other_generation, read_params, with_terms

SIZES = (*RESOURCES, "maxmemory", "limits", "expected", *RULES)
"""The parameters that a move may change: the instance has them on its target."""
_WITH_A_MOVE = {"id", "machine", "move", "ttl_s", "cancel_move", "profile", "generation", "dry_run"}


def changed(old: Instance, asked: Update) -> Instance:
    """Return the record with the requested changes, on its present machine.

    Raises InvalidRequest naming the field.
    """
    amounts = tuple(
        old.amounts[position] if getattr(asked, name) is None else read_amount(name, getattr(asked, name))
        for position, name in enumerate(RESOURCES)
    )
    given: dict[str, Any] = {"amounts": amounts}
    if asked.maxmemory is not None:
        given["maxmemory"] = read_amount("maxmemory", asked.maxmemory)
    for name in CHANGEABLE_FIELDS:
        if getattr(asked, name) is not None:
            given[name] = getattr(asked, name)
    for name in ("limits", "expected"):
        if (by_name := getattr(asked, name)) is not None:
            given[name] = _by_resource(name, by_name)
    if rules := {name: value for name in RULES if (value := getattr(asked, name)) is not None}:
        request = Request(**{**as_fields(old.rules), **rules})
        check_rules(request)
        check_selectors(request)
        given["rules"] = rules_of(request)
    if given.get("role", old.role) != old.role:
        given["swap"] = ()
    new = msgspec.structs.replace(old, **given)
    if large := too_large(new.amounts, new.maxmemory):
        raise InvalidRequest(large)
    return new


def _by_resource(name: str, given: Mapping[str, Quantity]) -> tuple[float, ...]:
    for resource in given:
        if resource not in RESOURCES:
            raise InvalidRequest(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    amounts = tuple(read_amount(f"{name}.{r}", given[r]) if r in given else -1.0 for r in RESOURCES)
    return amounts if given else ()


def exchanged(change: Change, other: Instance, role: str | None) -> list[Change]:
    """Return the changes by which two instances exchange roles; only the first if this call did so before."""
    old, new = change.old, change.new
    if other.cluster != old.cluster or not old.cluster:
        raise CallError("FAILED_PRECONDITION", f"{other.id!r} is not of {old.id!r}'s cluster {old.cluster!r}")
    if other.id == old.id:
        raise InvalidRequest("swap_role_with: is the instance itself")
    pair = (old.id, other.id)
    if old.swap == other.swap == pair if role is None else role == old.role:
        return [change]
    if role not in (None, other.role):
        raise CallError("FAILED_PRECONDITION", f"role: {other.id!r} is {other.role!r}, not {role!r}")
    now_s = round(time.time(), 3)
    anywhere = [Candidate(other.machine, -1)]
    return [
        Change(old, msgspec.structs.replace(new, role=other.role, swap=pair, swapped_at=now_s), change.candidates),
        Change(other, msgspec.structs.replace(other, role=old.role, swap=pair, swapped_at=now_s), anywhere),
    ]


def check_alone(asked: Update) -> None:
    """Raise InvalidRequest for a step of a move with changes that no move can make."""
    if not asked.move and not asked.cancel_move:
        return
    if asked.move and asked.cancel_move:
        raise InvalidRequest("cancel_move: does not go together with move")
    step = "move" if asked.move else "cancel_move"
    for name in Update.__struct_fields__:
        if (
            name in _WITH_A_MOVE
            or getattr(asked, name) is None
            or (name == "swap_role_with" and not asked.swap_role_with)
        ):
            continue
        if asked.cancel_move or name not in SIZES:
            raise InvalidRequest(f"{name}: does not go together with {step}: update it before or after")
        if not asked.machine:
            raise InvalidRequest(f"{name}: goes together with move only when machine says where")


def refuse_size(record: Instance) -> None:
    """Raise CallError for a new size without the start of a move."""
    if record.moving is None:
        raise CallError("FAILED_PRECONDITION", f"{record.id!r} is on {record.machine}: update it without move")
    how = "confirm it there, or update it with cancel_move, first"
    raise CallError("FAILED_PRECONDITION", f"{moving_words(record)} with other amounts or rules: {how}")


def refuse_while_moving(record: Instance) -> None:
    """Raise CallError when the instance is moving, since it cannot move to another machine as well."""
    if record.moving is not None:
        how = f"confirm it with machine {record.moving.to}, or update it with cancel_move, first"
        raise CallError("FAILED_PRECONDITION", f"{moving_words(record)}: {how}")


def moving_words(record: Instance) -> str:
    """Return a sentence with the target of a moving instance, and when the move expires."""
    moving = record.moving
    assert moving is not None
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moving.until))
    return f"{record.id!r} is moving from {record.machine} to {moving.to} until {until}"


ATTEMPTS_MAX = 10
_TARGETS = 8
"""Machines that are given to the script, best first."""


class Updates:
    """Does the method ``update``, on the current inputs.

    Each kind of update is one attempt. It returns the answer, or None when another scorer changed the instance or its
    machines meanwhile, and is then repeated.
    """

    def __init__(self, current: Current, ledger: Ledger) -> None:
        self._current = current
        self._ledger = ledger
        self._follower = current.follower

    def update(self, params: dict[str, Any], call: Call = NO_QUERY) -> UpdateResult:
        """Move, resize or change the role of a confirmed instance; begin or cancel a move.

        A move and a growth are checked like a placement; a change of role is a fact and is not refused. The answer to a
        move has the terms of the ranking that chose the machine, as that of `place`.
        """
        asked: Update = read_params(Update, params)
        check_labels(asked.labels or {})
        check_alone(asked)
        if acted := self._ledger.acted("update", asked.id, call):
            attempt = self._unchanged  # it is not done again, even if the instance has changed since
        elif asked.move:
            attempt = self._begin_move
        else:
            attempt = self._cancel_move if asked.cancel_move else self._change
        for _ in range(ATTEMPTS_MAX):
            old = confirmed(self._ledger, self._follower, asked.id)
            if not acted and asked.generation is not None and old.generation != asked.generation:
                raise CallError("FAILED_PRECONDITION", other_generation(old))
            if asked.labels is not None and (why := why_not_a_deployers("", old.labels | asked.labels)):
                raise InvalidRequest(why)
            if (answer := attempt(old, asked, call)) is not None:
                return answer
        raise Conflict(f"{asked.id!r} was changed by others {ATTEMPTS_MAX} times")

    def _change(self, old: Instance, asked: Update, call: Call) -> UpdateResult | None:
        other = confirmed(self._ledger, self._follower, asked.swap_role_with) if asked.swap_role_with else None
        new, expected, terms = changed(old, asked), -1, None
        if old.moving is not None and old.moving.new is not None and arrival(old) != arrival(new):
            refuse_size(old)
        if asked.machine is None or asked.machine == old.machine:
            held = machines_of(old)
            candidates = [Candidate(at, -1, self._limits_of_growth(old, new, at, asked.profile)) for at in held]
        else:
            refuse_while_moving(old)
            expected = self._expected(new, asked.profile)
            candidates, terms = self._targets(old, new, asked, other)
        change = Change(old, new, candidates)
        changes = [change] if other is None else exchanged(change, other, asked.role)
        if all(one.candidates[0].machine == one.old.machine and one.old == one.new for one in changes):
            changes = [Change(old, old, [])]
        transition = self._ledger.update(
            changes, generation=asked.generation, expected_change=expected, call=call, dry_run=asked.dry_run
        )
        answer = self._answer(transition, asked)
        if answer is None or terms is None or answer.repeated or answer.machine == old.machine:
            return answer
        return with_terms(answer, terms, old.machine)

    def _begin_move(self, old: Instance, asked: Update, call: Call) -> UpdateResult | None:
        if old.moving is not None and asked.machine not in (None, "", old.moving.to):
            refuse_while_moving(old)
        there = with_arrival(old)
        new = changed(there, asked)
        if old.moving is not None or asked.machine == old.machine:
            if new != there:
                refuse_size(old)
            return self._unchanged(old, asked, call)
        expected = self._expected(new, asked.profile)
        candidates, terms = self._targets(old, new, asked)
        better = list(takewhile(lambda one: one.machine != old.machine, candidates))
        if not better:
            return self._unchanged(old, asked, call)
        transition = self._ledger.begin_move(
            old, better, asked.ttl_s, new=None if new == old else new, generation=asked.generation,
            expected_change=expected, call=call, dry_run=asked.dry_run,
        )  # fmt: skip
        answer = self._answer(transition, asked)
        return None if answer is None else with_terms(answer, terms)

    def _cancel_move(self, old: Instance, asked: Update, call: Call) -> UpdateResult | None:
        """Free the target of a move; an instance that is not moving stays unchanged, with the answer ``repeated``."""
        if old.moving is not None and asked.machine not in (None, "", old.moving.to):
            raise CallError("FAILED_PRECONDITION", f"{moving_words(old)}, not to {asked.machine}")
        transition = self._ledger.cancel_move(old, generation=asked.generation, call=call, dry_run=asked.dry_run)
        return self._answer(transition, asked)

    def _unchanged(self, old: Instance, asked: Update, call: Call) -> UpdateResult | None:
        """Answer ``repeated``, unless the instance has ended."""
        transition = self._ledger.update(
            [Change(old, old, [])], generation=asked.generation, call=call, dry_run=asked.dry_run
        )
        return self._answer(transition, asked)

    def _answer(self, transition: Transition, asked: Update) -> UpdateResult | None:
        """Return the answer to an attempt; None when it must be repeated."""
        self._follower.absorb(transition)
        kind, reasons = transition.outcomes[0].kind, transition.outcomes[0].reasons
        if kind in ("stale", "moving") or (kind == "conflict" and CHANGED in reasons):
            return None
        if kind == "conflict":
            done, reason = "moved" if asked.move else "updated", ", ".join(dict.fromkeys(reasons))
            raise CallError("RESOURCE_EXHAUSTED", f"{asked.id!r} cannot be {done}: {reason}")
        step = "move" if asked.move else "cancel a move of" if asked.cancel_move else "update"
        return answer_to(UpdateResult, transition, asked.id, step, asked.dry_run)

    def _expected(self, new: Instance, profile: str) -> int:
        """Return the ledger's change that must still be the last one, by the rules of the instance and the profile."""
        request = with_rules(self._current.profiles.choose(profile).rules, as_request(new))
        return expected_change(self._follower.change, request, self._follower.view)

    def _limits_of_growth(self, old: Instance, new: Instance, machine: str, profile: str) -> tuple[Limit, ...]:
        """Return the limits on the growing amounts, on a machine that the instance holds."""
        grows = any((b or 0.0) > (a or 0.0) for a, b in zip(old.amounts, new.amounts, strict=True))
        if not grows and new.maxmemory <= old.maxmemory:
            return of_growth(one_to_a_port(new.ports), old, new)
        row = self._current.snapshot.roster.index.get(machine)
        if row is None:
            raise CallError("RESOURCE_EXHAUSTED", f"machine {machine!r} is not known: its limits cannot be checked")
        request = as_request(new, machine)
        ranking = rank(request, self._ranking(profile))
        return of_growth(limits(ranking, [row], request)[0], old, new)

    def _targets(
        self, old: Instance, new: Instance, asked: Update, other: Instance | None = None
    ) -> tuple[list[Candidate], RankResult]:
        """Return the machines that an instance may move to, best first, and the explained ranking.

        The ranking ignores the instance itself. If its machine is cordoned it also ignores instances there that it must
        be near, since they follow it. ``other``: the instance whose role it may arrive with. Raises CallError when
        there is no machine.
        """
        request = as_request(new, asked.machine or "")
        inputs = self._ranking(asked.profile)
        check_looked_at([request], inputs.profile)
        group = [old, *followers(old, inputs)]
        overlay = Overlay(inputs.ledger, without=[one.id for one in group])
        request = leading(request, group, overlay) if group[1:] else request
        ranking = rank(request, inputs.on(overlay))
        rows = [int(row) for row in ranking.best(_TARGETS)]
        terms = explain.answer(ranking)
        candidates = []
        for row in rows:
            name = ranking.machines.name(row)
            if asked.machine and name != asked.machine:
                continue
            (allowed,) = limits(ranking, [row], request)
            if other is not None:
                allowed += limits(ranking, [row], msgspec.structs.replace(request, role=other.role))[0]
            candidates.append(Candidate(name, self._follower.version(name), allowed))
        if not candidates:
            why = "none of that name fits" if rows else terms.summary
            raise CallError("RESOURCE_EXHAUSTED", f"no machine for {old.id!r}: {why}")
        return candidates, terms

    def _ranking(self, profile: str) -> RankingInputs:
        return self._current.ranking(self._current.profiles.choose(profile))
