"""The interface of a collector: *read*, which does I/O, and *parse*, which is pure."""

from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self


class Reading(NamedTuple):
    """Usage since the last reading, in the resource's unit. Capacity None: unknown, so the resource is left out."""

    usage: float
    capacity: float | None


class Collector(Protocol):
    """The collector of one resource. An exception costs this resource one reading, and is counted."""

    resource: ClassVar[str]
    """Its name in `schemas.resources`."""

    @classmethod
    def configured(cls, settings: Any) -> Self:
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
