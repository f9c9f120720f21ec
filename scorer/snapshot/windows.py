"""The windows of a decision: for each machine one of the lengths in the tables."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from schemas.resources import ALL
from schemas.tables.window_table import WARMING_COVERAGE
from scorer.snapshot.arrays import Bools, Floats, Integers

LONGEST_COVERED = 0
"""As a window: for each machine the longest one that is covered."""

_covering = [row for row, resource in enumerate(ALL) if resource.covers]
_in_a_row = _covering == list(range(len(_covering)))
_COVERING: list[int] | slice = slice(len(_covering)) if _in_a_row else _covering
"""The resources in which a window must be covered; a slice copies nothing."""


Read = Callable[[str, int], Floats]
"""From a column with a W axis and the place of a window on it to that window of the column, [..., M]."""


class ChosenWindows:
    """The windows of one decision: one for each machine. A column is joined when it is first read."""

    def __init__(self, read: Read, position: Integers, window_s: Floats, coverage: Floats, used: Sequence[int]) -> None:
        self._read = read
        self._used = used
        """The places that are in ``position``; not empty."""
        self.position = position
        """[M] place of the machine's window on the W axis."""
        self.window_s = window_s
        """[M] length of the window used."""
        self.coverage = coverage
        """[M] the least coverage over the resources the machine has."""
        self.warming: Bools = coverage < WARMING_COVERAGE
        """[M] less than half covered."""

    @cached_property
    def mean(self) -> Floats:
        """[R, M] mean usage; NaN where unknown."""
        return self.picked("mean")

    @cached_property
    def std(self) -> Floats:
        """[R, M] population standard deviation."""
        return self.picked("std")

    @cached_property
    def filled(self) -> Floats:
        """[R, M] filled slots."""
        return self.picked("filled")

    def picked(self, name: str) -> Floats:
        """Return [..., M]: each machine's own window of a column with a W axis; not a copy where all use the same."""
        first, *others = self._used
        found = self._read(name, first)
        if others:
            found = found.copy()
        for place in others:
            rows = np.flatnonzero(self.position == place)
            found[..., rows] = self._read(name, place)[..., rows]
        return found


def choose_windows(read: Read, windows_s: tuple[int, ...], window_s: int, machines: int) -> ChosenWindows:
    """Return one window length for all machines, or each machine's longest covered window.

    Where no window is covered, it is the longest of the best covered ones, and the machine is warming. While the
    longest one is covered on all machines, the usual case, the others are not read.
    """
    zero = np.zeros(machines, np.int64)
    if not windows_s:
        return ChosenWindows(read, zero, np.zeros(machines), np.zeros(machines), [0])
    longest = len(windows_s) - 1
    place = longest if window_s == LONGEST_COVERED else windows_s.index(window_s)
    position, coverage, used = zero + place, _least_coverage(read, place), [place]
    if window_s == LONGEST_COVERED and machines and coverage.min() < WARMING_COVERAGE:
        least = np.array([_least_coverage(read, each) for each in range(longest)] + [coverage])
        covered = least >= WARMING_COVERAGE
        best = np.where(covered.any(axis=0), np.argmax(covered[::-1], axis=0), np.argmax(least[::-1], axis=0))
        position = longest - best
        coverage = np.take_along_axis(least, position[None], axis=0)[0]
        used = np.flatnonzero(np.bincount(position)).tolist()
    return ChosenWindows(read, position, np.array(windows_s, np.float64)[position], coverage, used)


def _least_coverage(read: Read, place: int) -> Floats:
    """Return [M]: the least coverage of the counted resources that have data in the window; 0 without any."""
    coverage, mean = read("coverage", place)[_COVERING], read("mean", place)[_COVERING]
    somewhere_unknown = bool(np.isnan(mean.sum()))
    known = np.where(np.isfinite(mean), coverage, np.inf) if somewhere_unknown else coverage
    least: Floats = np.minimum.reduce(known, axis=0)
    if somewhere_unknown:
        least[np.isinf(least)] = 0.0
    return least
