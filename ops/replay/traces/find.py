"""Reads a trace or a file of lives; its content tells the kind."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path

import numpy as np

from ops.replay.traces import nab, openb, planetlab, recording, smd
from ops.replay.traces.trace import Trace, checked
from ops.replay.workload import WorkloadError
from schemas.values.errors import shortened


def read_trace(path: Path) -> Trace:
    """Return the trace in a file; raises WorkloadError."""
    try:
        return checked(_converted(path), path.name)
    except WorkloadError:
        raise
    except (TypeError, ValueError, IndexError) as error:
        raise WorkloadError(shortened(f"{path.name}: {error}")) from None


def _converted(path: Path) -> Trace:
    if path.name.endswith(".npz"):
        columns = read_arrays(path)
        if planetlab.is_this(columns):
            return planetlab.convert(columns, path.name)
        if smd.is_this(columns):
            return smd.convert(columns, path.name)
        return recording.read(path)
    header, lines = read_table(path)
    if header == nab.HEADER:
        return nab.convert(lines, path.name)
    return recording.read(path)


def read_lives(path: Path | None) -> openb.Lives:
    """Return sizes and lifetimes from a file of requests, or those assumed without one."""
    if path is None:
        return openb.without_file()
    header, lines = read_table(path)
    return openb.convert(header, lines, path.name)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz``; raises WorkloadError."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if hasattr(found, "files"):
                return {name: found[name] for name in found.files}
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zipfile, zlib and numpy do not document what they raise for a damaged archive
        raise WorkloadError(shortened(f"{path.name}: is no .npz of numpy: {error or type(error).__name__}")) from None
    raise WorkloadError(f"{path.name}: holds one array without a name")


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of an ``.npz``; none of a file that cannot be read."""
    try:
        with path.open("rb") as file:
            return list(getattr(np.load(file, allow_pickle=False), "files", ()))
    except Exception:  # as above; `read_arrays` says what is wrong
        return []


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of a ``.csv`` or ``.csv.gz``, without empty lines at its end; raises WorkloadError."""
    if path.exists() and not path.name.endswith((".csv", ".csv.gz")):
        raise WorkloadError(f"{path.name}: is neither .npz, .csv nor .csv.gz")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        text = (gzip.decompress(raw) if path.name.endswith(".gz") else raw).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text)))
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path.name}: is no UTF-8 text: {error.reason} at byte {error.start}") from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise WorkloadError(f"{path.name}: {error}") from None
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise WorkloadError(f"{path.name}: is empty")
    return rows[0], rows[1:]
