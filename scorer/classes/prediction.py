"""Predicted peaks: the usage that prod, and the system, will rarely exceed on each machine. Pure.

They come from decayed histograms of usage as a share of capacity. One scorer looks at the usage by class every minute
and keeps the histograms (`Histograms`). It looks at the last report of each machine, mostly a mean over a minute: each
report counts once, by the time of its end. A peak that is shorter counts in part.

Bucket b begins at ``0.001 * (1.05^b - 1) / 0.05``, so each is 5 % wider than the one before; 96 of them reach beyond
twice the capacity, and larger values are in the last. A sample weighs 1 when it is new and half as much a half-life
later: all weights are multiplied by ``2^(-dt / half-life)`` before one is added.

Two Redis values in the encoding of `schemas.tables.window_table`, without windows, a row a machine, are written after
each observation: the peaks, which all scorers read, and the histograms, from which the next scorer continues. Axes: I
prod and the system; F the resources cpu and memory; B buckets; M machines. 800 bytes a machine, besides its name.

| value      | column  | dtype, shape    | meaning                                                              |
|------------|---------|-----------------|----------------------------------------------------------------------|
| peaks      | at      | f8 [M]          | when usage was last observed, epoch s                                |
|            | since   | f8 [M]          | when it was first observed                                           |
|            | peak    | f4 [I, F, M]    | share of capacity: quantile 0.95 of cpu, 0.98 of memory; NaN unknown |
| histograms | at, since | f8 [M]        | the same                                                             |
|            | weights | u2 [I, F, B, M] | weights of the buckets, the largest of a histogram being 10,000      |
|            | largest | f4 [I, F, M]    | the weight of the largest bucket                                     |

Reference: Koordinator, pkg/util/histogram (of the autoscaler of Kubernetes), whose buckets are in cores and bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.tables.window_table import Header, TableError, WindowTable, decode_table, encode_table
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.rules import Roster

PREDICTED = ("prod", "system")
RESOURCES = 2
"""The first of `schemas.resources`: cpu and memory."""
QUANTILES = (0.95, 0.98)
HALF_LIVES_S = (12 * 3600.0, 24 * 3600.0)
WEIGHT_MAX = 10_000
COLD_S = 86_400.0
"""A machine has a prediction after its usage was observed for so long."""
EXPIRES_S = 1800.0
"""A prediction is ignored when its usage was not observed for so long."""

FIRST, GROWTH, BUCKETS = 0.001, 1.05, 96
STARTS: Floats = FIRST * (np.power(GROWTH, np.arange(BUCKETS + 1, dtype=np.float64)) - 1.0) / (GROWTH - 1.0)
"""[B + 1] Where each bucket begins; the last is where the last one ends."""
LEAST = 1e-4
"""A histogram of less weight counts as empty."""


def bucket_of(shares: Floats) -> Integers:
    """Return the bucket of each share; a share below 0 is in the first.

    >>> bucket_of(np.array([0.0, 0.0005, 0.001, 0.5, 9.0])).tolist()
    [0, 0, 1, 66, 95]
    """
    return np.clip(np.searchsorted(STARTS, shares, side="right") - 1, 0, BUCKETS - 1)


def add(weights: NDArray[np.float32], shares: Floats, elapsed_s: Floats, half_life_s: float) -> None:
    """Add one sample to each of n histograms [B, n], in place; ``elapsed_s`` [n]: the time since the previous sample.

    A histogram whose share is not finite stays as it is.
    """
    known: Bools = np.isfinite(shares)
    weights[:, known] *= np.exp2(-elapsed_s[known] / half_life_s).astype(np.float32)
    weights[bucket_of(shares[known]), np.flatnonzero(known)] += 1.0


def quantile(weights: NDArray[np.float32], q: float) -> Floats:
    """Return [n]: the end of the bucket in which the share q of the weight is reached; NaN for an empty histogram.

    >>> weights = np.zeros((BUCKETS, 1), np.float32)
    >>> add(weights, np.array([0.5]), np.array([0.0]), 3600.0)
    >>> quantile(weights, 0.95).round(3).tolist()
    [0.506]
    """
    total = weights.sum(axis=0, dtype=np.float64)
    reached = np.cumsum(weights, axis=0, dtype=np.float64) >= q * total * (1.0 - 1e-9)
    bucket = np.where(weights > 0, reached, False).argmax(axis=0)
    return np.where(total >= LEAST, STARTS[bucket + 1], np.nan)


_I = len(PREDICTED)


class Histograms:
    """The histograms of all machines; a machine is a row, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.at: Floats = np.zeros(0)
        self.since: Floats = np.zeros(0)
        self.weights: NDArray[np.float32] = np.zeros((_I, RESOURCES, BUCKETS, 0), np.float32)
        """[I, F, B, M]"""
        self._rows: dict[str, int] = {}

    def look(
        self, names: Sequence[str], used: Floats, capacity: Floats, now_s: float, ended_at: Floats | None = None
    ) -> None:
        """Add the usage [I, R, n] of these machines, NaN where it is not known; ``capacity`` [R, n].

        ``ended_at`` [n]: when the usage of each was measured, by default now; a machine without anything newer stays
        unchanged. A machine without an update for four of the longest half-lives is dropped.
        """
        ends = np.full(len(names), now_s) if ended_at is None else ended_at
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = used[:, :RESOURCES] / capacity[:RESOURCES]
        seen = np.flatnonzero(np.isfinite(shares).all(axis=(0, 1)) & np.isfinite(ends))
        self._keep(now_s - self.at <= 4 * max(HALF_LIVES_S), [names[n] for n in seen.tolist()], ends[seen])
        rows = np.array([self._rows[names[n]] for n in seen.tolist()], np.int64)
        newer = (ends[seen] > self.at[rows]) | np.isnan(self.at[rows])
        seen, rows = seen[newer], rows[newer]
        elapsed_s = np.nan_to_num(ends[seen] - self.at[rows], nan=0.0)
        for i in range(_I):
            for f in range(RESOURCES):
                these = self.weights[i, f][:, rows]
                add(these, shares[i, f, seen], elapsed_s, HALF_LIVES_S[f])
                self.weights[i, f][:, rows] = these
        self.at[rows] = ends[seen]

    def _keep(self, known: NDArray[np.bool_], more: Sequence[str], ends: Floats) -> None:
        """Drop rows, and add one for each of these machines without a row; its ``at`` is NaN until it has a sample."""
        if known.all() and all(name in self._rows for name in more):
            return
        old = [name for name, keep in zip(self.names, known.tolist(), strict=True) if keep]
        fresh = [n for n, name in enumerate(more) if name not in self._rows or not known[self._rows[name]]]
        new = [more[n] for n in fresh]
        self.names = old + new
        self.at = np.concatenate([self.at[known], np.full(len(new), np.nan)])
        self.since = np.concatenate([self.since[known], ends[fresh]])
        empty = np.zeros((_I, RESOURCES, BUCKETS, len(new)), np.float32)
        self.weights = np.concatenate([self.weights[..., known], empty], axis=-1)
        self._rows = {name: row for row, name in enumerate(self.names)}

    def peaks(self) -> bytes:
        peak = np.array([[quantile(self.weights[i, f], QUANTILES[f]) for f in range(RESOURCES)] for i in range(_I)])
        return self._table({"peak": peak.astype(np.float32)})

    def stored(self) -> bytes:
        largest = self.weights.max(axis=2, keepdims=True, initial=0.0)
        scale = WEIGHT_MAX / np.maximum(largest, 1e-9)
        return self._table({"weights": np.rint(self.weights * scale).astype(np.uint16), "largest": largest[:, :, 0]})

    def _table(self, columns: Mapping[str, NDArray[Any]]) -> bytes:
        at = float(self.at.max(initial=0.0))
        header = Header(machines=len(self.names), windows_s=(), columns=[], written_at=at)
        return encode_table(header, {"at": self.at, "since": self.since, **columns}, "\n".join(self.names).encode())

    @classmethod
    def restored(cls, raw: bytes | None) -> "Histograms":
        """Return the stored histograms; empty ones when there are none, or they cannot be read."""
        found = cls()
        table = _read(raw)
        if table is None:
            return found
        weights, largest = table.columns.get("weights"), table.columns.get("largest")
        shape = (_I, RESOURCES, BUCKETS, table.header.machines)
        if not (_is(weights, shape, "u2") and _is(largest, (*shape[:2], shape[3]), "f4")):
            return found
        assert weights is not None
        found.names = table.machines
        found.at, found.since = (np.array(table.columns[name], np.float64) for name in ("at", "since"))
        scale = np.asarray(largest, np.float32)[:, :, None] / np.float32(WEIGHT_MAX)
        found.weights = weights.astype(np.float32) * scale
        found._rows = {name: row for row, name in enumerate(found.names)}
        return found


