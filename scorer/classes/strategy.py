"""The settings of over-commit by class: how much is reclaimed, and from which figures; the sums that they compare."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.snapshot.arrays import Floats, Integers

Policy = Literal["usage", "request", "max-usage-request"]
SHARE_MAX = 10.0


@dataclass(frozen=True)
class Reclaim:
    """Settings of reclaimable capacity; the defaults are Koordinator's.

    share:
        by resource, the share of capacity that all classes together may take; the rest is a safety margin. Above 1 the
        machine is over-committed even by what is in use. Only resources named here are sold by class; the others are
        counted for all classes together.
    policy:
        by resource, what prod and mid are counted by for batch: ``usage``; ``request``; ``max-usage-request``, of each
        instance the larger one. Default ``usage``.
    batch_share:
        by resource, the share of capacity that batch gets at most. Without one it has no other limit.
    mid_share:
        by resource, the share of capacity that mid gets at most. Default 1.
    mid_unallocated:
        share of the capacity that prod has not requested that mid gets in addition to the prediction.
    mid_static:
        by resource, if given: mid gets this share of capacity, whatever is predicted.
    degrade_s:
        nothing is reclaimed of a machine whose data is older than this.
    peak_margin:
        by how much a predicted peak is raised.
    """

    share: Mapping[str, float] = field(default_factory=lambda: {"cpu": 0.6, "memory": 0.65})
    policy: Mapping[str, Policy] = field(default_factory=dict)
    batch_share: Mapping[str, float] = field(default_factory=dict)
    mid_share: Mapping[str, float] = field(default_factory=dict)
    mid_unallocated: float = 0.0
    mid_static: Mapping[str, float] = field(default_factory=dict)
    degrade_s: float = 900.0
    peak_margin: float = 0.1

    def __post_init__(self) -> None:
        if not self.share:
            raise ValueError("share: expected at least one resource")
        for name in ("share", "policy", "batch_share", "mid_share", "mid_static"):
            for resource in getattr(self, name):
                if resource not in RESOURCES:
                    raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
                if name != "share" and resource not in self.share:
                    raise ValueError(f"{name}.{resource}: share names no {resource}, so it is not sold by class")
        for name in ("share", "batch_share", "mid_share", "mid_static"):
            for resource, share in getattr(self, name).items():
                if not 0 <= share <= SHARE_MAX:
                    raise ValueError(f"{name}.{resource}: expected 0 to {SHARE_MAX:g}, got {share}")
        if not 0 <= self.mid_unallocated <= 1:
            raise ValueError(f"mid_unallocated: expected 0 to 1, got {self.mid_unallocated}")
        if not 0 < self.degrade_s < float("inf"):
            raise ValueError(f"degrade_s: expected more than 0, got {self.degrade_s}")
        if not 0 <= self.peak_margin <= SHARE_MAX:
            raise ValueError(f"peak_margin: expected 0 to {SHARE_MAX:g}, got {self.peak_margin}")

    @property
    def rows(self) -> list[int]:
        """The resources that are sold by class, as rows of a resource axis."""
        return [row for row, name in enumerate(RESOURCES) if name in self.share]


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
    return np.array(sums, np.float64).swapaxes(1, 2)


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
