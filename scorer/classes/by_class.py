"""Fits by class: each priority class has a sum of its own, which is compared with the limit of that class.

    class   the sum of                  is at most
    prod    prod's amounts              allocatable * ratio; usage without lower classes: as far as without classes
    mid     mid's amounts               what prod asked for and will not use
    batch   batch's amounts             what prod, mid and the system do not use
    free    batch's and free's amounts  the same as batch

Sums of two rows are never added together. A resource that is not sold by class counts for all classes together.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.classes.capacity import degraded
from scorer.classes.reclaimed import GROUPS, reckoning, reclaimable
from scorer.classes.strategy import ASKED, BATCH, MEASURED, Reclaim
from scorer.ledger.record.limits import Limit, total
from scorer.snapshot.arrays import ROUNDING, Bools, Floats, numbers


class ByClass:
    """The sums of the requested instance's class on some machines, and their limits, [R, n] each."""

    def __init__(self, strategy: Reclaim, machines: Any, promised: Floats, *, usage_counts: bool) -> None:
        """``promised`` [R, n]: the limit of prod, or of all classes for a resource that is not sold by class."""
        self.priority_class = machines.request.priority_class
        self.counted = GROUPS[self.priority_class]
        self._strategy, self._machines, self._promised = strategy, machines, promised
        self._usage_counts = usage_counts
        self._sold = strategy.rows
        self._reclaims = self.priority_class != "prod"

    @cached_property
    def own(self) -> Floats:
        """[R, n] Allocated to the instances of the classes that count."""
        found: Floats = self._machines.allocated.copy()
        codes = [PRIORITY_CLASSES.index(one) for one in self.counted]
        found[self._sold] = self._machines.of_classes[ASKED, codes].sum(axis=0)[self._sold]
        return found

    @cached_property
    def most(self) -> Floats:
        """[R, n] The most that may be allocated to them."""
        if not self._reclaims:
            return self._promised
        machines, strategy, of = self._machines, self._strategy, self.priority_class
        kept = "mid" if of == "mid" else "batch"
        found = self._promised.copy()
        found[self._sold] = np.where(self.old, 0.0, reclaimable(machines, strategy, kept)[self._sold])
        return found

    @cached_property
    def old(self) -> Bools:
        """[n] The machines whose data is so old that nothing is reclaimed."""
        return degraded(self._strategy, self._machines.age_s)

    @cached_property
    def used(self) -> Floats:
        """[R, n] The usage that is compared: all of it, but for prod without that of lower classes."""
        used: Floats = self._machines.mean.copy()
        if not self._reclaims:
            lower = self._machines.of_classes[MEASURED, BATCH:].sum(axis=0)
            used[self._sold] = np.maximum(used[self._sold] - lower[self._sold], 0.0)
        return used

    @cached_property
    def left(self) -> Floats:
        """[R, n] What may still be allocated; NaN where unknown."""
        left: Floats = self.most * (1 + ROUNDING) - self.own
        if self._usage_counts:
            there = np.maximum(self._promised, self._machines.allocatable) * (1 + ROUNDING) - self.used
            rows = [row for row in range(len(RESOURCES)) if not (self._reclaims and row in self._sold)]
            left[rows] = np.minimum(left[rows], there[rows])
        return left

    def limits(self, amounts: Floats) -> Iterator[Limit]:
        """Yield the limit on each sum, for the ledger's script to compare."""
        for row in np.flatnonzero(amounts).tolist():
            name = RESOURCES[row]
            if row in self._sold:
                what = f"{name} of {' and '.join(self.counted)}"
                yield Limit(total(name, *self.counted), self.most[row], f"too much {what} promised")
            else:
                yield Limit(total(name), self.most[row], f"too much {name} promised")

    def detail(self, position: int) -> Mapping[str, Any]:
        """Return for people which sum was compared, of which classes, with which limit, and the limit's terms."""
        made_of = {
            what: {name: said for name, said in numbers(values[:, position]).items() if self._is_sold(name)}
            for what, values in self._reckoning.items()
        }
        return {
            "class": self.priority_class,
            "counted": list(self.counted),
            "promised": numbers(self.own[:, position]),
            "used": numbers(self.used[:, position]),
            "allocatable": numbers(self._machines.allocatable[:, position]),
            "limit": numbers(self.most[:, position]),
            **{what: said for what, said in made_of.items() if any(each is not None for each in said.values())},
        }

    @cached_property
    def _reckoning(self) -> Mapping[str, Floats]:
        return reckoning(self._machines, self._strategy, self.priority_class) if self._reclaims else {}

    def _is_sold(self, name: str) -> bool:
        return RESOURCES.index(name) in self._sold
