"""Window statistics of machines, from their rings.

A window of length w ends with the machine's newest slot and holds its last ``w / SLOT_S`` slots. Over the readings in
them (the moments of each slot keep the variance inside it):

    mean = sum(n_i mean_i) / sum(n_i)
    std  = sqrt(sum(m2_i + n_i (mean_i - mean)²) / sum(n_i))          population
    max  = the largest reading
    p_q  = the ceil(q k)-th smallest of the k filled slot means        numpy's ``inverted_cdf``
    coverage = filled slots / slots that the machine's interval can fill, at most 1

All windows share the sums about one slot, the newest that is filled (`about`). A window as long as the
ring holds all of it, so there the order of the slots is of no importance and whole rows are copied. Shorter windows
are read from these copies, newest slot first.

Moments are (n, mean, m2) of a set of readings, and of the union of several sets; m2 is the sum of squared distances
from the mean. The union is computed from sums about one of the means, the shift:

    d_i = mean_i - shift,   first = sum(n_i d_i),   second = sum(m2_i + n_i d_i²)
    mean = shift + first / n,   m2 = second - first² / n

The sums add up, so nested windows share them. The subtraction is harmless where the shift is a mean of the set itself:
m2 is then at least ``n_s (shift - mean)²`` (n_s: readings of that member), so its relative error is at most n / n_s
roundings. Sums about another number lose the spread: on an offset of 1e9 all of it.

Chosen over merging segment by segment (Chan, Golub and LeVeque 1979): as exact, and half the calls of numpy. Nothing
here subtracts an old sample. Running sums with subtraction drift and go negative (a std of 1600 for a true 10 after one
burst).

Measured by row of four resources, three windows, 32 rows at once: 27 us, of which sorting takes 8. To partition by the
ranks of the percentiles takes longer than to sort.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S
from schemas.tables.window_table import PERCENTILES
from streams.fold.ring import R, Ring, S

CHUNK = 32
"""Machines handled at once, so that their working set stays in the processor's cache (twice as many cost twice)."""

_POSITIONS = np.arange(S)
Float = NDArray[np.float64]


def about(shift: Float, n: Float, mean: Float, m2: NDArray[np.floating[Any]]) -> tuple[Float, Float]:
    """Return the terms of ``first`` and ``second``; arrays of one shape, an empty set has n = 0 and m2 = 0."""
    distance = mean - shift
    first = n * distance
    distance *= first
    distance += m2
    return first, distance


def pool(shift: Float, n: Float, first: Float, second: Float) -> tuple[Float, Float]:
    """Return mean and m2 of the union from the sums about ``shift``, a mean of the set; NaN and 0 where n = 0.

    >>> n, mean, m2 = np.array([2.0, 2.0]), np.array([1.0, 3.0]), np.array([0.0, 8.0])  # readings 1 1, 1 5
    >>> terms = about(mean[:1], n, mean, m2)
    >>> [float(one) for one in pool(mean[0], n.sum(), terms[0].sum(), terms[1].sum())]
    [2.0, 12.0]
    """
    offset = np.divide(first, n, out=np.full_like(n, np.nan), where=n > 0)
    return shift + offset, np.maximum(second - np.where(n > 0, first * offset, 0.0), 0.0)


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
    ends = [window_s // SLOT_S for window_s in windows_s]
    head, n, means = ring.head[rows], ring.n.take(rows, axis=0), ring.mean.take(rows, axis=0)
    weights, largest, slot_means, empty = (
        n.astype(np.float64),
        ring.max.take(rows, axis=0),
        means.astype(np.float32),
        n == 0,
    )
    slot_means[empty] = np.inf
    shift = _newest(means, empty, head)
    arrays: list[NDArray[Any]] = [
        weights,
        *about(shift, weights, means, ring.m2.take(rows, axis=0)),
        largest,
        slot_means,
    ]
    near = max((end for end in ends if end < S), default=0)
    newest_first = (np.arange(len(rows) * R) * S).reshape(-1, R, 1) + (head[:, None, None] - _POSITIONS[:near]) % S
    shorter = [array.reshape(-1).take(newest_first) for array in arrays]

    sums = np.empty((3, len(rows), len(ends), R))
    top = np.empty((len(rows), len(ends), R), np.float32)  # no reading is negative, and an empty slot holds 0
    ordered = np.empty((len(rows), R, sum(ends)), np.float32)
    starts = np.cumsum([0, *ends])
    for w, end in enumerate(ends):
        *terms, highest, values = arrays if end == S else [array[..., :end] for array in shorter]
        for place, term in enumerate(terms):
            term.sum(axis=-1, out=sums[place, :, w])
        highest.max(axis=-1, out=top[:, w])
        part = ordered[..., starts[w] : starts[w + 1]]
        part[...] = values
        part.sort(axis=-1)
        out["filled"][:, w] = (values < np.inf).sum(axis=-1)
    count, filled = sums[0], out["filled"].astype(np.float64)
    out["mean"][...], spread = pool(shift.transpose(0, 2, 1), count, sums[1], sums[2])
    none = count == 0
    count[none] = np.nan
    top[none] = np.nan
    out["std"][...], out["max"][...] = np.sqrt(spread / count), top
    out["percentile"][...] = inverted_cdf(ordered, starts[:-1], filled)
    interval_s = np.maximum(ring.interval_s[rows], SLOT_S)[:, None, None]
    can_fill = np.maximum(np.floor(np.array(windows_s)[:, None] / interval_s), 1)
    out["coverage"][...] = np.minimum(filled / can_fill, 1)


def _newest(means: Float, empty: NDArray[np.bool_], head: NDArray[np.int64]) -> Float:
    """Return the mean of the newest filled slot, [k, R, 1]; an arbitrary number where none is filled."""
    at = (head % S)[:, None, None]
    newest: Float = np.take_along_axis(means, at, axis=-1)
    row, resource, _ = np.take_along_axis(empty, at, axis=-1).nonzero()
    if len(row):
        age = (head[row, None] - _POSITIONS) % S + S * empty[row, resource]
        newest[row, resource, 0] = means[row, resource, age.argmin(axis=-1)]
    return newest


def inverted_cdf(ordered: NDArray[np.float32], starts: NDArray[np.intp], filled: Float) -> NDArray[np.float32]:
    """Return the percentiles of each window, [k, W, R, Q]; ``filled`` [k, W, R] counts its values.

    ``ordered`` [k, R, N]: the values of each window, ascending, from its start on; +inf where none is.
    The q-quantile is the ceil(q m)-th smallest of m values; NaN when there are none.
    """
    m = filled[..., None]
    # In whole percents, so that 0.95 * 20 is 19 and not 19.000000000000004.
    rank = np.maximum(np.ceil(np.array(PERCENTILES) * m / 100).astype(np.intp) - 1, 0)
    rows = np.arange(ordered.shape[0] * ordered.shape[1]).reshape(len(ordered), 1, -1, 1) * ordered.shape[2]
    result: NDArray[np.float32] = ordered.reshape(-1).take(rows + starts[:, None, None] + rank)
    result[filled == 0] = np.nan
    return result


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
