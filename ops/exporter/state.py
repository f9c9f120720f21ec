"""The state of one page, read as a scorer reads it (`scorer.live.live_fleet`).

It is read for each scrape (a millisecond or two, when little changed), so it is as new as Redis. While Redis is away
there is no state, and no page shows an old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from schemas.process.redis_url import in_words
from schemas.rpc.request import Request
from scorer.classes.class_usage import ClassUsage, class_usage
from scorer.cluster_wire import ClusterWire, WindowsWire
from scorer.ledger.record.transition import UnknownFormat
from scorer.live.live_fleet import LiveFleet
from scorer.ranking.filters.fresh import Fresh
from scorer.ranking.inputs import ClassSums, RankingInputs, Tables, class_sums, machines_of
from scorer.ranking.machines import Machines
from scorer.ranking.profiles.profile import PlacedFilter, Profile
from scorer.ranking.rank import allowed
from scorer.settings import LedgerSettings
from scorer.snapshot.arrays import Bools
from scorer.wire import AWAY


class Memory(NamedTuple):
    """A server's memory in bytes."""

    used: float
    limit: float
    """The most that the server may use: its ``maxmemory``, or all of its host's."""


class Away(Exception):
    """A server that cannot be read; the message names the setting."""


@dataclass(eq=False)
class State(RankingInputs):
    """Windows, facts, ledger and the time, as a decision under the profile would see them."""

    memory: Mapping[str, Memory] = field(default_factory=dict)
    """By server: ``windows`` (of a Cluster the fullest node), and of those apart ``queries`` and ``ledger``."""

    @cached_property
    def seen(self) -> Machines:
        """The machines as ``windward machines show`` has them."""
        return machines_of(self)

    @cached_property
    def fresh(self) -> Bools:
        """[M] Data recent enough for the profile's filter ``fresh``."""
        own = self.profile.find(Fresh) or Fresh()
        # by age, silent or not
        profile = replace(self.profile, filters=(PlacedFilter(own),), scores=(), stale="refuse")
        found: Bools = self.seen.has_data & allowed(Request(), self.by(profile))
        return found

    @cached_property
    def class_sums(self) -> ClassSums | None:
        """The sums by class, None where the profile counts all classes together."""
        return class_sums(self)

    @cached_property
    def class_usage(self) -> ClassUsage | None:
        """The measured usage of the instances by class; None when no agent reports it."""
        return class_usage(self.snapshot, self.ledger) if self.snapshot.usages else None


class Reader:
    """Reads the state; one call at a time."""

    def __init__(self, settings: LedgerSettings) -> None:
        self._fleet = LiveFleet.open(settings)
        self._same_server = settings.redis_arguments() == settings.ledger_arguments()
        self._tables = Tables()

    def read(self, profile: Profile, now_s: float) -> State:
        """Return the state now; raises Away."""
        setting = "redis_url" if self._same_server else "ledger_url"
        try:
            ledger = self._fleet.read_ledger()
            setting = "redis_url or windows_url" if self._fleet.windows is not self._fleet.wire else "redis_url"
            snapshot = self._fleet.read_windows()
            memory = {"windows": fullest(self._fleet.windows)}
            if self._fleet.windows is not self._fleet.wire:
                memory["queries"] = fullest(self._fleet.wire)
            if not self._same_server:
                memory["ledger"] = fullest(self._fleet.ledger.wire)
        except (*AWAY, UnknownFormat) as error:
            self._fleet.close()
            raise Away(f"{setting}: {in_words(error)}") from None
        known = {name: each for name, each in memory.items() if each is not None}
        return State(snapshot, ledger, profile, now_s, self._tables, memory=known)

    def close(self) -> None:
        self._fleet.close()


def fullest(wire: WindowsWire) -> Memory | None:
    """Return the memory of a server (in a Cluster, of its fullest node); None without the right to read it."""
    found = wire.each("INFO", "memory") if isinstance(wire, ClusterWire) else wire.ask([("INFO", "memory")])
    known = [memory for one in found if isinstance(one, bytes) and (memory := _memory(one)) is not None]
    return max(known, key=lambda one: one.used / one.limit, default=None)


def _memory(info: bytes) -> Memory | None:
    said = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    limit = float(said.get("maxmemory", 0)) or float(said.get("total_system_memory", 0))
    return Memory(float(said["used_memory"]), limit) if limit and "used_memory" in said else None