class Peaks:
    """The predicted peaks that another scorer wrote."""

    def __init__(self, raw: bytes | None) -> None:
        self._table = _read(raw)

    def of(self, roster: Roster, seen_at: Floats) -> Floats:
        """Return [I, F, M] shares of capacity for the machines of a roster; NaN where there is no prediction.

        ``seen_at`` [M]: the newest sample of each. A prediction more than `EXPIRES_S` older is not used, nor one of a
        machine known for less than `COLD_S`.
        """
        found = np.full((_I, RESOURCES, len(roster.names)), np.nan)
        table = self._table
        peak = None if table is None else table.columns.get("peak")
        if table is None or peak is None or not _is(peak, (_I, RESOURCES, table.header.machines), "f4"):
            return found
        at, since = (np.asarray(table.columns[name], np.float64) for name in ("at", "since"))
        rows = np.array([roster.index.get(name, -1) for name in table.machines], np.int64)
        good = (rows >= 0) & (at - since >= COLD_S)
        good[good] = seen_at[rows[good]] - at[good] <= EXPIRES_S
        found[:, :, rows[good]] = peak[:, :, good]
        return found


def _read(raw: bytes | None) -> WindowTable | None:
    """Return the table if it has both times of each of its machines, else None."""
    if not raw:
        return None
    try:
        table = decode_table(raw)
    except TableError:
        return None
    times = (table.columns.get("at"), table.columns.get("since"))
    good = all(_is(each, (table.header.machines,), "f8") for each in times)
    return table if good and len(set(table.machines)) == table.header.machines else None


def _is(column: NDArray[Any] | None, shape: tuple[int, ...], kind: str) -> bool:
    return column is not None and column.shape == shape and column.dtype.str[1:] == kind
