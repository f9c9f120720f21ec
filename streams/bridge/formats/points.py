"""Points: measured values in a form common to the messages of all agents. Pure."""

from typing import Literal, NamedTuple

Quantity = Literal[
    "cpu_busy_share",  # share of all cores, 0 to 1
    "cpu_busy_s",  # counter of one core or of all
    "cpu_total_s",  # the same, busy and idle together
    "cpu_idle_s",  # counter of all cores, of an agent that sends no total
    "cores",
    "memory_used",  # bytes
    "memory_total",
    "received",  # counter of one interface, bytes
    "sent",
    "nic_speed",  # of one interface, bytes/s
    "nic_told",  # 1 for an interface of which more is told than name and speed
    "disk_busy_s",  # counter of one disk
]
COUNTERS = frozenset(("cpu_busy_s", "cpu_total_s", "cpu_idle_s", "received", "sent", "disk_busy_s"))
"""Quantities that only rise, except for resets."""

ALL_CORES = "all"
ROUNDING = 0.01
"""By how much the idle share may seem above the whole, and a part below 0."""


class Point(NamedTuple):
    machine: str
    at: float
    """Epoch s."""
    quantity: Quantity
    part: str
    """Core, interface or disk; empty for the machine as a whole."""
    value: float
    started: float = 0.0
    """When a counter was last reset, epoch s; 0 when its agent does not send it."""
    delta: bool = False
    """For a counter: the value is its rise since ``started``, else since its last point."""
    source: str = ""
    """The target that was scraped, if known: two targets may give one machine's name."""
    parts: tuple[float, ...] = ()
    """The counters that the value is the sum of: where one falls alone, the rise means nothing."""


class UnreadableError(ValueError):
    """A message that cannot be read; the text gives the reason."""
