"""Reads tables of text, ``.csv`` or ``.csv.gz``, with messages that name file, column and row (the header is row 1)."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ops.replay.workload import WorkloadError
from scorer.snapshot.arrays import Floats


class Table(NamedTuple):
    """A table of lines that are all as long as its header."""

    name: str
    """The table's name in messages."""
    header: list[str]
    lines: list[list[str]]

    def texts(self, column: str) -> list[str]:
        at = self.header.index(column)
        return [line[at] for line in self.lines]

    def numbers(self, column: str) -> Floats:
        """Return a column of numbers, NaN for an empty value; raises WorkloadError."""
        found = np.full(len(self.lines), np.nan)
        for row, text in enumerate(self.texts(column)):
            if text:
                try:
                    found[row] = float(text)
                except ValueError:
                    raise WorkloadError(f"{self.name}: {column}, row {row + 2}: {text!r} is no number") from None
        return found


def read_table(path: Path, columns: Iterable[str] = (), name: str = "") -> Table:
    """Return a table without empty lines at its end; raises WorkloadError, also when it lacks one of these columns."""
    if path.exists() and not path.name.endswith((".csv", ".csv.gz")):
        raise WorkloadError(f"{path.name}: is neither .npz, .csv nor .csv.gz")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        text = (gzip.decompress(raw) if path.name.endswith(".gz") else raw).decode("utf-8-sig")
        header, *lines = list(csv.reader(io.StringIO(text))) or [[]]
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path.name}: is no UTF-8 text: {error.reason} at byte {error.start}") from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise WorkloadError(f"{path.name}: {error}") from None
    while lines and not lines[-1]:
        lines.pop()
    if not header:
        raise WorkloadError(f"{path.name}: is empty")
    name = name or path.name
    for column in columns:
        if column not in header:
            raise WorkloadError(f"{name}: has no column {column}")
    twice = next((column for at, column in enumerate(header) if column in header[:at]), None)
    if twice is not None:
        raise WorkloadError(f"{name}: has two columns {twice}")
    for row, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise WorkloadError(f"{name}: row {row}: {len(line)} values, the header has {len(header)}")
    return Table(name, header, lines)
