"""A folder of files by hour: one open, the others complete, all together within a bound.

    ....record.open  --close-->  ....record  --the oldest, when the bound is reached-->  removed

A file left open by a process that was killed is cut behind its last whole entry and completed by the next one. Only one
process writes: it holds the lock of the file ``lock``.
"""

import calendar
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO

import numpy as np

from ops.record.entry import HEADER, Entry, Figures, Packed, RecordingError, frame, read_frames, unpack
from schemas.resources import RESOURCES

RECORD_DIR = Path("recording")
SUFFIX, OPEN = ".record", ".record.open"
HOUR_S = 3_600
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d{4}\.record(\.open)?")


def files(folder: Path) -> list[Path]:
    """Return the files of a recording, the oldest first; raises RecordingError where there is no such folder."""
    try:
        found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError as error:
        raise RecordingError(f"{folder} cannot be read: {error.strerror or error}") from None
    return sorted(found, key=lambda path: path.name)


def is_recording(folder: Path) -> bool:
    return folder.is_dir() and bool(files(folder))


def hour_of(path: Path) -> float:
    """Return when the hour of a file begins, epoch s.

    >>> hour_of(Path("1970-01-02T03-0001.record"))
    97200.0
    """
    return float(calendar.timegm(time.strptime(path.name[:13], "%Y-%m-%dT%H")))


class Folder:
    def __init__(self, path: Path, bytes_max: int) -> None:
        self.path = path
        self.bytes_max = bytes_max
        self.removed = 0
        """Files that were removed to make room."""
        self._file: FileIO | None = None
        self._lock: IO[str] | None = None
        self._open_path: Path | None = None
        self._hour = 0
        self._end = 0

    def take(self) -> Entry | None:
        """Lock the folder, complete files left open, and return the last entry, None without one.

        Raises RecordingError when another process has it or it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise RecordingError(f"record_dir: another process records into {self.path}") from None
        except OSError as error:
            raise RecordingError(f"record_dir: {self.path} cannot be used: {error.strerror or error}") from None
        for path in files(self.path):
            if path.name.endswith(OPEN):
                self._complete(path)
        for path in reversed(files(self.path)):
            last = None
            with suppress(RecordingError):
                for read in read_frames(path.read_bytes(), path.name):
                    last = read.entry
            if last is not None:
                return last
        return None

    def begins(self, at: float) -> bool:
        """Return whether the next entry is the first of a file, which must have the whole state.

        A file is complete when its hour is over, or when it has a quarter of the bytes allowed for all files.
        """
        if self._file is None or int(at // HOUR_S) != self._hour:
            return True
        return self._end >= self.bytes_max // 4

    def write(self, entry: Entry) -> int:
        """Append an entry and sync it; return its bytes. After an error the same entry may be written again.

        Raises OSError; RecordingError for an entry of more than half of the bytes that all files may have.
        """
        data = frame(entry)
        if len(HEADER) + len(data) > self.bytes_max // 2:
            raise RecordingError(f"record_bytes: an entry takes {len(data)} bytes, more than half of {self.bytes_max}")
        if self.begins(entry.at):
            self.close()
            self._make_room(len(HEADER) + len(data))
            self._begin(entry.at)
        else:
            self._make_room(len(data))
        assert self._file is not None
        self._file.truncate(self._end)  # a write that failed may have left a part
        self._file.seek(self._end)
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())
        self._end += len(data)
        return len(data)

    def size(self) -> int:
        return sum(path.stat().st_size for path in files(self.path))

    def close(self) -> None:
        if self._file is not None and self._open_path is not None:
            self._file.close()
            self._open_path.rename(self._open_path.with_name(self._open_path.name.removesuffix(".open")))
            self._sync_names()
        self._file = self._open_path = None

    def release(self) -> None:
        """Complete the open file and unlock the folder."""
        self.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _make_room(self, more: int) -> None:
        """Remove the oldest complete files until ``more`` bytes fit within the bound."""
        sizes = {path: path.stat().st_size for path in files(self.path)}
        total = sum(sizes.values()) + more
        for path, size in sizes.items():
            if total <= self.bytes_max:
                return
            if path != self._open_path:
                path.unlink()
                total -= size
                self.removed += 1

    def _begin(self, at: float) -> None:
        self._hour = int(at // HOUR_S)
        stem = time.strftime("%Y-%m-%dT%H", time.gmtime(at))
        taken = [int(path.name[14:18]) for path in files(self.path) if path.name.startswith(stem)]
        path = self.path / f"{stem}-{max(taken, default=0) + 1:04d}{OPEN}"
        file = path.open("xb", buffering=0)
        written = 0
        try:
            written = file.write(HEADER)
        finally:
            if written < len(HEADER):
                file.close()
                path.unlink()
        if written < len(HEADER):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._file, self._open_path, self._end = file, path, len(HEADER)
        self._sync_names()

    def _complete(self, path: Path) -> None:
        """Cut a file behind its last whole entry and rename it; one without any is removed."""
        end = 0
        with suppress(RecordingError):
            for read in read_frames(path.read_bytes(), path.name):
                end = read.end
        if end == 0:
            path.unlink()
            return
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())
        path.rename(path.with_name(path.name.removesuffix(".open")))
        self._sync_names()

    def _sync_names(self) -> None:
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
