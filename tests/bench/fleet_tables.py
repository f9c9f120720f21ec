"""The fleet of the benches that run in one process, and the bare pass of numpy that they are compared with."""

import time

import numpy as np

from schemas.tables.window_table import Header, decode_table, encode_table

NOW_S = 1_700_000_000.0
WINDOWS_S = (300, 900, 3600)


def fleet_table(machines, seed=0):
    """Return a table of machines of six sizes under random load."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 3, machines)
    cpu = np.array([32.0, 64.0, 96.0])[size]
    capacity = np.array([cpu, cpu * rng.choice([4e9, 8e9], machines), np.full(machines, 1.25e9)])
    mean = (0.05 + 0.6 * rng.random((len(WINDOWS_S), 3, machines))) * capacity
    columns = {
        "at": np.full(machines, NOW_S - 5), "skew": np.zeros(machines, "f4"), "end": np.full(machines, NOW_S - 5),
        "boot": np.zeros(machines), "interval_s": np.full(machines, 10, "f4"), "capacity": capacity, "mean": mean,
        "std": (0.2 * mean).astype("f4"), "max": (1.3 * mean).astype("f4"),
        "percentile": np.stack([mean, 1.1 * mean, 1.15 * mean, 1.2 * mean], 2).astype("f4"),
        "filled": np.broadcast_to((np.array(WINDOWS_S) // 10)[:, None, None], mean.shape).astype("u2"),
        "coverage": np.ones(mean.shape, "f4"), "peak_today": (1.3 * mean[0]).astype("f4"),
        "peak_yesterday": (1.2 * mean[0]).astype("f4"), "peak_since": np.zeros(machines),
    }  # fmt: skip
    names = "\n".join(f"machine-{number:06}" for number in range(machines)).encode()
    return decode_table(encode_table(Header(machines=machines, windows_s=WINDOWS_S, columns=[]), columns, names))


def bare_pass(snapshot):
    """Return a mean, std and argmax over the columns that the default scores read."""
    view = snapshot.windows()
    columns = np.concatenate([view.mean, view.std, snapshot.allocatable])
    return lambda: (columns.mean(axis=1), columns.std(axis=1), columns.argmax(axis=1))


def bare_s(snapshot):
    """Return the processor time of a bare pass."""
    bare, begin = bare_pass(snapshot), time.process_time()
    for _ in range(100):
        bare()
    return (time.process_time() - begin) / 100
