"""The selection of a page: windows, statistics, labels, and the machines of this shard."""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ops.exporter.exposition import escape
from schemas.resources import ABOUT
from schemas.rpc.request import Request
from scorer.planning.soon_hot import LIMIT
from scorer.snapshot.arrays import Bools
from scorer.snapshot.rules import MachineRules
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Selection:
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
    soon_hot_limit: float = LIMIT

    @property
    def shared(self) -> Mapping[str, str]:
        return {"fleet": self.fleet} if self.fleet else {}

    def windows(self, snapshot: Snapshot) -> tuple[int, ...]:
        """Return the windows shown: the selected ones that the tables have."""
        return tuple(length for length in snapshot.windows_s if not self.windows_s or length in self.windows_s)

    def shows_machines(self, snapshot: Snapshot) -> bool:
        return self.per_machine == "always" or (self.per_machine == "auto" and len(snapshot) <= self.machines_max)

    def rows(self, snapshot: Snapshot) -> Bools:
        """Return [M]: the machines of this shard.

        A machine is in the shard of the partition it is read from (the newer one, when it is in two); one without a
        partition, in the shard of its name's checksum. So each machine is in one shard, the same for all exporters.
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


OWN = ("fleet", "machine", "instance", "job")
"""Reserved names: the exporter's own, and those that Prometheus adds."""


def label_name(key: str) -> str:
    """Return a label's key as a valid label name.

    >>> label_name("topology.kubernetes.io/zone"), label_name("1st"), label_name("__x")
    ('topology_kubernetes_io_zone', '_1st', 'x')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", key)
    if name.startswith("__"):  # Prometheus keeps such names for itself
        name = name.lstrip("_")
    return f"_{name}" if not name or name[0].isdigit() else name


def label_names(keys: Sequence[str]) -> Mapping[str, str]:
    """Return the valid name of each key.

    Raises ValueError when two keys give the same name, or a key gives a reserved one.
    """
    found: dict[str, str] = {}
    for key in keys:
        name = label_name(key)
        if name in OWN:
            raise ValueError(f"labels: {key!r} would be the label {name}, which is taken")
        if name in found:
            raise ValueError(f"labels: {found[name]!r} and {key!r} would both be the label {name}")
        found[name] = key
    return {key: name for name, key in found.items()}


def label_columns(rules: MachineRules, names: Mapping[str, str], machines: int) -> list[bytes]:
    """Return [M]: each machine's labels of the allow-list as text, each after a comma; absent labels are left out."""
    texts = [b""] * machines
    for key, name in names.items():
        column = rules.label(key)
        written = [f',{name}="{escape(value)}"'.encode() for value in column.values] + [b""]
        texts = [text + written[code] for text, code in zip(texts, column.codes.tolist(), strict=True)]
    return texts
