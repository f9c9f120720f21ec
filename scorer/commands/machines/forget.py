"""``windward machines forget``: drop the data of machines that are gone or never existed.

Operators' rules are deleted at once. The windows and the agent's facts are the stream app's: it reads the hash
`Names.forgotten` and drops all samples and facts of a machine until the time given there. A machine with instances in
the ledger is refused: without data its capacity would be unknown. So is a live one: it comes back with its next sample,
without its operators' rules. `known_of` tells it: from which host, and how long ago.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import redis

from schemas.messages.operator import DEFAULT
from schemas.names import FORGOTTEN_S, Names
from schemas.process.tables import readable
from schemas.tables.window_table import aligned
from schemas.values.hosts import is_of
from schemas.values.numbers import counted
from schemas.values.read_json import partition_count, read_or
from scorer.client import WindwardError
from scorer.cluster_wire import WindowsWire
from scorer.commands.machines.machine_table import STALE_S
from scorer.commands.machines.operator_facts import tell_change
from scorer.commands.shared import ask
from scorer.ledger.store.check import instances_on
from scorer.live.windows_reader import asking, read_windows
from scorer.settings import LedgerSettings


class _Host(msgspec.Struct):
    host_id: str = ""


@dataclass
class Known:
    """Age of the newest sample, host id and publishing interval, by name of machine."""

    ages_s: dict[str, float] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    every_s: dict[str, float] = field(default_factory=dict)

    def is_live(self, name: str) -> bool:
        """Return whether an agent sends under this name."""
        return self.ages_s.get(name, float("inf")) <= max(STALE_S, 3 * self.every_s.get(name, 0.0))

    def is_one_host(self, old: str, new: str) -> bool:
        """Return whether both names belong to one host."""
        host = self.hosts.get(new, "")
        return bool(host) and (self.hosts.get(old) == host or is_of(old, host))

    def age(self, name: str) -> str:
        """Return the age of a live machine's newest sample in words."""
        return f"its newest sample is {max(0.0, self.ages_s[name]):.0f} s old"


def known_of(server: redis.Redis, windows: WindowsWire, names: Names, wanted: Sequence[str]) -> Known:
    """Return age, host id and interval of some machines, from windows and facts."""
    known = Known()
    seconds, _ = server.time()
    partitions = partition_count(server.get(names.partitions)) or 0
    reader = read_windows(windows, names, partitions)
    tables = {partition: one.whole() for partition, one in reader.by_partition.items()}
    facts = asking(windows)([("HMGET", names.facts(partition), *wanted) for partition in range(partitions)])
    for partition in range(partitions):
        table, among = tables.get(partition), set(wanted)
        if table is not None:
            at, every = aligned(table, "at"), aligned(table, "interval_s")
            for row, name in enumerate(table.machines):
                if name in among:
                    known.ages_s[name] = float(seconds) - float(at[row]) if at is not None else 0.0
                    known.every_s[name] = float(every[row]) if every is not None else 0.0
        for name, value in zip(wanted, facts[partition], strict=True):
            if value:
                known.hosts[name] = read_or(value, _Host, _Host()).host_id
    return known


def forget(
    settings: LedgerSettings, server: redis.Redis, windows: WindowsWire, machines: Sequence[str], *, force: bool
) -> dict[str, Any]:
    """Forget machines, all or none; return the remaining rules by machine: none.

    Raises WindwardError while the ledger has instances there or an agent sends, and what redis-py raises.
    """
    known = known_of(server, windows, settings.names, machines)
    live = [machine for machine in machines if known.is_live(machine)]
    with ask.open_ledger(settings) as ledger:
        held = {} if force else instances_on(ledger, machines)
    if held:
        words = ", ".join(f"{machine!r} has {count}" for machine, count in held.items())
        message = f"instances are there: {words}; release or move them, or --force"
        raise WindwardError("FAILED_PRECONDITION", message)
    if live:
        first, *more = live
        others = f" and {counted(len(more), 'other')}" if more else ""
        sent = f"agents send for {first!r}{others} ({known.age(first)})"
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
