"""openb: requests of a production cluster with their sizes and lifetimes, for worlds whose trace has none.

Columns ``cpu_milli``, ``memory_mib``, ``creation_time``, ``deletion_time``, ``scheduled_time`` (s). Used are requests
for some CPU that were scheduled and deleted, and created from t = 9,936,000 s on, where arrivals are dense. In a file
that ends before, the time of creation does not matter. A memory that is not given counts as 0.
"""

from dataclasses import dataclass

import numpy as np

from ops.replay.traces.tables import Table
from ops.replay.workload import WorkloadError
from scorer.snapshot.arrays import Floats

DENSE_S = 9_936_000.0
COLUMNS = ("cpu_milli", "memory_mib", "creation_time", "deletion_time", "scheduled_time")
LOG_MEDIAN_S, LOG_SPREAD = 720.0, 1.9
"""Without a file: lives are log-normal with openb's median and its middle half."""
_SIZES = ((1.0, 0.3), (2.0, 0.25), (4.0, 0.25), (8.0, 0.15), (16.0, 0.05))
"""Without a file: cores and how often."""
_BYTES_PER_CORE = 4 * 2.0**30


@dataclass(frozen=True, eq=False)
class Lives:
    """Requests as they occur together: [N] each."""

    life_s: Floats
    cores: Floats
    memory_bytes: Floats


def convert(table: Table) -> Lives:
    """Return the lives in a table; raises WorkloadError naming column and row."""
    cpu, memory, created, deleted, scheduled = map(table.numbers, COLUMNS)
    used = np.isfinite(cpu) & np.isfinite(scheduled) & np.isfinite(deleted - created) & (deleted > created) & (cpu > 0)
    if (used & (created >= DENSE_S)).any():
        used &= created >= DENSE_S
    if not used.any():
        raise WorkloadError(f"{table.name}: no request was scheduled and deleted")
    memory_bytes = np.nan_to_num(memory[used], posinf=0.0, neginf=0.0) * 2.0**20
    return Lives((deleted - created)[used], cpu[used] / 1000, memory_bytes)


def without_file() -> Lives:
    """Return drawn lives and sizes with the median and middle half of openb's, without its data."""
    generator, count = np.random.default_rng(2023), 4_096
    life_s = LOG_MEDIAN_S * np.exp(LOG_SPREAD * generator.standard_normal(count))
    sizes, often = np.array(_SIZES).T
    cores = generator.choice(sizes, count, p=often)
    return Lives(life_s, cores, cores * _BYTES_PER_CORE)
