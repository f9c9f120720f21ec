"""Many samples through one ring, and how far its windows are from a recomputation.

``python -m tests.streams.long_run`` folds ten million. Every machine's load lies on an offset of up to 64 GiB, with
bursts a million times its spread: what running sums with subtraction lose their digits to. Made and folded as columns,
so that ten million samples take less than a minute. Prints one JSON object: the largest relative error of mean and std,
how many maxima and percentiles differ, and how much the process's memory grew after the first hour of event time.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import psutil

from schemas.tables.window_table import PERCENTILES
from streams.fold.fold import fold
from streams.fold.ring import R, Ring, S
from streams.fold.windows import window_columns
from tests.streams.batches import START, batch_of

WINDOWS = (300, 900, 3600)
OFFSETS = np.resize([0.0, 2.0**36, 1e9], R)
SPREAD = np.resize([8.0, 2.0**20, 1e3], R)
BLOCK = 5
"""Slots of all machines folded at once."""


def long_run(samples: int, machines: int) -> dict[str, float]:
    """Fold so many samples and compare the windows at the end, and at two moments before, with numpy's."""
    rng = np.random.default_rng(samples)
    names = [f"machine-{i:05d}" for i in range(machines)]
    ring = Ring()
    kept: dict[str, Any] = {
        name: np.zeros((S, machines, R), t) for name, t in (("mean", "f8"), ("m2", "f8"), ("n", "f8"))
    }
    slots = samples // machines
    worst = {"samples": 0.0, "mean": 0.0, "std": 0.0, "max": 0.0, "percentile": 0.0, "grown_bytes": 0.0}
    process, resident = psutil.Process(), 0
    for first in range(0, slots, BLOCK):
        count = min(BLOCK, slots - first)
        shape = (count, machines, R)
        mean = OFFSETS + rng.uniform(0, 1, shape) * SPREAD
        burst = rng.random((count, machines, 1)) < 0.001
        mean = np.where(burst, OFFSETS + SPREAD * 1e6, mean)
        m2 = rng.uniform(0, 1, shape) * SPREAD**2
        n = rng.integers(1, 11, shape).astype(float)
        slot = np.arange(first, first + count)
        fold(
            ring,
            batch_of(
                names * count,
                np.repeat(START + slot * 10.0 + 5, machines),
                mean.reshape(-1, R),
                n=n.reshape(-1, R),
                m2=m2.reshape(-1, R),
            ),
        )
        kept["mean"][slot % S], kept["m2"][slot % S], kept["n"][slot % S] = mean, m2, n
        worst["samples"] += count * machines
        if first // BLOCK == S // BLOCK:
            resident = process.memory_info().rss
        if first + count >= slots or first in (slots // BLOCK // 3 * BLOCK, slots // BLOCK // 2 * BLOCK):
            _compare(ring, kept, int(slot[-1]), worst)
    worst["grown_bytes"] = float(process.memory_info().rss - resident)
    return worst


def _compare(ring: Ring, kept: dict[str, Any], head: int, worst: dict[str, float]) -> None:
    columns: Any = window_columns(ring, np.arange(len(ring)), WINDOWS)
    for w, window_s in enumerate(WINDOWS):
        back = np.arange(head, max(head - window_s // 10, -1), -1) % S
        n, mean = kept["n"][back], kept["mean"][back].astype(np.longdouble)
        total = n.sum(axis=0)
        average = (n * mean).sum(axis=0) / total
        std = np.sqrt((kept["m2"][back] + n * (mean - average) ** 2).sum(axis=0) / total)
        worst["mean"] = max(worst["mean"], float((abs(columns["mean"][:, w] - average) / average).max()))
        worst["std"] = max(worst["std"], float((abs(columns["std"][:, w] - std) / std).max()))
        largest = kept["mean"][back].max(axis=0).astype(np.float32)
        worst["max"] += float((columns["max"][:, w] != largest).sum())
        wanted = np.quantile(
            kept["mean"][back].astype(np.float32), np.array(PERCENTILES) / 100, axis=0, method="inverted_cdf"
        )
        worst["percentile"] += float((columns["percentile"][:, w] != np.moveaxis(wanted, 0, -1)).sum())


def main(argv: list[str]) -> int:
    """Run with the number of samples and machines given, else 10,000,000 and 1,000."""
    samples, machines = [int(a) for a in argv] or [10_000_000, 1000]
    started = time.perf_counter()
    result = long_run(samples, machines)
    print(json.dumps(result | {"seconds": round(time.perf_counter() - started, 1)}))  # noqa: T201
    return 0 if result["mean"] < 1e-6 and result["std"] < 1e-6 and not result["max"] + result["percentile"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
