"""Window statistics of machines, from their rings.

A window of length w ends with the machine's newest slot and holds its last ``w / SLOT_S`` slots. Over the readings in
them (the moments of each slot keep the variance inside it):

    mean = sum(n_i mean_i) / sum(n_i)
    std  = sqrt(sum(m2_i + n_i (mean_i - mean)²) / sum(n_i))          population
    max  = the largest reading
    p_q  = the ceil(q k)-th smallest of the k filled slot means        numpy's ``inverted_cdf``
    coverage = filled slots / slots that the machine's interval can fill, at most 1

The windows are nested, so each segment between two window lengths is pooled once and merged outwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S
from schemas.tables.window_table import PERCENTILES
from streams.fold.moments import merge, pool
from streams.fold.ring import R, Ring, S

CHUNK = 32
"""Machines handled at once, so that their working set stays in the processor's cache (twice as many cost twice)."""

_POSITIONS = np.arange(S)


def check_windows(windows_s: Sequence[int]) -> None:
    """Raise ValueError unless the windows are ascending multiples of the slot within the ring."""
    slots = [w / SLOT_S for w in windows_s]
    if not slots or slots != sorted(set(slots)) or slots[0] < 1 or slots[-1] > S or any(s % 1 for s in slots):
        raise ValueError(
            f"windows_s: expected ascending multiples of {SLOT_S} s up to {S * SLOT_S} s, got {list(windows_s)}"
        )


def window_columns(ring: Ring, rows: NDArray[np.intp], windows_s: Sequence[int]) -> dict[str, NDArray[np.generic]]:
    """Return the statistics of ``rows`` for every window, machine axis first.

    mean f8, std f4, max f4 [k, W, R]; percentile f4 [k, W, R, Q]; filled u2, coverage f4 [k, W, R]. A window that holds
    no reading has NaN statistics and coverage 0.
    """
    shape = (len(rows), len(windows_s), R)
    columns: dict[str, NDArray[np.generic]] = {
        "mean": np.empty(shape),
        "std": np.empty(shape, np.float32),
        "max": np.empty(shape, np.float32),
        "percentile": np.empty((*shape, len(PERCENTILES)), np.float32),
        "filled": np.empty(shape, np.uint16),
        "coverage": np.empty(shape, np.float32),
    }
    for start in range(0, len(rows), CHUNK):
        _fill(ring, rows[start : start + CHUNK], windows_s, {k: v[start : start + CHUNK] for k, v in columns.items()})
    return columns


def _fill(ring: Ring, rows: NDArray[np.intp], windows_s: Sequence[int], out: dict[str, NDArray[np.generic]]) -> None:
    """Compute one chunk; the newest slot comes first along the slot axis."""
    longest = windows_s[-1] // SLOT_S
    newest_first = (ring.head[rows, None] - _POSITIONS[:longest]) % S
    flat = (rows[:, None, None] * R + np.arange(R)[:, None]) * S + newest_first[:, None, :]
    n = ring.n.reshape(-1).take(flat).astype(np.float64)
    mean = ring.mean.reshape(-1).take(flat)
    m2 = ring.m2.reshape(-1).take(flat)
    largest = ring.max.reshape(-1).take(flat)
    empty = n == 0
    slot_means = mean.astype(np.float32)
    slot_means[empty] = np.inf

    count = np.zeros((len(rows), R))
    average, spread = np.zeros_like(count), np.zeros_like(count)
    top = np.zeros(count.shape, np.float32)  # no reading is negative, and an empty slot holds 0
    filled = np.zeros_like(count)
    interval_s = np.maximum(ring.interval_s[rows], SLOT_S)[:, None]
    begin = 0
    for w, window_s in enumerate(windows_s):
        end = window_s // SLOT_S
        segment = np.s_[..., begin:end]
        count, average, spread = merge(count, average, spread, *pool(n[segment], mean[segment], m2[segment]))
        top = np.maximum(top, largest[segment].max(axis=-1))
        filled += (end - begin) - empty[segment].sum(axis=-1)
        none = count == 0
        divisor = np.where(none, np.nan, count)
        out["mean"][:, w] = np.where(none, np.nan, average)
        out["std"][:, w] = np.sqrt(spread / divisor)
        out["max"][:, w] = np.where(none, np.nan, top)
        out["percentile"][:, w] = inverted_cdf(slot_means[..., :end], filled)
        out["filled"][:, w] = filled
        out["coverage"][:, w] = np.minimum(filled / np.maximum(np.floor(window_s / interval_s), 1), 1)
        begin = end


def inverted_cdf(values: NDArray[np.float32], filled: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the percentiles along the last axis, [..., Q]; empty cells hold +inf, ``filled`` counts the others.

    The q-quantile is the ceil(q k)-th smallest of k values; NaN when there are none.
    """
    ordered = np.sort(values, axis=-1)
    k = filled[..., None]
    # In whole percents, so that 0.95 * 20 is 19 and not 19.000000000000004.
    rank = np.maximum(np.ceil(np.array(PERCENTILES) * k / 100).astype(np.intp) - 1, 0)
    result = np.take_along_axis(ordered, rank, axis=-1)
    return np.where(k > 0, result, np.float32(np.nan))


def class_means(ring: Ring, rows: NDArray[np.intp], windows_s: Sequence[int], name: str) -> NDArray[np.float32]:
    """Return the mean usage of one priority class over each window, [k, W, R]: the mean of its filled slots."""
    result = np.full((len(rows), len(windows_s), R), np.nan, np.float32)
    if name not in ring.classes:
        return result
    newest_first = (ring.head[rows, None] - _POSITIONS) % S
    held = np.take_along_axis(ring.classes[name].means(rows), newest_first[:, None, :], axis=-1)
    given = ~np.isnan(held)
    held[~given] = 0
    for w, window_s in enumerate(windows_s):
        end = window_s // SLOT_S
        count = given[..., :end].sum(axis=-1)
        total = held[..., :end].sum(axis=-1, dtype=np.float64)
        result[:, w] = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return result
