"""``cordon`` and ``uncordon``: operators' rules written by a scorer, for programs that are no command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from schemas.rpc.envelope import Query
from schemas.rpc.parameters import Cordon
from schemas.rpc.request import Draining, InvalidRequest
from schemas.rpc.results import CordonResult
from scorer.planning.which_machines import NoMachine, meant
from scorer.rpc.methods.errors import CallError
from scorer.rpc.methods.parameters import read_object, read_params
from scorer.rpc.operators.operator_rules import Entries, LateRules, OperatorRules, RulesChanged
from scorer.snapshot.snapshot import Snapshot

_decode = msgspec.json.Decoder(CordonResult).decode


def cordon(query: Query, snapshot: Snapshot, rules: OperatorRules, *, off: bool) -> CordonResult:
    """Cordon machines, or uncordon them; return the operators' rules that they have then.

    The machines are those that the scorer sees: a snapshot is up to a second old.
    """
    asked: Cordon = read_params(Cordon, read_object(query))
    if not asked.dry_run and (answered := rules.answered(query)) is not None:
        return _decode(answered)
    machines = machines_meant(asked.machines, asked.selector, snapshot, ahead=asked.ahead)
    drain = None if off else asked.drain
    return _decode(write_cordon(query, machines, rules, off=off, dry_run=asked.dry_run, drain=drain))


def write_cordon(
    query: Query, machines: Sequence[str], rules: OperatorRules, *, step: str = "", off: bool = False,
    dry_run: bool = False, drain: Draining | None = None,
) -> bytes:  # fmt: skip
    """Cordon these machines, or uncordon them; return the result as JSON. Raises CallError.

    ``drain``: they are emptied from now on. An uncordoned machine is not.
    """
    facts: dict[str, Any] = {"cordon": not off}
    if off or drain is not None:
        facts["drain"] = None if drain is None else msgspec.to_builtins(drain)

    def answer(after: Entries) -> bytes:
        return msgspec.json.encode(CordonResult(rules=after, dry_run=dry_run))

    try:
        return rules.change(query, machines, facts, answer, step=step, dry_run=dry_run)
    except LateRules as late:
        raise CallError("DEADLINE_EXCEEDED", str(late), retryable=True) from None
    except RulesChanged as changed:
        raise CallError("UNAVAILABLE", str(changed), retryable=True) from None


def machines_meant(given: Sequence[str], selector: str, snapshot: Snapshot, *, ahead: bool = False) -> list[str]:
    """Return the machines of the snapshot that names, globs and a selector mean; there is at least one."""
    if not given and not selector:
        raise InvalidRequest("machines: give names, globs or a selector")
    known: dict[str, Mapping[str, str]] = {name: {} for name in snapshot.names}
    if selector:
        known.update((name, snapshot.rules.labels(row)) for row, name in enumerate(snapshot.names))
    try:
        return meant(given, selector, known, ahead=ahead)
    except NoMachine as error:
        raise CallError("NOT_FOUND", str(error)) from None
