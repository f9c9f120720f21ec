"""Reads a trace or a file of lives; its content tells the kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ops.replay.traces import formats, openb
from ops.replay.traces.tables import read_table
from ops.replay.traces.trace import Trace, checked
from ops.replay.workload import WorkloadError
from schemas.values.errors import shortened
from streams.load_generator.source.recording_file import read_npz


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
        if "days" in columns and any(name.startswith("cpu_") for name in columns):
            return formats.planetlab(columns, path.name)
        if "machines" in columns and "columns" in columns:
            return formats.smd(columns, path.name)
        return formats.recorded(path)
    table = read_table(path)
    return formats.nab(table) if table.header == formats.NAB_HEADER else formats.recorded(path)


def read_lives(path: Path | None) -> openb.Lives:
    """Return sizes and lifetimes from a file of requests, or those assumed without one."""
    return openb.convert(read_table(path, openb.COLUMNS)) if path else openb.without_file()


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz``; raises WorkloadError."""
    try:
        return read_npz(path)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zipfile, zlib and numpy do not document what they raise for a damaged archive
        raise WorkloadError(shortened(f"{path.name}: is no .npz of numpy: {error or type(error).__name__}")) from None


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of an ``.npz``; none of a file that cannot be read."""
    try:
        with path.open("rb") as file:
            return list(getattr(np.load(file, allow_pickle=False), "files", ()))
    except Exception:  # as above; `read_arrays` says what is wrong
        return []
