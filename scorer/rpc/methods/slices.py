"""Long answers in steps: parts of a list that take about as long as other queries may wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from scorer.placement.choosing.steps import Steps

AT_ONCE = 16
"""Rows of the first step; the next ones follow from how long it took."""
_LEAST, _MOST = 4, 250
_STEP_S = 0.008

_Row = TypeVar("_Row")
_encode = msgspec.json.Encoder().encode


def by_parts(rows: Sequence[_Row], do: Callable[[Sequence[_Row]], object]) -> Steps[None]:
    """Call ``do`` with the rows, a few in each step."""
    first, size = 0, AT_ONCE
    while first < len(rows):
        if first:
            yield
        started = time.perf_counter()
        do(rows[first : first + size])
        first += size
        elapsed_s = time.perf_counter() - started
        size = max(_LEAST, min(_MOST, 2 * size, int(size * _STEP_S / elapsed_s)))


def in_slices(
    rows: Sequence[_Row], make: Callable[[Sequence[_Row]], Iterable[msgspec.Struct]]
) -> Steps[list[msgspec.Raw]]:
    """Return ``make(rows)`` as JSON, one element for each row, made in steps of a few rows."""
    found: list[msgspec.Raw] = []
    yield from by_parts(rows, lambda part: found.extend(msgspec.Raw(_encode(one)) for one in make(part)))
    return found
