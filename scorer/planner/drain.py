"""``drain``: the targets of all instances of some machines; with ``apply``, cordoned machines and reserved targets.

``apply`` cordons once the plan is made, then reserves one target after the other, as ``update`` with ``move`` does:
checked again, once a query, not after its deadline. Where the deadline passes before the last one, the others stay
reserved for ``ttl_s``, and a repeated drain continues: it tells them as moving. Each move is put on the list from which
movers take it as it begins. A process that is killed between the two leaves one reserved for ``ttl_s``, or until it is
confirmed or cancelled: a move that a person began looks the same, and no mover may take that one.

With the cordon it writes how the machines are emptied (`schemas.messages.operator.Draining`). By these settings a
planner repeats the query, with ``again``, until they are uncordoned (`Drainer`):

    every 30 s: which machines do operators' rules say are drained, and which of them hold instances?
                -> take the lease `drain` -> a query `drain` for each way of draining, with ``again``

So a mover alone empties a machine: an instance without a target, or whose move was refused, failed or expired, gets
one later.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from schemas.messages.operator import DEFAULT, drained
from schemas.messages.proposal import LOST, begun_move, write_proposal
from schemas.rpc.envelope import Query
from schemas.rpc.parameters import Drain
from schemas.rpc.request import Draining, InvalidRequest
from schemas.rpc.results import DrainLine, DrainResult, UpdateResult
from schemas.values.read_json import read_as
from scorer.ledger.store.check import instances_on
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.placement.placer import Conflict
from scorer.planner.settings import PlannerSettings
from scorer.planning.drain.consolidate import consolidate
from scorer.planning.drain.drain import drain as plan_of
from scorer.ranking.inputs import InputsOf, RankingInputs
from scorer.rpc.methods.records import CallError, read_object, read_params
from scorer.rpc.operator_rules import OperatorRules, facts_of, machines_meant, take_off, write_cordon
from scorer.wire import Wire

SILENT_S = 60.0
"""A machine that sent data since is not taken for lost, s."""

Update = Callable[[dict[str, Any], Query], UpdateResult]
"""The method ``update``, with its parameters, for a query."""


def read_drain(params: dict[str, Any]) -> Drain:
    """Return the parameters; raises InvalidRequest."""
    asked: Drain = read_params(Drain, params)
    if DEFAULT in asked.machines:
        raise InvalidRequest(f"machines: {DEFAULT!r} would drain every machine; name them")
    if asked.consolidate and (asked.machines or asked.selector):
        raise InvalidRequest("consolidate: chooses the machines itself; goes without machines and selector")
    if asked.consolidate and asked.lost:
        raise InvalidRequest("lost: names machines that are dead; goes without consolidate")
    if asked.apply and asked.profile_text:
        raise InvalidRequest("profile_text: with apply give the name of a profile")
    return asked


def planned_drain(asked: Drain, inputs: RankingInputs, rules: OperatorRules | None = None) -> DrainResult:
    """Return the plan for the machines; with ``rules`` only for those that operators' rules drain now."""
    if asked.consolidate:
        return consolidate(asked.consolidate, inputs, same=asked.same, force=asked.force)
    machines = machines_meant(asked.machines, asked.selector, inputs.snapshot, ahead=asked.again)
    if rules is not None:
        machines = rules.drained(machines)
    if asked.lost:
        machines = _silent(machines, inputs, again=asked.again)
    return plan_of(machines, inputs, same=asked.same, force=asked.force, lost=asked.lost)


def _silent(machines: Sequence[str], inputs: RankingInputs, *, again: bool) -> list[str]:
    """Return the machines that send no data; raises InvalidRequest for others, or skips them with ``again``.

    Where a worker of the stream app is late, its machines seem silent. So none is known to be dead then.
    """
    places, seen_at = inputs.snapshot.roster.index, inputs.snapshot.seen_at
    pipeline = inputs.snapshot.pipeline
    if pipeline.caught_up and not pipeline.is_up(inputs.now_s, SILENT_S):
        if again:
            return []
        raise InvalidRequest(
            f"lost: the stream app has not read all samples of the last {SILENT_S:g} s, so machines that live seem "
            "silent; wait until it has (`windward doctor`)"
        )
    if inputs.now_s - inputs.snapshot.newest_at >= SILENT_S:
        if again:
            return []
        raise InvalidRequest("lost: no machine sends data, so none is known to be dead; look at broker and stream app")
    alive = [one for one in machines if one in places and inputs.now_s - seen_at[places[one]] < SILENT_S]
    if alive and not again:
        raise InvalidRequest(
            f"lost: {alive[0]} sent data within the last {SILENT_S:g} s; a dead machine sends none. Stop it, or drain "
            "it without lost"
        )
    return [one for one in machines if one not in alive]


