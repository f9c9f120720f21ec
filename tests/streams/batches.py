"""Batches made directly as columns: millions of samples without a million messages."""

import numpy as np

from schemas.messages.sample import Moments, Sample
from streams.fold.batch import Batch
from streams.fold.ring import R, slot_of

START = 1_790_000_000 // 86_400 * 86_400
"""A midnight in UTC."""


def batch_of(machines, at, mean, **more):
    """Return K samples; ``mean`` is [K] (all resources alike) or [K, R], NaN where a resource is left out.

    ``n``, ``m2``, ``max`` and ``capacity`` broadcast to [K, R], the rest to [K].
    """
    count = len(machines)
    at = np.broadcast_to(np.asarray(at, np.float64), (count,))
    mean = np.asarray(mean, np.float64)
    mean = np.array(np.broadcast_to(mean if mean.ndim == 2 else mean.reshape(-1, 1), (count, R)))
    absent = np.isnan(mean)

    def wide(name, default, blank):
        values = np.array(np.broadcast_to(np.asarray(more.get(name, default), np.float64), (count, R)))
        values[absent] = blank
        return values

    def narrow(name, default):
        return np.array(np.broadcast_to(np.asarray(more.get(name, default), np.float64), (count,)))

    columns = {
        "n": wide("n", 10, 0),
        "m2": wide("m2", 0, 0),
        "max": wide("max", np.where(absent, 0, mean), 0),
        "capacity": wide("capacity", 1e12, np.nan),
    }
    mean[absent] = 0
    return Batch(
        machines=list(machines),
        at=np.array(at),
        slot=slot_of(at),
        boot=narrow("boot", 1),
        seq=narrow("seq", at - START),
        interval_s=narrow("interval_s", 10),
        recorded_at=narrow("recorded_at", at + 0.05),
        host=narrow("host", 0).astype(np.uint64),
        mean=mean,
        classes=more.get("classes", []),
        **columns,
    )


def moments_of(readings):
    """Return n, mean, m2 and maximum of raw readings, as an agent would."""
    values = np.asarray(readings, np.float64)
    mean = float(values.mean())
    return len(values), mean, float(((values - mean) ** 2).sum()), float(values.max())


def sample(machine="m", slot=0, **more):
    """Return a plain sample of one slot after START; any field can be given."""
    at = START + slot * 10 + 3.0
    value = 1.0 + slot % 7
    fields = {
        "v": 1,
        "machine": machine,
        "boot": 1,
        "seq": max(slot, 0),
        "at": at,
        "interval_s": 10.0,
        "cpu": Moments(10, value, 0.5, value + 1, 64.0),
        "memory": Moments(10, value * 1e9, 1e12, value * 1e9 + 1e6, 1.37e11),
    }
    return Sample(**(fields | more))
