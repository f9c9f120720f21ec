"""The interface of a collector: *read*, which does I/O, and *parse*, which is pure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self


class CollectorSettings(Protocol):
    """The settings of collectors; the agent's own settings include them, and also have connections."""

    @property
    def capacity(self) -> Mapping[str, str]:
        """Amounts by resource that replace measured capacities."""

    @property
    def nic_include(self) -> str | None:
        """Regular expression of the interfaces that count."""

    @property
    def nic_exclude(self) -> str | None:
        """Regular expression of interfaces that do not count."""

    @property
    def disk_exclude(self) -> str | None:
        """Regular expression of disks that do not count."""

    @property
    def memory_arc_share(self) -> float | None:
        """Share of ZFS's cache that counts as available; None: all of it, but nothing in a container."""

    @property
    def nic_speeds(self) -> Mapping[str, float]:
        """Link speed in bytes/s by interface; ``*`` is the one for interfaces the kernel does not know."""


class Reading(NamedTuple):
    """Usage since the last reading, in the resource's unit. Capacity None: unknown, so the resource is left out."""

    usage: float
    capacity: float | None


class Collector(Protocol):
    """The collector of one resource. An exception costs this resource one reading, and is counted."""

    resource: ClassVar[str]
    """Its name in `schemas.resources`."""

    @classmethod
    def configured(cls, settings: CollectorSettings) -> Self:
        """Build it from the agent's settings; this base class reads none."""
        return cls()

    def read(self) -> Any:
        """Return the raw counters or gauges now."""

    def parse(self, before: Any, now: Any, elapsed_s: float) -> Reading | None:
        """Return the reading between two reads; None at the first of two.

        Raises `streams.agent.rises.NoReadingError` where there is none, which is logged once, with its reason.

        ``before`` is None at the first read and after a gap: a gauge can still be read then, a rate cannot.
        """


def text_of(path: Path) -> str:
    """Return a file's text; "" where it is missing or unreadable, or the kernel has no value."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
