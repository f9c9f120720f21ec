"""``windward machines forget``: drop the data of machines that are gone or never existed.

Operators' rules are deleted at once. The windows and the agent's facts are the stream app's: it reads the hash
`Names.forgotten` and drops all samples and facts of a machine until the time given there. A machine with instances in
the ledger is refused: without data its capacity would be unknown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import redis

from schemas.messages.operator import DEFAULT
from schemas.names import FORGOTTEN_S, Names
from scorer.client import WindwardError
from scorer.commands.machines.operator_facts import tell_change
from scorer.commands.shared import ask
from scorer.ledger.store.check import read_row
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire


class Settings(Protocol):
    """The settings that `forget` needs: where windows and ledger are, and the form of the output."""

    @property
    def json(self) -> bool:
        """Whether JSON is printed."""

    @property
    def names(self) -> Names:
        """The names under the prefix."""

    def ledger_arguments(self) -> dict[str, Any]:
        """Return how the ledger is reached."""


def forget(settings: Settings, server: redis.Redis, machines: Sequence[str], *, force: bool) -> int:
    """Forget machines, all or none; return the exit code.

    Raises WindwardError while the ledger has instances there, and what redis-py raises.
    """
    wire = Wire(settings.ledger_arguments())
    try:
        held = {} if force else instances_on(Ledger(wire, settings.names), machines)
    finally:
        wire.close()
    if held:
        words = ", ".join(f"{machine!r} has {count}" for machine, count in held.items())
        message = f"instances are there: {words}; release or move them, or --force"
        raise WindwardError("FAILED_PRECONDITION", message)
    for machine in machines:
        note_forgotten(server, settings.names, machine)
    lines = [f"{machine}: forgotten" for machine in machines]
    print(json.dumps({machine: {} for machine in machines}) if settings.json else "\n".join(lines))  # noqa: T201
    return ask.OK


def instances_on(ledger: Ledger, machines: Sequence[str]) -> dict[str, int]:
    """Return how many instances the ledger has on each machine that has any."""
    rows, _ = ledger.rows(machines, ())
    counts = {
        machine: sum(sums["instances"] for sums in read_row(row)[1].values())
        for machine, row in zip(machines, rows, strict=True)
    }
    return {machine: count for machine, count in counts.items() if count}


def note_forgotten(server: redis.Redis, names: Names, machine: str) -> float:
    """Delete operators' rules of a machine, and have the stream app drop the rest; return the time, epoch seconds.

    ``*`` is no machine: only the rules for all machines are deleted.
    """
    seconds, microseconds = server.time()
    now_s = seconds + microseconds / 1e6
    with server.pipeline() as pipe:
        pipe.hdel(names.operator, machine)
        tell_change(pipe, names)
        if machine != DEFAULT:
            pipe.hset(names.forgotten, machine, repr(now_s))
            pipe.expire(names.forgotten, FORGOTTEN_S)
        pipe.execute()
    return now_s
