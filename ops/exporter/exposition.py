"""The text of a metrics page, whole columns of machines at a time.

A line of a column is ``metric{fleet="PREFIX",machine="NAME",rest} VALUE``. Names of one length and values of one width
make lines of one length: a column is then a rectangle of bytes, which numpy fills without a loop over machines.
`prometheus_client` takes 8 µs a line, a ``%`` of the whole column 0.5 µs, most of it for the digits; a rectangle 0.1.

Both formats are the same lines: the text format 0.0.4, and OpenMetrics 1.0 (which ends with ``# EOF`` and calls a
counter's family by its name without ``_total``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from scorer.snapshot.arrays import Bools, Floats, Integers

Bytes = NDArray[np.uint8]
Kind = Literal["gauge", "counter", "summary"]

RATIO = (1, 7)
"""Digits before and after the point of a ratio."""
SECONDS = (10, 3)
"""Digits of a time: epoch seconds, to the millisecond."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

NO_LABELS: Mapping[str, str] = {}

_ASCII_ZERO, _ASCII_POINT = 48, 46


def escape(value: str) -> str:
    r"""Return a label's value escaped for its place between quotes.

    >>> print(escape('a"b\\c'))
    a\"b\\c
    """
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def label_text(labels: Mapping[str, str]) -> str:
    """Return labels as the text between braces.

    >>> label_text({"resource": "cpu", "window": "5m"})
    'resource="cpu",window="5m"'
    """
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def number(value: float) -> str:
    """Return a value with all its digits: whole numbers without a point, others so that they are read back unchanged.

    >>> number(3.0), number(0.25)
    ('3', '0.25')
    """
    return str(int(value)) if value == np.rint(value) and abs(value) < 2**63 else repr(float(value))


class MachineNames:
    """The names of some machines as bytes, escaped, grouped by length. Made once for a roster.

    ``shared``: labels of every line, written before the machine's.
    """

    def __init__(self, names: Sequence[str], shared: Mapping[str, str] = NO_LABELS) -> None:
        self._count = len(names)
        escaped = [label_text({**shared, "machine": name})[:-1].encode() for name in names]
        lengths = np.fromiter(map(len, escaped), np.int64, len(escaped))
        self.groups: list[tuple[Integers, Bytes]] = []
        """Rows [n], ascending, and their names [n, length]: labels without the last quote."""
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            joined = b"".join(escaped[row] for row in rows.tolist())
            self.groups.append((rows, np.frombuffer(joined, np.uint8).reshape(len(rows), length)))

    def __len__(self) -> int:
        return self._count

    def lines(self, head: bytes, tail: bytes, values: Bytes, rows: Bools) -> list[bytes]:
        """Return the lines of the machines in ``rows`` [M]: head, name, tail and value, which is [M, width]."""
        found = []
        whole = bool(rows.all())
        for group, names in self.groups:
            if whole:
                here, written = group, names
            else:
                chosen = rows[group]
                here, written = group[chosen], names[chosen]
            if here.size:
                found.append(_rectangle(head, written, tail, values if here.size == len(values) else values[here]))
        return found

    def lines_of_texts(self, head: bytes, tail: bytes, texts: NDArray[np.bytes_], rows: Bools) -> list[bytes]:
        """Return the lines of the machines in ``rows`` for values [M] of different widths."""
        found = []
        characters = texts.view(np.uint8).reshape(len(texts), -1)
        widths = np.char.str_len(texts)
        for width in np.unique(widths[rows]).tolist():
            found += self.lines(head, tail, characters[:, :width], rows & (widths == width))
        return found


def _rectangle(head: bytes, names: Bytes, tail: bytes, digits: Bytes) -> bytes:
    """Return one line a row: head, name, tail, digits and the line's end."""
    lines, length = names.shape
    first, second = len(head) + length, len(head) + length + len(tail)
    out = np.empty((lines, second + digits.shape[1] + 1), np.uint8)
    out[:, : len(head)] = np.frombuffer(head, np.uint8)
    out[:, len(head) : first] = names
    out[:, first:second] = np.frombuffer(tail, np.uint8)
    out[:, second:-1] = digits
    out[:, -1] = 10
    return out.tobytes()


def fixed(values: Floats, whole: int, decimals: int) -> Bytes:
    """Return [n, whole + 1 + decimals]: the values, zero to less than 10 ** whole, in digits.

    >>> fixed(np.array([0.25, 1.5]), 1, 3).tobytes()
    b'0.2501.500'
    """
    left = np.rint(values * 10.0**decimals).astype(np.int64)
    digits = np.empty((len(values), whole + 1 + decimals), np.uint8)
    for place in range(whole + decimals, -1, -1):
        if place == whole:
            digits[:, place] = _ASCII_POINT
            continue
        rest = left // 10
        digits[:, place] = left - 10 * rest + _ASCII_ZERO
        left = rest
    return digits


