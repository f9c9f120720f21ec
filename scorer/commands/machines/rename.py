"""``windward machines rename``: gives a machine another name, with its operators' rules and its instances.

    operators' rules      one transaction: merged into those of the new name; the old name is cordoned and marked
    the ledger            one script (`rename.lua`): every instance, or none, as of the version that was read
    the old name          stays marked while its agent sends, so that nothing is placed there; then it is forgotten

The windows and the agent's facts are the stream app's: they begin anew with the first sample under the new name. The
two servers have no common transaction, so the steps come in this order. Each leaves a valid state, and the command run
again does the remaining steps. It is refused where another host, by its host id, is live under the new name or
has instances there.

``windward machines forget`` drops the data of machines that are gone or never existed. Operators' rules are deleted at
once. The windows and the agent's facts are the stream app's: it reads the hash `Names.forgotten` and drops all samples
and facts of a machine until the time given there. A machine with instances in the ledger is refused: without data its
capacity would be unknown. So is a live one: it comes back with its next sample, without its operators' rules.
`known_of` tells it: from which host, and how long ago.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import redis

from schemas.messages.operator import DEFAULT
from schemas.names import FORGOTTEN_S, Names
from schemas.process.settings import SettingsError
from schemas.process.tables import Screen, readable
from schemas.tables.window_table import aligned
from schemas.values.hosts import is_of
from schemas.values.near import did_you_mean
from schemas.values.numbers import counted
from schemas.values.read_json import partition_count, read_json, read_or
from scorer.client import WindwardError
from scorer.cluster_wire import WindowsWire
from scorer.commands.machines.machine_table import STALE_S
from scorer.commands.machines.operator_facts import (
    TRIES,
    Entries,
    checked_name,
    in_words,
    known_machines,
    rewrite,
    tell_change,
)
from scorer.commands.shared import ask
from scorer.ledger.record.instance import machines_of
from scorer.ledger.store.check import instances_on, read_row
from scorer.ledger.store.scripts import Ledger
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


RENAMED = "renamed"
"""The label of a name that is no longer used; its value is the new name."""


def run(settings: Any) -> int:
    """Rename a machine, by the settings of `scorer.commands.machines.machines`; return the exit code."""
    if len(settings.words) != 2:
        raise SettingsError("machines rename: give the old name and the new one")
    old, new = map(checked_name, settings.words)
    if old == new:
        raise SettingsError(f"machines rename: {new!r} is its name already")
    with ask.server(settings) as server, ask.open_windows(settings) as windows, ask.open_ledger(settings) as ledger:
        done = rename(server, windows, ledger, settings.names, old, new)
    ask.tell(settings, done, _in_words)
    return ask.OK


def rename(
    server: redis.Redis, windows: WindowsWire, ledger: Ledger, names: Names, old: str, new: str
) -> dict[str, Any]:
    """Do the remaining steps of a renaming; return names, moved ids, the rules, and whether ``old`` is live.

    Raises WindwardError: NOT_FOUND of an unknown name, FAILED_PRECONDITION where another host has the new one.
    """
    known = known_of(server, windows, names, (old, new))
    entries: Any = server.hmget(names.operator, old, new)
    said, held = read_json(entries[0] or b"{}"), bool(ledger.rows([old], ())[0][0])
    if not held and not said and old not in known.ages_s and old not in known.hosts:
        raise WindwardError("NOT_FOUND", f"no machine {old!r}{_hint(server, windows, names, old)}")
    left = held or bool(said) or known.is_live(old)
    if left and not _is_marked(said) and not known.is_one_host(old, new):
        _refuse_taken(known, ledger, old, new)
    facts = rewrite(server, names, (old, new), lambda entries: _merged_and_marked(entries, old, new))[new]
    moved = _move_instances(ledger, old, new)
    if not known.is_live(old):
        note_forgotten(server, names, old)
    return {"machine": new, "was": old, "instances": moved, "operator": facts, "old_is_live": known.is_live(old)}


def _refuse_taken(known: Known, ledger: Ledger, old: str, new: str) -> None:
    """Refuse a new name that another machine has: raises WindwardError where it is live or has instances."""
    if known.is_live(new):
        what = f"is a live machine ({known.age(new)})"
    elif held := instances_on(ledger, [new]):
        what = f"is a machine with {counted(held[new], 'instance')}"
    else:
        return
    raise WindwardError("FAILED_PRECONDITION", f"{new!r} {what}, and not known to be the same host as {old!r}")


def _merged_and_marked(entries: Entries, old: str, new: str) -> Entries:
    """Return the old name's entry, marked as renamed, and the new name's entry, with the old one's rules."""
    if _is_marked(entries[old]):
        return entries
    return {old: {"cordon": True, "labels": {RENAMED: new}}, new: merged(entries[old], entries[new])}


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return two entries joined, groups key by key; the new name's values win.

    >>> merged({"cordon": True, "labels": {"a": "1", "b": "1"}}, {"labels": {"b": "2"}})
    {'cordon': True, 'labels': {'a': '1', 'b': '2'}}
    """
    found = {**old, **new}
    for name, value in found.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            found[name] = {**old[name], **value}
        elif isinstance(value, list) and isinstance(old.get(name), list):
            found[name] = [*value, *(one for one in old[name] if one not in value)]
        elif name == "cordon":
            found[name] = bool(old.get(name)) or bool(value)
    return found


def _move_instances(ledger: Ledger, old: str, new: str) -> list[str]:
    """Move every instance in the ledger; return their ids."""
    for _ in range(TRIES):
        (row,), _ = ledger.rows([old], ())
        if not row:
            return []
        ids = sorted(one.id for one in ledger.all_instances().values() if old in machines_of(one))
        if ledger.rename(old, new, read_row(row)[0], ids):
            return ids
    raise WindwardError("UNAVAILABLE", f"the instances on {old!r} changed {TRIES} times while read: try again")


def _is_marked(entry: Mapping[str, Any]) -> bool:
    return RENAMED in entry.get("labels", {})


def _hint(server: redis.Redis, windows: WindowsWire, names: Names, name: str) -> str:
    return (
        did_you_mean(name, known_machines(server, windows, names)) or "; `windward machines list -o name` has the names"
    )


def _in_words(done: Mapping[str, Any], _: Screen) -> str:
    moved = done["instances"]
    count = "no instance" if not moved else f"instance {moved[0]}" if len(moved) == 1 else f"{len(moved)} instances"
    line = f"{done['was']} is {done['machine']} now: {count} moved; {in_words(done['operator'])}"
    if not done["old_is_live"]:
        return f"{line}\n{done['was']} is forgotten"
    return (
        f"{line}\nnow set WINDWARD_MACHINE={done['machine']} for its agent and restart it; {done['was']} is cordoned\n"
        f"run this again when the old name no longer sends: {done['was']} is forgotten then"
    )
