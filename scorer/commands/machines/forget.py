"""``windward machines forget``: drop the data of machines that are gone or never existed.

Operators' rules are deleted at once. The windows and the agent's facts are the stream app's: it reads the hash
`Names.forgotten` and drops all samples and facts of a machine until the time given there. A machine with instances in
the ledger is refused: without data its capacity would be unknown. So is a live one: it comes back with its next sample,
without its operators' rules.
"""

import sys
from collections.abc import Sequence
from typing import Any

import redis

from schemas.messages.operator import DEFAULT
from schemas.names import FORGOTTEN_S, Names
from schemas.process.tables import readable
from schemas.tables.window_table import aligned
from schemas.values.numbers import counted
from schemas.values.read_json import partition_count
from scorer.client import WindwardError
from scorer.cluster_wire import WindowsWire
from scorer.commands.machines.machine_table import STALE_S
from scorer.commands.machines.operator_facts import tell_change
from scorer.commands.shared import ask
from scorer.ledger.store.check import instances_on
from scorer.live.windows_reader import read_windows
from scorer.settings import LedgerSettings


def ages_of_live(server: redis.Redis, windows: WindowsWire, names: Names, wanted: Sequence[str]) -> dict[str, float]:
    """Return the age of the newest sample of those machines for which an agent sends, s."""
    seconds, _ = server.time()
    found: dict[str, float] = {}
    for partition in read_windows(windows, names, partition_count(server.get(names.partitions)) or 0).windows:
        table = partition.whole()
        at, every = aligned(table, "at"), aligned(table, "interval_s")
        for row, name in enumerate(table.machines):
            if name in wanted:
                age_s = float(seconds) - float(at[row]) if at is not None else 0.0
                if age_s <= max(STALE_S, 3 * float(every[row]) if every is not None else 0.0):
                    found[name] = max(0.0, age_s)
    return {name: found[name] for name in wanted if name in found}


def forget(
    settings: LedgerSettings, server: redis.Redis, windows: WindowsWire, machines: Sequence[str], *, force: bool
) -> dict[str, Any]:
    """Forget machines, all or none; return the remaining rules by machine: none.

    Raises WindwardError while the ledger has instances there or an agent sends, and what redis-py raises.
    """
    live = ages_of_live(server, windows, settings.names, machines)
    with ask.open_ledger(settings) as ledger:
        held = {} if force else instances_on(ledger, machines)
    if held:
        words = ", ".join(f"{machine!r} has {count}" for machine, count in held.items())
        message = f"instances are there: {words}; release or move them, or --force"
        raise WindwardError("FAILED_PRECONDITION", message)
    if live:
        first, *more = live
        others = f" and {counted(len(more), 'other')}" if more else ""
        sent = f"agents send for {first!r}{others} (its newest sample is {live[first]:.0f} s old)"
        said = f"{sent}: the next sample brings each back, without operators' rules"
        if not force:
            raise WindwardError("FAILED_PRECONDITION", f"{said}; stop the agent first, or --force")
        print(f"windward machines forget: {readable(said)}", file=sys.stderr)  # noqa: T201
    for machine in machines:
        note_forgotten(server, settings.names, machine)
    return {machine: {} for machine in machines}


def note_forgotten(server: redis.Redis, names: Names, machine: str) -> float:
    """Delete a machine's rules, and request that the stream app drops its data; return the time, epoch seconds.

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