def _texts(values: Floats, known: Bools) -> NDArray[np.bytes_]:
    """Return [M]: the known values with all their digits, as `number` writes them."""
    plain = np.where(known, values, 0.0)
    if (np.rint(plain) == plain).all() and np.abs(plain).max() < 2**53:
        return plain.astype(np.int64).astype(np.bytes_)
    return np.array([number(value) for value in plain.tolist()], np.bytes_)


@dataclass
class Family:
    name: str
    about: str
    kind: Kind = "gauge"
    single: list[tuple[float, Mapping[str, str]]] = field(default_factory=list)
    """Values with their labels."""
    columns: list[bytes] = field(default_factory=list)
    """Lines of machines."""

    @property
    def empty(self) -> bool:
        return not (self.single or self.columns)

    def add(self, value: float, **labels: str) -> None:
        """Add one line; without effect for an unknown value."""
        if not np.isnan(value):
            self.single.append((value, labels))

    def parts(self, shared: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the lines. ``shared``: labels that lines of machines contain already, and that other lines get here."""
        for value, labels in self.single:
            every = {**shared, **labels}
            braces = f"{{{label_text(every)}}}" if every else ""
            yield f"{self.name}{braces} {number(value)}\n".encode()
        yield from self.columns

    def add_column(
        self,
        names: MachineNames,
        values: Floats,
        rows: Bools | None = None,
        digits: tuple[int, int] | None = RATIO,
        *,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> None:
        """Add a line for each machine [M] in ``rows`` whose value is known.

        ``digits``: how many, before and after the point. Without it, or where a value needs more, all are written.
        """
        known: Bools = np.isfinite(values) if rows is None else rows & np.isfinite(values)
        tail = self._tail(labels)
        if digits is not None:
            fits: Bools = known & (values >= 0) & (values < 10.0 ** digits[0] - 0.5 * 10.0 ** -digits[1])
            if fits.any():
                shown = fixed(np.where(fits, values, 0.0), *digits)
                self.columns += names.lines(self._head, tail, shown, fits)
            known = known & ~fits
        if known.any():
            self.columns += names.lines_of_texts(self._head, tail, _texts(values, known), known)

    def add_texts(self, names: MachineNames, texts: Sequence[bytes], rows: Bools) -> None:
        """Add a line of value 1 for each machine in ``rows``, with labels of its own [M], each after a comma."""
        if rows.any():
            ends = np.array([b'"' + text + b"} 1" for text in texts])
            self.columns += names.lines_of_texts(self._head, b"", ends, rows)

    @cached_property
    def _head(self) -> bytes:
        return f"{self.name}{{".encode()

    @staticmethod
    def _tail(labels: Mapping[str, str]) -> bytes:
        return f'"{"," if labels else ""}{label_text(labels)}}} '.encode()


def single(name: str, about: str, value: float, **labels: str) -> Family:
    """Return the family of one line."""
    return lines(name, about, [(value, labels)])


def lines(name: str, about: str, values: Iterable[tuple[float, Mapping[str, str]]], kind: Kind = "gauge") -> Family:
    """Return the family of some values with their labels."""
    family = Family(name, about, kind)
    for value, labels in values:
        family.add(value, **labels)
    return family


class Columns(NamedTuple):
    """Some machines: makes families with a line for each of them whose value is known."""

    names: MachineNames
    rows: Bools
    """[M] Which machines."""

    def one(self, name: str, about: str, values: Any, digits: tuple[int, int] | None = RATIO) -> Family:
        """Return the family of one column [M]."""
        family = Family(name, about)
        family.add_column(self.names, np.asarray(values, np.float64), self.rows, digits)
        return family

    def each(self, name: str, about: str, values: Floats) -> Family:
        """Return the family of a ratio of each resource, [R, M]."""
        family = Family(name, about)
        for resource, column in zip(RESOURCES, values, strict=True):
            family.add_column(self.names, column, self.rows, labels={"resource": resource})
        return family


def page(families: Iterable[Family], *, open_metrics: bool = False, shared: Mapping[str, str] = NO_LABELS) -> bytes:
    """Return the page, every line with the ``shared`` labels; a family without lines is left out."""
    parts = []
    for family in families:
        if not family.empty:
            name = family.name.removesuffix("_total") if open_metrics else family.name
            parts.append(f"# HELP {name} {family.about}\n# TYPE {name} {family.kind}\n".encode())
            parts += family.parts(shared)
    return b"".join([*parts, b"# EOF\n"] if open_metrics else parts)
