"""The whole fleet as columns, read from the window tables, for the demo. Pure.

R resources in the order of `schemas.resources`, W windows, M machines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.resources import CPU, RESOURCES
from schemas.tables.window_table import WindowTable, aligned

Float = NDArray[np.float64]
_BY_WINDOW = (0, len(RESOURCES))
AXES = {"capacity": _BY_WINDOW[1:], "mean": _BY_WINDOW, "std": _BY_WINDOW, "coverage": _BY_WINDOW, "at": ()}
"""The columns, with their axes before the machines' where there are none."""


@dataclass(frozen=True)
class FleetView:
    """Every machine the tables hold."""

    names: Sequence[str]
    windows_s: Sequence[int]
    capacity: Float
    """[R, M]"""
    mean: Float
    """[W, R, M]"""
    std: Float
    """[W, R, M]"""
    coverage: Float
    """[W, R, M]"""
    at: Float
    """Time of each machine's newest sample, epoch s, [M]"""

    @property
    def utilization(self) -> Float:
        """Mean over capacity, [W, R, M]; NaN where either is unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.mean / self.capacity

    def covered(self, machines: int) -> list[float]:
        """Return for each window the covered share of ``machines`` machines, by their CPU."""
        return [float(np.nansum(np.minimum(window, 1.0)) / max(machines, 1)) for window in self.coverage[:, CPU]]

    def only(self, rows: NDArray[np.int64]) -> "FleetView":
        """Return the view restricted to some machines."""
        columns = {name: getattr(self, name)[..., rows] for name in AXES}
        return FleetView([self.names[row] for row in rows], self.windows_s, **columns)


def join_tables(tables: Iterable[WindowTable]) -> FleetView:
    """Return the machines of all partitions together; of two rows of one machine the one with the newer sample."""
    found = [table for table in tables if table.header.machines]
    windows_s = found[0].header.windows_s if found else ()
    columns = {
        name: np.concatenate([_column(table, name) for table in found], axis=-1).astype(np.float64)
        if found
        else np.empty((*axes, 0))
        for name, axes in AXES.items()
    }
    view = FleetView([name for table in found for name in table.machines], windows_s, **columns)
    newest = {view.names[row]: row for row in np.argsort(view.at, kind="stable").tolist()}
    return view if len(newest) == len(view.names) else view.only(np.sort(np.fromiter(newest.values(), np.int64)))


def _column(table: WindowTable, name: str) -> NDArray[np.generic]:
    """Return a column in the order of this process's resources; raises KeyError for one that the table lacks."""
    column = aligned(table, name)
    if column is None:
        raise KeyError(name)
    return column


@dataclass(frozen=True)
class Spread:
    """How a burst of equal instances is spread over the fleet."""

    machines: int
    """Different machines it went to."""
    most: int
    """The largest number of them on one machine."""
    highest: float
    """The highest CPU utilization on any machine that got one, when they all run."""
    std: float
    """Standard deviation of CPU utilization over the fleet, when they all run."""


def spread(used: Float, capacity: Float, cpu: float, rows: Sequence[int]) -> Spread:
    """Return the spread of instances of ``cpu`` cores each on machines ``rows``, one row an instance; [M] columns.

    >>> spread(np.array([1.0, 1.0]), np.array([4.0, 4.0]), 1.0, [0, 0])
    Spread(machines=1, most=2, highest=0.75, std=0.25)
    """
    counts = np.bincount(np.asarray(rows, dtype=np.int64), minlength=len(used))
    after = (used + counts * cpu) / capacity
    chosen = counts > 0
    return Spread(
        machines=int(chosen.sum()),
        most=int(counts.max(initial=0)),
        highest=float(after[chosen].max(initial=0.0)),
        std=float(np.std(after)),
    )


def least_used(used: Float, capacity: Float, instances: int) -> list[int]:
    """Return the rows chosen by measured load alone, which does not change within a burst.

    >>> least_used(np.array([2.0, 1.0]), np.array([4.0, 4.0]), 3)
    [1, 1, 1]
    """
    return [int(np.argmin(used / capacity))] * instances


def at_random(machines: int, instances: int) -> list[int]:
    """Return rows chosen at random."""
    return [int(row) for row in np.random.default_rng(1).integers(0, machines, instances)]
