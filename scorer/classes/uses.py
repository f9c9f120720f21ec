"""Requests and usage of a machine's instances, as sums by class. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES
from scorer.snapshot.arrays import Floats, Integers

PROD, MID, BATCH, FREE = range(len(PRIORITY_CLASSES))


@dataclass(frozen=True)
class Uses:
    """Sums [R, n] over the instances of each machine."""

    requested: Floats
    """The requests of prod and mid."""
    used: Floats
    """The usage of prod and mid; their requests where the usage is not measured."""
    larger: Floats
    """The larger of request and usage of each instance of prod and mid; the request where usage is not measured.

    Koordinator omits unmeasured ones for a whole machine, but counts them for a NUMA zone; none of its tests shows it.
    """
    prod_requested: Floats
    """The requests of prod."""
    measured: Floats
    """Measured usage of all classes."""
    unmeasured: Floats
    """The requests of prod and mid whose usage is not measured."""
    below_prod: Floats
    """Measured usage of mid, batch and free."""


ASKED, MEASURED, UNMEASURED, COUNTED, LARGER = range(5)
"""The planes of `sums_by_class`."""


def sums_by_class(
    rows: Integers, machines: int, classes: NDArray[np.integer], amounts: Floats, measured: Floats
) -> Floats:
    """Return [5, C, R, n]: sums over K instances by class and machine, made in one pass.

        ASKED        what they ask for
        MEASURED     what they use, of those whose usage is measured
        UNMEASURED   what the others ask for
        COUNTED      what they use, of the others what they ask for
        LARGER       the larger of the two, instance by instance

    ``rows`` [K]: the machine of each, of 0 to ``machines``; ``classes`` [K]: its position in `PRIORITY_CLASSES`;
    ``amounts`` [R, K]: what it asks for; ``measured`` [R, K]: what it uses, NaN where that is not known.
    """
    count, (resources, _) = len(PRIORITY_CLASSES), amounts.shape
    at = (np.arange(resources)[:, None] * (count * machines) + (classes.astype(np.int64) * machines + rows)).ravel()
    known = np.isfinite(measured)
    use = np.where(known, measured, 0.0)
    unmeasured = np.where(known, 0.0, amounts)
    planes = (amounts, use, unmeasured, use + unmeasured, np.maximum(amounts, use))
    size = resources * count * machines
    sums = [np.bincount(at, plane.ravel(), minlength=size).reshape(resources, count, machines) for plane in planes]
    found: Floats = np.array(sums, np.float64).swapaxes(1, 2)
    return found


def uses_from(sums: Floats) -> Uses:
    """Return the inputs of batch and mid, from `sums_by_class` [5, C, R, n]."""
    high = sums[:, PROD] + sums[:, MID]
    below_prod = sums[MEASURED, MID] + sums[MEASURED, BATCH] + sums[MEASURED, FREE]
    return Uses(
        requested=high[ASKED],
        used=high[COUNTED],
        larger=high[LARGER],
        prod_requested=sums[ASKED, PROD],
        measured=sums[MEASURED, PROD] + below_prod,
        unmeasured=high[UNMEASURED],
        below_prod=below_prod,
    )
