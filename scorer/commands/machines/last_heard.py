"""Which machines send data now, and from which host: read from windows and facts, for a few names, without a scorer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import redis

from schemas.names import Names
from schemas.tables.window_table import aligned
from schemas.values.hosts import is_of
from schemas.values.read_json import partition_count, read_as
from scorer.cluster_wire import WindowsWire
from scorer.commands.machines.machine_table import STALE_S
from scorer.live.windows_reader import asking, read_windows


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
                known.hosts[name] = _host_in(value)
    return known


def _host_in(facts: bytes) -> str:
    """Return the host id in stored facts; "" where they cannot be read."""
    try:
        return read_as(facts, _Host).host_id
    except msgspec.DecodeError:
        return ""
