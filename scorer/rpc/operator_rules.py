"""Shell: a scorer or a planner writes operators' rules for a query: once, and never after the query's deadline.

`cordon` answers the methods ``cordon`` and ``uncordon``.

The script of `write_rules.lua` compares the deadline with the server's clock, so that a process that was frozen with a
query in its hand writes nothing when it wakes. The answer is kept until the deadline has passed: the same query gets it
again. Commands write the same entries in a transaction of their own (`scorer.commands.machines.operator_facts`).
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from schemas.messages.operator import DEFAULT, drained, stored, without_empty
from schemas.messages.proposal import READ_MAX, MoveProposal, replaced, write_proposal
from schemas.names import Names
from schemas.rpc.envelope import Query
from schemas.rpc.parameters import Cordon
from schemas.rpc.request import Draining, InvalidRequest
from schemas.rpc.results import CordonResult
from schemas.values.read_json import read_json
from scorer.planning.which_machines import NoMachine, meant
from scorer.rpc.methods.records import CallError, read_object, read_params
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import Wire

_SCRIPT = Path(__file__).with_name("write_rules.lua").read_text()
_KEPT_S = 60
"""How much longer than its deadline the answer to a query is kept."""
TRIES = 20
Entries = dict[str, dict[str, Any]]
"""Operators' rules by machine."""


class OperatorRules:
    """The entries of one prefix."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self.wire, self.names = wire, names

    def answered(self, query: Query) -> bytes | None:
        """Return the answer that this query got when it acted; None when it has not acted."""
        found: bytes | None = self.wire.one("GET", self.names.acted(query.method, query.id))
        return found

    def keep(self, query: Query, answer: bytes, now_s: float) -> None:
        """Store the answer of a query that has acted in several steps, for a repetition of the query."""
        kept_s = max(1, math.ceil(query.deadline - now_s)) + _KEPT_S
        self.wire.one("SET", self.names.acted(query.method, query.id), answer, "EX", kept_s)

    def read(self, machines: Sequence[str]) -> list[bytes]:
        """Return the stored entries; b"" for a missing one."""
        found = self.wire.one("HMGET", self.names.operator, *machines) if machines else []
        return [raw or b"" for raw in found]

    def drained(self, machines: Sequence[str]) -> list[str]:
        """Return those of these machines that are being drained."""
        of_all, *own = self.read([DEFAULT, *machines])
        return [name for name, raw in zip(machines, own, strict=True) if drained(raw, of_all) is not None]

    def change(
        self, query: Query, machines: Sequence[str], facts: Mapping[str, Any], answer: Callable[[Entries], bytes],
        *, dry_run: bool = False,
    ) -> bytes:  # fmt: skip
        """Merge ``facts`` into the entries of some machines; return the query's answer, made from the new entries.

        Raises CallError: the deadline has passed, or others changed the same entries at each attempt.
        """
        for _ in range(TRIES):
            before = self.read(machines)
            after = {
                name: without_empty(read_json(raw or b"{}") | facts) for name, raw in zip(machines, before, strict=True)
            }
            said = answer(after)
            if dry_run:
                return said
            entries = [
                part
                for (name, entry), raw in zip(after.items(), before, strict=True)
                for part in (name, raw, stored(entry) or b"")
            ]
            names = self.names
            kind, *kept = self.wire.one(
                "EVAL", _SCRIPT, 3, names.operator, names.operator_version,
                names.acted(query.method, query.id),
                repr(query.deadline), _KEPT_S, names.changed, said, *entries,
            )  # fmt: skip
            if kind == b"late":
                message = "the deadline passed before the rules were written; nothing was changed"
                raise CallError("DEADLINE_EXCEEDED", message, retryable=True)
            if kind != b"changed":
                return kept[0] if kept else said
        raise CallError("UNAVAILABLE", f"{machines[0]}: changed by others {TRIES} times in a row", retryable=True)


def announce(wire: Wire, names: Names, moves: Sequence[MoveProposal], now_s: float) -> None:
    """Put moves that were begun, and exchanges of roles, on the lists from which movers take them, in their order.

    A planner's waiting proposals for the same instances are removed: two movers would run one move. Written without a
    script, one message at a time: a message that is announced twice is one move, since its second ``update`` or its
    confirmation is refused.
    """
    if moves:
        take_off(wire, names, {one.instance for one in moves}, now_s, proposed=True)
    for move in moves:
        wire.one("LPUSH", names.moves_roles if move.kind == "role" else names.moves_waiting, write_proposal(move))


def take_off(wire: Wire, names: Names, instances: Collection[str], now_s: float, *, proposed: bool = False) -> None:
    """Remove the commands' messages on these instances from the lists, and all expired messages of commands.

    ``proposed``: also a planner's waiting proposals for these instances.
    """
    for key in (names.moves_waiting, names.moves_roles, names.moves_taken):
        found = wire.one("LRANGE", key, -READ_MAX, -1)
        for raw in replaced(found, instances, now_s, waiting=proposed and key != names.moves_taken):
            wire.one("LREM", key, 0, raw)


_decode = msgspec.json.Decoder(CordonResult).decode


def cordon(query: Query, snapshot: Snapshot, rules: OperatorRules, *, off: bool) -> CordonResult:
    """Cordon machines, or uncordon them; return their operators' rules after that.

    The machines are those of the scorer's snapshot, which is up to a second old.
    """
    asked: Cordon = read_params(Cordon, read_object(query))
    if not asked.dry_run and (answered := rules.answered(query)) is not None:
        return _decode(answered)
    machines = machines_meant(asked.machines, asked.selector, snapshot, ahead=asked.ahead)
    drain = None if off else asked.drain
    return _decode(write_cordon(query, machines, rules, facts_of(off=off, drain=drain), dry_run=asked.dry_run))


def facts_of(*, off: bool = False, drain: Draining | None = None) -> Mapping[str, Any]:
    """Return the facts of cordoned machines, or of uncordoned ones; ``drain``: planners empty them from now on.

    Uncordoning ends a drain.
    """
    facts: dict[str, Any] = {"cordon": not off}
    if off or drain is not None:
        facts["drain"] = None if drain is None else msgspec.to_builtins(drain)
    return facts


def write_cordon(
    query: Query, machines: Sequence[str], rules: OperatorRules, facts: Mapping[str, Any], *, dry_run: bool = False
) -> bytes:
    """Write the `facts_of` these machines; return the result as JSON. Raises CallError."""
    told = partial(CordonResult, dry_run=dry_run)
    return rules.change(query, machines, facts, lambda after: msgspec.json.encode(told(rules=after)), dry_run=dry_run)


def machines_meant(given: Sequence[str], selector: str, snapshot: Snapshot, *, ahead: bool = False) -> list[str]:
    """Return the machines of the snapshot that names, globs and a selector choose; at least one."""
    if not given and not selector:
        raise InvalidRequest("machines: give names, globs or a selector")
    known: dict[str, Mapping[str, str]] = {name: {} for name in snapshot.names}
    if selector:
        known.update((name, snapshot.rules.labels(row)) for row, name in enumerate(snapshot.names))
    try:
        return meant(given, selector, known, ahead=ahead)
    except NoMachine as error:
        raise CallError("NOT_FOUND", str(error)) from None
