"""The counters of one instance at one moment, and the mean usage between two moments. Pure."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from schemas.messages.sample import InstanceMeans
from streams.agent.collectors.disk import DiskLine
from streams.agent.rises import BITS_32, LINK_MAX, ImpossibleRiseError, allowed_s, rise_of

NO_PROCESS: tuple[int, int] = (0, 0)
"""Stands for a process in the counter of a whole control group."""

TORN = ""
"""Stands for a device of which nothing is known, among those of a group."""

MOST = {"cpu": 8192.0, "memory": 2.0**52, "nic": LINK_MAX, "disk": 1.0}
"""The most of each resource that a machine may have: cores of Linux, bytes of memory, bytes/s of a link."""


@dataclass(frozen=True)
class Counters:
    """Counters and gauges of one instance; None for one that could not be read."""

    cpu_s: Mapping[tuple[int, int], float] | None = None
    """CPU seconds by process (its id and start, so that a reused id is another process), or of `NO_PROCESS`."""
    memory: float | None = None
    """Bytes now."""
    io: Mapping[str, int | None] | None = None
    """Bytes read and written by device (``major:minor``); None for one that could not be read."""
    net: tuple[int, int] | None = None
    """Bytes received and sent, where the instance has a network of its own."""


def cpu_mean(before: Counters, now: Counters, elapsed_s: float) -> float | None:
    """Return the cores used between two moments; None where one of them is unknown.

    A new process counts in full, since it began in between. The usage of a process that ended in between is lost.
    Raises ImpossibleRiseError.
    """
    if before.cpu_s is None or now.cpu_s is None or elapsed_s <= 0:
        return None
    used = 0.0
    for process, seconds in now.cpu_s.items():
        spent = seconds - before.cpu_s.get(process, seconds if process == NO_PROCESS else 0.0)
        if spent < 0:
            raise ImpossibleRiseError(f"{before.cpu_s[process]:.3f} s of CPU, then {seconds:.3f}")
        used += spent
    return used / elapsed_s


def net_mean(before: Counters, now: Counters, elapsed_s: float) -> float | None:
    """Return the bytes/s of the busier direction; None where unknown. Raises ImpossibleRiseError."""
    if before.net is None or now.net is None or elapsed_s <= 0:
        return None
    received, sent = (after - earlier for earlier, after in zip(before.net, now.net, strict=True))
    if min(received, sent) < 0:
        raise ImpossibleRiseError(f"{before.net} bytes received and sent, then {now.net}")
    return max(received, sent) / elapsed_s


@dataclass(frozen=True)
class BusiestDisk:
    """The disk that was busy for the longest share of an interval, from which the resource `disk` is measured."""

    device: str
    share: float
    bytes: int
    """Bytes read and written in the interval by all processes."""


def busiest_disk(before: Mapping[str, DiskLine], now: Mapping[str, DiskLine], elapsed_s: float) -> BusiestDisk | None:
    """Return the busiest of the disks that were read both times; None without one, or with an impossible rise."""
    most, seen = allowed_s(elapsed_s) * 1000, list[BusiestDisk]()
    for device in now.keys() & before.keys() if elapsed_s > 0 else ():
        earlier, after = before[device], now[device]
        busy_ms = rise_of(earlier.busy_ms, after.busy_ms, most, wraps_at=BITS_32, resets=False)
        if busy_ms is None or after.bytes < earlier.bytes:
            return None
        seen.append(BusiestDisk(device, min(busy_ms / (elapsed_s * 1000), 1.0), after.bytes - earlier.bytes))
    return max(seen, key=lambda disk: (disk.share, disk.bytes, disk.device), default=None)


def disk_mean(before: Counters, now: Counters, disk: BusiestDisk | None) -> float | None:
    """Return the instance's part of the busiest disk's busy share, in proportion to the bytes it read and wrote there.

    None where unknown. The kernel does not count a disk's busy time by process. Raises ImpossibleRiseError.
    """
    if disk is None or before.io is None or now.io is None or TORN in {*before.io, *now.io}:
        return None
    earlier = before.io.get(disk.device, 0)
    after = now.io.get(disk.device, 0 if not earlier else None)
    if earlier is None or after is None:
        return None
    moved = after - earlier
    if moved < 0:
        raise ImpossibleRiseError(f"{before.io} bytes of a disk, then {now.io}")
    return disk.share * min(moved / disk.bytes, 1.0) if disk.bytes else 0.0


def means_of(
    before: Counters | None, now: Counters, elapsed_s: float, disk: BusiestDisk | None
) -> tuple[InstanceMeans, bool]:
    """Return the mean usage of an instance between two moments, and whether a counter fell.

    Only memory is known when there is no earlier moment. A counter that fell, or a figure that no machine can have,
    leaves its own figure unknown.
    """
    means: dict[str, float | None] = {"memory": now.memory}
    if before is not None:
        for name, mean in (("cpu", cpu_mean), ("nic", net_mean)):
            with suppress(ImpossibleRiseError):
                means[name] = mean(before, now, elapsed_s)
        with suppress(ImpossibleRiseError):
            means["disk"] = disk_mean(before, now, disk)
    known = {name: mean for name, mean in means.items() if mean is None or mean <= MOST[name]}
    return InstanceMeans(**known), len(known) < (4 if before else 1)


def together(parts: Sequence[Counters]) -> Counters:
    """Return the counters of several control groups that are one instance; they share one network.

    What one of them does not know is not known; but a part may lack the controller of disks, as a pod's own slice does.
    """
    if len(parts) == 1:
        return parts[0]
    seconds = [sum(one.cpu_s.values()) for one in parts if one.cpu_s is not None]
    memory = [one.memory for one in parts if one.memory is not None]
    disks = [one.io for one in parts if one.io is not None]
    io: dict[str, int | None] = {}
    for device, moved in (pair for one in disks for pair in one.items()):
        before = io.get(device, 0)
        io[device] = None if before is None or moved is None else before + moved
    return Counters(
        cpu_s={NO_PROCESS: sum(seconds)} if len(seconds) == len(parts) else None,
        memory=sum(memory) if len(memory) == len(parts) else None,
        io=io if disks else None,
        net=next((one.net for one in parts if one.net is not None), None),
    )


def rest(total: float | None, parts: list[float | None]) -> float | None:
    """Return a total less its parts, at least 0; None unless all of them are known.

    >>> rest(4.0, [1.0, 0.5]), rest(4.0, [1.0, None]), rest(1.0, [1.5])
    (2.5, None, 0.0)
    """
    known = [part for part in parts if part is not None]
    return None if total is None or len(known) < len(parts) else max(0.0, total - sum(known))
