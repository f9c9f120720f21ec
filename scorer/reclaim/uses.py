"""What the instances of a machine ask for and use, as sums: of prod, and of prod with mid. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.snapshot.arrays import Bools, Floats, Integers

PROD, MID, BATCH, FREE = range(len(PRIORITY_CLASSES))


@dataclass(frozen=True)
class Uses:
    """Sums [R, n] over the instances of each machine."""

    requested: Floats
    """What prod and mid ask for."""
    used: Floats
    """What prod and mid use; what they ask for where that is not measured."""
    larger: Floats
    """Of each instance of prod and mid the larger of the two; what it asks for where its usage is not measured.

    The peer forgets the latter for a whole machine, and counts it for a NUMA zone; no row of its tables shows which.
    """
    prod_requested: Floats
    """What prod asks for."""
    measured: Floats
    """Measured usage of all classes."""
    unmeasured: Floats
    """What prod and mid ask for where their usage is not measured."""
    lower: Floats
    """Measured usage of batch and free."""


def uses_of(
    rows: Integers,
    machines: int,
    classes: NDArray[np.integer],
    amounts: Floats,
    measured: Floats,
    by_request: Bools | None = None,
) -> Uses:
    """Return the sums over K instances.

    ``rows`` [K]: the machine of each, of 0 to ``machines``; ``classes`` [K]: its position in `PRIORITY_CLASSES`;
    ``amounts`` [R, K]: what it asks for; ``measured`` [R, K]: what it uses, NaN where that is not known;
    ``by_request`` [R, K]: where what it asks for counts as used although it is measured.
    """
    known, high = np.isfinite(measured), classes <= MID
    use = np.where(known, measured, 0.0)
    used = np.where(known, use, amounts)
    if by_request is not None:
        used = np.where(by_request, amounts, used)

    def total(values: Floats, some: Bools) -> Floats:
        if not rows.size:
            return np.zeros((len(RESOURCES), machines))
        return np.array([np.bincount(rows, part, minlength=machines) for part in np.where(some, values, 0.0)])

    return Uses(
        requested=total(amounts, high),
        used=total(used, high),
        larger=total(np.maximum(amounts, use), high),
        prod_requested=total(amounts, classes == PROD),
        measured=total(use, known),
        unmeasured=total(amounts, high & ~known),
        lower=total(use, known & ~high),
    )
