"""Mean usage by one priority class: like the other arrays of the ring, but only for machines that send the class.

As a full array one class would cost 5.8 kB a machine: 57 MB in a partition of 10,000 machines, even if only one of them
sends it. Here a machine gets a place with its first value, and loses it with its last.

Axes: rows M of the ring, K places, R resources, S positions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.names import RING_SLOTS
from schemas.resources import RESOURCES

Rows = NDArray[np.intp]
_SHAPE = (len(RESOURCES), RING_SLOTS)


class ClassMeans:
    """Means [R, S] of the machines that have any; NaN where no value is given."""

    def __init__(self) -> None:
        self._places: Rows = np.empty(0, np.intp)
        """By row the place of a machine, -1 for none; rows beyond the end have none."""
        self._used = 0
        self._values: NDArray[np.float32] = np.empty((0, *_SHAPE), np.float32)

    @classmethod
    def of(cls, values: NDArray[np.float32]) -> "ClassMeans":
        """Return the means [k, R, S] of the rows 0 to k - 1."""
        means = cls()
        means._values, means._used, means._places = values, len(values), np.arange(len(values))
        return means

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._places.nbytes

    def means(self, rows: Rows) -> NDArray[np.float32]:
        """Return the means of some rows, [k, R, S], as a copy."""
        found = np.full((len(rows), *_SHAPE), np.nan, np.float32)
        places = self._of(rows)
        held = places >= 0
        found[held] = self._values[places[held]]
        return found

    def at(self, position: int, rows: int) -> NDArray[np.float32] | None:
        places = self._of(np.arange(rows))
        held = places >= 0
        there = self._values[places[held], :, position]
        if np.isnan(there).all():
            return None
        found = np.full((rows, _SHAPE[0]), np.nan, np.float32)
        found[held] = there
        return found

    def set(self, row: int, position: int, means: Any) -> None:
        """Set the means [R] of one slot of one machine."""
        place = self._make_places(np.array([row]))[0]
        self._values[place, :, position] = means

    def set_column(self, resources: slice, position: int, means: NDArray[np.floating[Any]]) -> None:
        """Set some resources of one position of the first rows, [rows, r]; a row of NaN alone gets no place."""
        places = self._of(np.arange(len(means)))
        rows = np.flatnonzero((places >= 0) | ~np.isnan(means).all(axis=1))
        places = self._make_places(rows)
        self._values[places, resources, position] = means[rows]

    def blank(self, rows: Rows, positions: NDArray[np.int64]) -> None:
        places = self._of(rows)
        held = places >= 0
        self._values[places[held], :, positions[held]] = np.nan

    def blank_position(self, position: int) -> None:
        self._values[: self._used, :, position] = np.nan

    def keep(self, rows: Rows) -> None:
        """Drop all rows except these, which are renumbered in their order, and all machines without a value."""
        places = self._of(rows)
        held = places >= 0
        values = self._values[places[held]]
        given = ~np.isnan(values).all(axis=(1, 2))
        self._values = values[given]
        self._used = len(self._values)
        self._places = np.full(len(rows), -1, np.intp)
        self._places[np.flatnonzero(held)[given]] = np.arange(self._used)

    def _of(self, rows: Rows) -> Rows:
        inside = rows < len(self._places)
        if inside.all():
            return self._places[rows]
        found = np.full(len(rows), -1, np.intp)
        found[inside] = self._places[rows[inside]]
        return found

    def _make_places(self, rows: Rows) -> Rows:
        """Return the places of distinct rows; a row without one gets a new place."""
        if len(rows) and rows.max() >= len(self._places):
            self._places = np.pad(self._places, (0, rows.max() + 1 - len(self._places)), constant_values=-1)
        new = rows[self._places[rows] < 0]
        if len(new):
            needed = self._used + len(new)
            if needed > len(self._values):
                grown = np.full((max(needed, len(self._values) * 9 // 8 + 4), *_SHAPE), np.nan, np.float32)
                grown[: self._used] = self._values[: self._used]
                self._values = grown
            self._places[new] = np.arange(self._used, needed)
            self._used = needed
        return self._places[rows]