def drain(
    query: Query, inputs_of: InputsOf, rules: OperatorRules, update: Update, cordon: Callable[[Sequence[str]], None]
) -> DrainResult:
    """Return the plan; with ``apply`` also the outcomes of its moves. ``cordon``: does so in what ``update`` reads."""
    asked = read_drain(read_object(query))
    if asked.apply and (answered := rules.answered(query)) is not None:
        return read_as(answered, DrainResult)
    inputs = inputs_of(asked.profile, asked.profile_text)
    planned = planned_drain(asked, inputs, rules if asked.again else None)
    if not asked.apply:
        return planned
    if planned.drained and not asked.again:
        how = Draining(
            ttl_s=asked.ttl_s, profile=asked.profile, same=asked.same, force=asked.force or asked.lost, lost=asked.lost
        )
        step = msgspec.structs.replace(query, method="cordon")
        write_cordon(step, planned.drained, rules, facts_of(drain=how))
        cordon(planned.drained)
    moves: list[DrainLine] = []
    if planned.moves:
        take_off(rules.wire, rules.names, {one.id for one in planned.moves}, inputs.now_s, proposed=True)
    for one in planned.moves:
        moves.append(begun := _begun(one, asked, query, update))
        if begun.target is not None:
            named, now_s = (begun.id, begun.generation, begun.source, begun.target), inputs.now_s
            why = LOST if asked.lost else "drain"
            message = begun_move(*named, begun.until or now_s, begun.move or 0, now_s, why)
            rules.wire.one("LPUSH", rules.names.moves_waiting, write_proposal(message))
    result = msgspec.structs.replace(
        planned,
        cordoned=True,
        moves=[one for one in moves if one.target is not None],
        blocked=[*planned.blocked, *(one for one in moves if one.target is None)],
    )
    rules.keep(query, msgspec.json.encode(result), inputs.now_s)
    return result


def _begun(planned: DrainLine, asked: Drain, query: Query, update: Update) -> DrainLine:
    """Begin a move; an instance whose move is refused stays, with the reason. Raises CallError past the deadline."""
    wanted = {"machine": planned.target, "generation": planned.generation, "ttl_s": asked.ttl_s}
    try:
        answer = update({"id": planned.id, "move": True, "profile": asked.profile, **wanted}, query)
    except CallError as refused:
        if refused.error.code == "DEADLINE_EXCEEDED":
            raise
        return _staying(planned, refused.error.message)
    except Conflict as conflict:
        return _staying(planned, str(conflict))
    moving = answer.moving
    if moving is None or moving.to != planned.target:
        return _staying(planned, f"{planned.id} is on {answer.machine} and does not move to {planned.target}")
    return msgspec.structs.replace(planned, until=moving.until, move=moving.number)


def _staying(planned: DrainLine, why: str) -> DrainLine:
    return msgspec.structs.replace(planned, target=None, reason=why)


_DEADLINE_S = 60.0


class Drainer:
    """Finds drains that are due; ``wire``: to the server of operators' rules."""

    def __init__(self, ledger: Ledger, wire: Wire, settings: PlannerSettings) -> None:
        self._ledger, self._wire, self._names = ledger, wire, settings.names
        self._lease = Lease(ledger, "drain", settings.holder, 2 * settings.drain_s)

    def due(self, now_s: float) -> list[Query]:
        """Return the queries for drains that are due; none while another planner holds the lease."""
        entries: list[bytes] = self._wire.one("HGETALL", self._names.operator)
        rules = dict(zip(entries[::2], entries[1::2], strict=True))
        of_all = rules.get(DEFAULT.encode())
        found = defaultdict[Draining, list[str]](list)
        for name, raw in rules.items():
            if b'"drain"' in raw and name != DEFAULT.encode() and (how := drained(raw, of_all)) is not None:
                found[how].append(name.decode(errors="replace"))
        held = instances_on(self._ledger, [name for names in found.values() for name in names]) if found else {}
        asked = [(how, [name for name in names if name in held]) for how, names in found.items()]
        asked = [(how, names) for how, names in asked if names]
        if not asked or self._lease.take() is None:
            return []
        return [
            Query(
                id=f"drain-{now_s:.3f}-{number}",
                method="drain",
                deadline=now_s + _DEADLINE_S,
                params=msgspec.Raw(msgspec.json.encode(
                    {"machines": machines, "apply": True, "again": True, **msgspec.structs.asdict(how)}
                )),
            )
            for number, (how, machines) in enumerate(asked)
        ]  # fmt: skip
