"""The resources Windward measures: the one place that lists them, in the order of every resource axis.

To add one, append an entry to `ALL` and write its collector. Messages, windows, tables, requests, the ledger, filters,
scores and commands follow from the entry. Stored values contain the names of their resources, so an entry is never
renamed or removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Resource:
    """The properties of one resource, from which the rest of the code follows.

    name:
        in messages, requests, profiles and commands.
    unit:
        of its amounts, in words.
    measured:
        the source of its readings, in words.
    decimals:
        the resolution of amounts; filters and the ledger add up the same whole units of ``10 ** -decimals``.
    whole_units:
        how many of the peers' whole units make one unit (kube-scheduler counts cpu in millicores: 1000).
    optional:
        whether a machine need not report it. A threshold of such a resource passes a machine that does not, unless the
        request asks for the resource; scores of requested amounts leave it out when the request does not ask for it.
    covers:
        whether a window must be covered in it to count as covered. Not for a resource added later: an agent that begins
        to send it does not make its machine warming.
    refused:
        for a share of time, which a request gives from 0 to 1: the error message for a larger amount.
    """

    name: str
    unit: str
    measured: str
    decimals: int = 0
    whole_units: float = 1.0
    optional: bool = True
    covers: bool = False
    refused: str = ""

    @property
    def is_share(self) -> bool:
        """Whether its amounts are shares from 0 to 1."""
        return bool(self.refused)


ALL: tuple[Resource, ...] = (
    Resource(
        name="cpu",
        unit="cores",
        measured="busy time over the reading interval",
        decimals=6,
        whole_units=1000.0,
        optional=False,
        covers=True,
    ),
    Resource(name="memory", unit="bytes", measured="total less available", optional=False, covers=True),
    Resource(
        name="nic",
        unit="bytes/s",
        measured="the busier of received and sent, over the physical interfaces",
        covers=True,
    ),
    Resource(
        name="disk",
        unit="share of time",
        measured="time in which the busiest physical disk was busy",
        decimals=6,
        refused="disk is the share of time from 0 to 1 that the busiest disk is busy; disk space is not a resource "
        "Windward knows",
    ),
)
"""Append only."""

RESOURCES = tuple(resource.name for resource in ALL)
ABOUT: Mapping[str, Resource] = {resource.name: resource for resource in ALL}
UNITS = {resource.name: resource.unit for resource in ALL}
OPTIONAL = tuple(resource.name for resource in ALL if resource.optional)
CPU, MEMORY, NIC = range(3)

PRIORITY_CLASSES = ("prod", "mid", "batch", "free")
"""Koordinator's priority classes, in falling order; a sample may split its usage by them."""
