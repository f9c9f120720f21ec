"""The selection of a page: windows, statistics, labels, and the machines of this shard."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from schemas.resources import ABOUT
from schemas.rpc.request import Request
from scorer.snapshot.arrays import Bools
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Selection:
    """The selection of one exporter."""

    fleet: str = ""
    """The prefix, a label of every line."""
    windows_s: tuple[int, ...] = ()
    """Empty: all that are kept."""
    statistics: Sequence[str] = ("mean", "std", "p95")
    shard: int = 0
    shards: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    """Label key to label name."""
    probe: Request = field(default_factory=Request)
    per_machine: str = "auto"
    machines_max: int = 20_000
    top_instances: int = 0

    @property
    def shared(self) -> Mapping[str, str]:
        """The labels of every line."""
        return {"fleet": self.fleet} if self.fleet else {}

    def windows(self, snapshot: Snapshot) -> tuple[int, ...]:
        """Return the windows shown: the selected ones that the tables have."""
        return tuple(length for length in snapshot.windows_s if not self.windows_s or length in self.windows_s)

    def shows_machines(self, snapshot: Snapshot) -> bool:
        """Return whether single machines are shown."""
        return self.per_machine == "always" or (self.per_machine == "auto" and len(snapshot) <= self.machines_max)

    def rows(self, snapshot: Snapshot) -> Bools:
        """Return [M]: the machines of this shard.

        A machine is in the shard of the partition it is read from (the newer one, when it is in two); one without a
        partition, in the shard of its name's checksum. So each is in one shard, the same for all exporters.
        """
        if self.shards == 1:
            return np.ones(len(snapshot), np.bool_)
        place = snapshot.partition
        nowhere = np.flatnonzero(place < 0)
        if nowhere.size:
            place = place.copy()
            place[nowhere] = [zlib.crc32(snapshot.names[row].encode()) for row in nowhere.tolist()]
        mine: Bools = place % self.shards == self.shard
        return mine


def window_name(window_s: int) -> str:
    """Return a window's length as Prometheus writes durations.

    >>> [window_name(length) for length in (90, 300, 3600, 5400)]
    ['90s', '5m', '1h', '90m']
    """
    for unit, seconds in (("h", 3600), ("m", 60)):
        if window_s % seconds == 0:
            return f"{window_s // seconds}{unit}"
    return f"{window_s}s"


def unit_name(resource: str) -> str:
    """Return a resource's unit as the end of a metric's name.

    >>> [unit_name(resource) for resource in ("cpu", "nic", "disk")]
    ['cores', 'bytes_per_second', 'ratio']
    """
    about = ABOUT[resource]
    return "ratio" if about.is_share else about.unit.replace("/s", "_per_second").replace(" ", "_")
