"""NIC: bytes a second in the busier direction, over the physical interfaces, against their link speeds."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import psutil

from schemas.messages.sample import interfaces_said
from streams.agent.collectors.base import Collector, Reading, text_of
from streams.agent.rises import LINK_MAX, ImpossibleRiseError, NoReadingError, allowed_s, rises

SYSFS = Path("/sys/class/net")
LINKS_TTL_S = 60.0
"""How long the list of interfaces is used: to read the speed from some drivers takes a lock."""


class Link(NamedTuple):
    """One interface, as the kernel describes it."""

    name: str
    physical: bool
    """It has a device, and its traffic is counted by no other interface that has one."""
    bond: bool
    """It joins others into one."""
    master: str | None
    """The bond or bridge it belongs to."""
    up: bool
    speed: float | None
    """Bytes/s, None where the kernel does not know it."""


class Traffic(NamedTuple):
    """The counters of the selected interfaces, and the capacity of their links (bytes/s, None: unknown)."""

    received: dict[str, int]
    sent: dict[str, int]
    capacity: float | None


@dataclass
class Nic(Collector):
    """The busier of received and sent, summed over the interfaces that count.

        usage = max(Σ Δreceived, Σ Δsent) / elapsed,   capacity = Σ speed

    Those are the physical interfaces that are up. A bond counts in place of its slaves, with the speed that the kernel
    gives for its mode; so does a cloud's own interface in place of the virtual function that carries its traffic. Never
    counted are loopback, bridges, tunnels, VLANs and the host's end of a container's link: their traffic passes a
    physical interface as well. Nor are some that have a device (`is_physical`). All of this is read from the kernel;
    names do not matter. ``include`` replaces that choice, ``exclude`` removes from it.

    The speed of an interface is the configured one of its name, else the kernel's, else the configured one for all. An
    interface of unknown speed is left out; without any interface the resource is left out, too.
    """

    resource: ClassVar[str] = "nic"
    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Bytes/s by interface; ``*`` for those the kernel does not know."""
    capacity_given: bool = False
    """The capacity is set for the machine as a whole, so that interfaces of unknown speed count too."""
    sysfs: Path = SYSFS
    _links: list[Link] = field(default_factory=list, repr=False)
    _links_until_s: float = field(default=0.0, repr=False)

    @classmethod
    def configured(cls, settings: Any) -> Self:
        """Build it from the ``nic_*`` settings."""
        return cls(
            include=re.compile(settings.nic_include) if settings.nic_include else None,
            exclude=re.compile(settings.nic_exclude) if settings.nic_exclude else None,
            speeds=settings.nic_speeds,
            capacity_given="nic" in settings.capacity,
        )

    def read(self) -> Traffic:
        """Return the counters of ``/proc/net/dev`` for the measured interfaces."""
        now_s = time.monotonic()
        if now_s >= self._links_until_s:
            links = [read_link(path) for path in sorted(self.sysfs.iterdir()) if path.is_dir()]
            chosen = choose(links, self.include, self.exclude)
            speeds = self.speeds
            known = [one._replace(speed=speeds.get(one.name) or one.speed or speeds.get("*")) for one in chosen]
            self._links = [one for one in known if self.capacity_given or one.speed is not None]
            self._links_until_s = now_s + LINKS_TTL_S
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        counted = [link for link in self._links if link.name in counters]
        return Traffic(
            received={link.name: counters[link.name].bytes_recv for link in counted},
            sent={link.name: counters[link.name].bytes_sent for link in counted},
            capacity=sum(link.speed or 0.0 for link in counted) or None,
        )

    def interfaces(self) -> dict[str, str]:
        """Return the interfaces that count, each with the reason, for the machine's facts."""
        return interfaces_said(
            dict.fromkeys([link.name for link in self._links], "settings" if self.include else "kernel")
        )

    def parse(self, before: Traffic | None, now: Traffic, elapsed_s: float) -> Reading | None:
        """Return the rate between two reads.

        Raises NoReadingError without an interface that counts, and for bytes that its links cannot carry.
        """
        if not now.received:
            raise NoReadingError("no interface that is up counts and has a known speed: set nic_speed, or nic_include")
        if before is None or elapsed_s <= 0:
            return None
        most = (now.capacity or LINK_MAX) * allowed_s(elapsed_s)
        pairs = ((before.received, now.received), (before.sent, now.sent))
        ways = [sum(rises(earlier, later, most).values()) for earlier, later in pairs]
        if max(ways) > most:
            raise ImpossibleRiseError(f"{max(ways):.6g} bytes in {elapsed_s:.3g} s over {now.capacity:.6g} bytes/s")
        return Reading(max(ways) / elapsed_s, now.capacity)


def choose(links: Iterable[Link], include: re.Pattern[str] | None, exclude: re.Pattern[str] | None) -> list[Link]:
    """Return the interfaces that count, so that traffic counts once and capacity only where it can be used."""
    wanted = {
        link.name: link
        for link in links
        if link.name != "lo"
        and (include.fullmatch(link.name) if include else link.physical or link.bond)
        and not (exclude and exclude.fullmatch(link.name))
    }
    return [link for link in wanted.values() if link.up and link.master not in wanted]


_OF_GUEST = re.compile(r"([cp]\d+)?pf\d+((vfr?|sf)\d+)?")
"""The port name of a representor: the card's end of a host's or a virtual function in switchdev mode."""


def is_physical(path: Path) -> bool:
    """Return whether traffic of an interface leaves the machine there and is not counted elsewhere.

    Not so, though each has a device: a virtual or subfunction whose parent is here; its representor; the back end of a
    Xen guest; a port of a switch behind another interface, and a child of InfiniBand (``iflink`` is that interface).
    """
    device = path / "device"
    if not device.exists() or (device / "sfnum").exists() or text_of(path / "iflink") != text_of(path / "ifindex"):
        return False
    parent = device / "physfn"
    if parent.exists() and (not (parent / "net").is_dir() or any((parent / "net").iterdir())):
        return False
    of_xen_guest = (device / "subsystem").resolve().name == "xen-backend"
    return not of_xen_guest and not _OF_GUEST.fullmatch(text_of(path / "phys_port_name"))


def read_link(path: Path) -> Link:
    """Return one interface, from its folder under ``/sys/class/net``."""
    return Link(
        name=path.name,
        physical=is_physical(path),
        bond=(path / "bonding").exists(),
        master=(path / "master").resolve().name if (path / "master").exists() else None,
        up=text_of(path / "operstate") not in ("down", "lowerlayerdown", "notpresent"),
        speed=parse_speed(text_of(path / "speed")),
    )


def parse_speed(text: str) -> float | None:
    """Return bytes/s from the kernel's Mbit/s; it writes -1, 4294967295 or nothing where it does not know.

    >>> parse_speed("10000"), parse_speed("-1"), parse_speed("")
    (1250000000.0, None, None)
    """
    megabits = int(text) if text.lstrip("-").isdigit() else -1
    return megabits * 1e6 / 8 if 0 < megabits < 2**32 - 1 else None
