"""Reads a recording: the entries from one moment to another, each with its figures and their names."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ops.record.entry import Entry, RecordingError, read_frames
from ops.record.figures import Figures, Packed, unpack
from ops.record.folder import files, hour_of
from schemas.resources import RESOURCES

LATE_S = 4 * 3_600.0
"""The longest time from a figure to its entry: Kafka keeps samples for 3 hours."""

VALUE_MAX = 1e16
"""The largest value that a sample may have: `schemas.messages.sample`."""


@dataclass(frozen=True, eq=False)
class Step:
    """An entry; the rows of its figures are positions in ``pairs`` and ``machines``, lists that grow within a file."""

    entry: Entry
    first: bool
    """The entry begins a file: it has the whole state."""
    pairs: list[str]
    usage: Figures
    machines: list[str]
    load: Figures


def extent(folder: Path) -> tuple[float, float]:
    """Return when the first and the last entry were written, epoch s; raises RecordingError without any."""
    found = files(folder)
    first = next((read.entry.at for path in found for read in read_frames(path.read_bytes(), path.name)), None)
    if first is None:
        raise RecordingError(f"{folder} holds no recording")
    last = first
    for path in reversed(found):
        for read in read_frames(path.read_bytes(), path.name):
            last = max(last, read.entry.at)
        if last > first:
            break
    return first, last


def steps(folder: Path, since_s: float, until_s: float) -> Iterator[Step]:
    """Yield the entries with the data of a time range, beginning with the last whole state before it.

    Raises RecordingError for a file that is damaged before its end.
    """
    found = files(folder)
    begin = max((at for at, path in enumerate(found) if hour_of(path) <= since_s), default=0)
    while begin > 0 and hour_of(found[begin - 1]) == hour_of(found[begin]):
        begin -= 1
    for path in found[begin:]:
        if hour_of(path) > until_s + LATE_S:
            return
        yield from _of_file(path)


def _of_file(path: Path) -> Iterator[Step]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from None
    pairs: list[str] = []
    machines: list[str] = []
    resources: list[str] = []
    for number, read in enumerate(read_frames(raw, path.name)):
        entry = read.entry
        resources = entry.resources or resources
        pairs += entry.pairs
        machines += entry.machines
        try:
            usage, load = _figures(entry.usage, resources, pairs), _figures(entry.load, resources, machines)
        except (ValueError, OverflowError) as error:
            message = f"{path.name}: the figures of the entry that ends at byte {read.end} cannot be read: {error}"
            raise RecordingError(message) from None
        yield Step(entry, number == 0, pairs, usage, machines, load)


def _figures(packed: Packed, resources: list[str], names: list[str]) -> Figures:
    """Return the figures by this release's resources: NaN for one not recorded; an unknown one is left out."""
    found = unpack(packed, len(resources))
    if not abs(packed.origin_s) < 1e11 or not np.isfinite(found.until_s).all():
        raise ValueError(f"origin_s is {packed.origin_s}")
    if len(found) and found.row.max() >= len(names):
        raise ValueError(f"row {found.row.max()} of {len(names)} names")
    values = np.full((len(RESOURCES), len(found)), np.nan, np.float32)
    for place, name in enumerate(RESOURCES):
        if name in resources:
            values[place] = found.values[resources.index(name)]
    values[~((values >= 0) & (values <= VALUE_MAX))] = np.nan
    return Figures(found.row, found.until_s, found.seconds, values)
