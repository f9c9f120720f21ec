"""Reads a trace or a file of lives; its content tells the kind."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from ops.replay.traces import nab, openb, planetlab, recording, smd
from ops.replay.traces.trace import Trace
from ops.replay.workload import WorkloadError


def read_trace(path: Path) -> Trace:
    """Return the trace in a file; raises WorkloadError."""
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
            if not hasattr(found, "files"):
                raise WorkloadError(f"{path.name}: holds one array without a name")
            return {name: found[name] for name in found.files}
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, BadZipFile, zlib.error, EOFError) as error:
        if isinstance(error, WorkloadError):
            raise
        raise WorkloadError(f"{path.name}: is no .npz of numpy: {error}") from None


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of a ``.csv`` or ``.csv.gz``; raises WorkloadError."""
    if not path.name.endswith((".csv", ".csv.gz")):
        raise WorkloadError(f"{path.name}: is neither .npz, .csv nor .csv.gz")
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.name.endswith(".gz") else raw).decode()
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path.name}: {error}") from None
    rows = [line for line in csv.reader(io.StringIO(text)) if line]
    if not rows:
        raise WorkloadError(f"{path.name}: is empty")
    return rows[0], rows[1:]
