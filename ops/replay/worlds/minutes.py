"""Readings of one minute from cells of a trace.

A cell of 300 s is the mean of five unknown minutes. Interpolated minutes would have nearly no spread inside a
cell, and every window's standard deviation would be too low. So the minutes of a cell are drawn around its mean:

    reading = x_k + s_k z,   s_k² = ratio * mean of (x_j - x_(j-1))² / 2 over the cells j within half an hour of k

where z is a first-order autoregressive series (coefficient 0.4), less its mean in each cell, of variance 1. So every
cell keeps the mean that it has in the trace. Where a reading would fall below 0 or above ``most``, the noise of that
cell is made smaller.

``ratio`` is the variance inside a cell over half the mean squared step between cells. Measured where the minutes are
known: on four servers of SMD 0.59, 0.65, 0.98 and 2.50; on eight of Alibaba 2018 (cells with at least four readings)
0.83 to 3.51, median 1.34. 1.0 is used.

A reading is the mean of the cells that begin in its minute, where cells take up to a minute. Longer cells that are no
whole number of minutes give each minute the value in force.
"""

import numpy as np
from numpy.typing import NDArray

from ops.replay.workload import MINUTE_S

WITHIN_RATIO = 1.0
CORRELATION = 0.4
NEAR_S = 1_800.0

Readings = NDArray[np.float32]


def minute_readings(cells: Readings, cell_s: float, generator: np.random.Generator, most: float = np.inf) -> Readings:
    """Return [S, minutes] from [S, T] cells of ``cell_s`` seconds; NaN stays NaN."""
    if cell_s <= MINUTE_S:
        return _means(cells, cell_s)
    inside = cell_s / MINUTE_S
    if inside % 1:
        at = np.arange(int(cells.shape[1] * inside)) / inside
        return cells[:, at.astype(np.int64)]
    count = int(inside)
    noise = _noise(cells.shape, count, generator)
    spread = _spread(cells, cell_s)
    lowest, highest = -noise.min(axis=2) * spread, noise.max(axis=2) * spread
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.minimum(
            np.where(lowest > 0, cells / lowest, np.inf), np.where(highest > 0, (most - cells) / highest, np.inf)
        )
    spread *= np.clip(np.nan_to_num(room, nan=0.0, posinf=1.0), 0.0, 1.0)
    noise *= spread[..., None]
    noise += cells[..., None]
    return noise.reshape(len(cells), -1).astype(np.float32)


def _means(cells: Readings, cell_s: float) -> Readings:
    """Return [S, minutes]: the mean of the cells that begin in each minute; an incomplete last minute is left out."""
    minutes = int(cells.shape[1] * cell_s / MINUTE_S)
    first = np.ceil(np.arange(minutes + 1) * MINUTE_S / cell_s - 1e-9).astype(np.int64)
    sums = np.add.reduceat(cells[:, : first[-1]], first[:-1], axis=1)
    means: Readings = (sums / np.diff(first)).astype(np.float32)
    return means


def _noise(shape: tuple[int, ...], count: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Return [S, T, count]: autoregressive noise within cells, with mean 0 in each cell and variance 1 overall."""
    noise = generator.standard_normal((*shape, count), np.float32)
    fresh = np.float32(np.sqrt(1 - CORRELATION**2))
    for minute in range(1, count):
        noise[..., minute] = CORRELATION * noise[..., minute - 1] + fresh * noise[..., minute]
    noise -= noise.mean(axis=2, keepdims=True)
    noise /= np.sqrt((noise * noise).mean())
    return noise


def _spread(cells: Readings, cell_s: float) -> Readings:
    """Return [S, T]: the standard deviation inside each cell."""
    steps = np.diff(cells, axis=1).astype(np.float64) ** 2 / 2
    if not steps.shape[1]:
        return np.zeros_like(cells)
    known = np.isfinite(steps)
    total = np.cumsum(np.pad(np.where(known, steps, 0.0), ((0, 0), (1, 0))), axis=1)
    count = np.cumsum(np.pad(known, ((0, 0), (1, 0))), axis=1)
    half = max(1, int(NEAR_S / cell_s))
    at = np.arange(cells.shape[1])
    first, last = np.maximum(at - half, 0), np.minimum(at + half, steps.shape[1])
    near = (total[:, last] - total[:, first]) / np.maximum(count[:, last] - count[:, first], 1)
    spread: Readings = np.sqrt(WITHIN_RATIO * near).astype(np.float32)
    return spread
