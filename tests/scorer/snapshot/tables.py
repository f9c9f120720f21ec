"""Window tables as the stream app would write them, of machines that are all alike."""

import numpy as np

from schemas.tables.window_table import Header, decode_table, encode_table


def table(names, at=100.0, mean=1.0, windows_s=(300, 3600)):
    """Return a table of machines that all use as much."""
    n, w = len(names), len(windows_s)
    columns = {
        "at": np.full(n, at),
        "version": np.ones(n, np.int64),
        "end": np.full(n, at),
        "interval_s": np.full(n, 10.0, "f4"),
        "capacity": np.full((3, n), 10.0),
        "mean": np.full((w, 3, n), mean),
        "coverage": np.ones((w, 3, n), "f4"),
    }
    return decode_table(
        encode_table(Header(machines=n, windows_s=windows_s, columns=[]), columns, "\n".join(names).encode())
    )
