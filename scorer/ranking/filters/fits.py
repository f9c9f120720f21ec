"""Fits: the request is at most the allocatable amount less the taken one.

With ``classes`` each priority class has a sum of its own, which is compared with the limit of that class:

    class   the sum of                  is at most
    prod    prod's amounts              allocatable * ratio; usage without lower classes: as far as without classes
    mid     mid's amounts               what prod asked for and will not use
    batch   batch's amounts             what prod, mid and the system do not use
    free    batch's and free's amounts  the same as batch

Sums of two rows are never added together. A resource that is not sold by class counts for all classes together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import InvalidRequest
from scorer.classes.reclaimed import GROUPS, degraded, reckoning, reclaimable
from scorer.classes.strategy import ASKED, BATCH, MEASURED, Reclaim
from scorer.ledger.record.limits import Limit, total
from scorer.ranking.formulas.selectors import parse_selector, select
from scorer.ranking.kernel.layout import R, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request, as_column, by_resource
from scorer.snapshot.arrays import ROUNDING, Bools, numbers
from scorer.snapshot.rules import MachineRules


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
        sold = [RESOURCES[row] for row in self._sold]
        made_of = {
            what: {name: said for name, said in numbers(values[:, position]).items() if name in sold}
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


RATIO_MAX = 100.0
_WHYS = (
    "{name} capacity unknown", "{name} usage unknown", "{name} larger than the machine", "too much {name} promised",
    "nothing to reclaim for CLASS: data too old", "no {name} to reclaim for CLASS",
    "{name} of CLASSES above what is reclaimable", "too much {name} of prod", "too much {name} used",
)  # fmt: skip


@dataclass(frozen=True)
class RatioWhere:
    """The ratios of the machines that a selector matches."""

    selector: str
    ratio: Mapping[str, float]


@dataclass(frozen=True)
class Fits(Plugin):
    """Refuse machines where ``taken + request > allocatable`` in any resource that is requested.

    With a ratio, allocated + request may go up to ``allocatable * ratio``. Usage + request may go up to allocatable, or
    to ``allocatable * ratio`` where that is more.

    ratio:
        by resource; 1 where none is given. The operator's ratio of a machine wins.
    ratio_where:
        a list of a ``selector`` of labels and the ``ratio`` of the machines that it matches; later ones win.
    basis:
        ``taken`` is the larger of allocated and usage with credits; ``requests``: only the allocated amounts,
        as kube-scheduler does it (NodeResourcesFit).
    default_cpu, default_memory:
        the cores and bytes assumed for an instance that requests none, whether new or placed.
        kube-scheduler scores with 0.1 and 200 Mi, and filters with 0.

    classes:
        if given, each priority class has a sum of its own (`scorer.ranking.filters.fits`): prod's is compared with
        allocatable * ratio, mid's and batch's with the part that higher classes leave. The settings are those of
        `scorer.classes.strategy`; ``{}`` has Koordinator's defaults. Without it all classes are one sum.

    A requested resource of unknown capacity does not fit; nor does, with basis ``taken``, one of unknown usage.
    """

    name = "fits"
    reason = "too small"
    struct = struct(
        ratio=("f8", R), missing=("f8", R), sold=("?", R), promised_alone="i4", by_class="i4", ratio_columns="i4",
        plain="i4",
    )  # fmt: skip

    basis: Literal["taken", "requests"] = "taken"
    default_cpu: float = 0.0
    default_memory: float = 0.0
    ratio: Mapping[str, float] = field(default_factory=dict)
    ratio_where: tuple[RatioWhere, ...] = ()
    classes: Reclaim | None = None

    def __post_init__(self) -> None:
        for where, given in (("ratio", self.ratio), *(("ratio_where", each.ratio) for each in self.ratio_where)):
            for resource, ratio in given.items():
                if resource not in RESOURCES:
                    raise ValueError(f"{where}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
                if not 0 < ratio <= RATIO_MAX:
                    raise ValueError(f"{where}.{resource}: expected more than 0 and at most {RATIO_MAX:g}, got {ratio}")
        for each in self.ratio_where:
            try:
                parse_selector(each.selector)
            except InvalidRequest as error:
                raise ValueError(f"ratio_where: {error}") from None
        if self.default_cpu < 0 or self.default_memory < 0:
            raise ValueError("default_cpu and default_memory: expected zero or more")
        if self.classes is not None and (self.default_cpu or self.default_memory):
            raise ValueError("classes: sums by class have no default_cpu and default_memory")

    def compares(self) -> Sequence[tuple[str, str]]:
        more = (", by class" if self.classes is not None else "") + (
            "; ratio_where has others" if self.ratio_where else ""
        )
        found = []
        for name in RESOURCES:
            ratio = self.ratio.get(name, 1.0)
            found.append((name, f"promised at most {ratio:g} of allocatable{more}"))
            if self.basis == "taken":
                found.append((name, f"used (mean), with the request, at most {max(1.0, ratio):g} of allocatable"))
        return found

    def wanted(self, request: Request, machines: Machines) -> bool:
        return any(self._amounts(machines).tolist())

    @property
    def reasons(self) -> Sequence[str]:
        """Name the resource that is short; reasons by class have a placeholder for the class (`named`)."""
        return [why.format(name=name) for name in RESOURCES for why in _WHYS]

    def named(self, why: str, request: Request) -> str:
        if self.classes is None:
            return why
        counted = GROUPS[request.priority_class]
        return why.replace("CLASSES", " and ".join(counted)).replace("CLASS", request.priority_class)

    def needs(self, rules: MachineRules) -> frozenset[str]:
        """Return ``classes``, the sums by priority class, where each class has its own limit."""
        return frozenset() if self.classes is None else frozenset(["classes"])

    def derived(self) -> dict[str, Any]:
        classes, defaults = self.classes, [self.default_cpu, self.default_memory, *[0.0] * (R - 2)]
        return {
            "ratio": [self.ratio.get(name, 1.0) for name in RESOURCES],
            "missing": defaults,
            "sold": [classes is not None and row in classes.rows for row in range(R)],
            "promised_alone": self.basis == "requests",
            "by_class": classes is not None,
            "ratio_columns": bool(self.ratio_where) and classes is None,
            "plain": classes is None and not self.ratio_where and not any(defaults),
        }

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        """Return by class what is left, the limit and the usage; without classes the ratios by selector."""
        if (by_class := self.by_class(machines)) is not None:
            return (*by_class.left, *by_class.most, *by_class.used, by_class.old.astype(np.float64))
        return tuple(self._ratio(machines)) if self.ratio_where else ()

    def far(self, request: Request, machines: Machines) -> bool:
        """Return whether sums by class must be computed again for each instance."""
        return self.classes is not None

    def limit(self, request: Request, machines: Machines) -> Iterator[Limit]:
        """Limit the allocated amount of each requested resource; the ledger does not know the usage."""
        if (by_class := self.by_class(machines)) is not None:
            yield from by_class.limits(machines.amounts)
            return
        most = self._most(machines)
        for name, amount, of in zip(RESOURCES, machines.amounts.tolist(), most, strict=True):
            if amount:
                yield Limit(total(name), of, f"too much {name} promised")

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        if (by_class := self.by_class(machines)) is not None:
            return {"request": numbers(machines.amounts), "ratio": by_resource(said, 3), **by_class.detail(position)}
        return {
            "request": numbers(self._amounts(machines)),
            "taken": by_resource(said, 0),
            "promised": by_resource(said, 1),
            "allocatable": by_resource(said, 2),
            "ratio": by_resource(said, 3),
            "limit": by_resource(said, 4),
        }

    def _amounts(self, machines: Machines) -> Floats:
        if self.default_cpu or self.default_memory:
            return machines.amounts_or(self.default_cpu, self.default_memory)
        return machines.amounts

    def by_class(self, machines: Machines) -> ByClass | None:
        """Return the sums of the request's class; None where all classes are one."""
        if self.classes is None:
            return None
        return ByClass(self.classes, machines, self._most(machines), usage_counts=self.basis == "taken")

    def _most(self, machines: Machines) -> Floats:
        """Return [R, n]: the most that may be allocated."""
        most: Floats = machines.allocatable * self._ratio(machines)
        return most

    @cached_property
    def _stated(self) -> Floats:
        return as_column(self.ratio, 1.0)

    def _ratio(self, machines: Machines) -> Floats:
        """Return [R, n], or [R, 1] where all have the same.

        The operator's ratio, else that of the last matching selector, else the profile's, else 1.
        """
        ratio = self._stated
        for each in self.ratio_where:
            given, matches = as_column(each.ratio, np.nan), select(each.selector, machines, "ratio_where")
            ratio = np.where(matches & np.isfinite(given), given, ratio)
        if not machines.rules.has_ratio:
            return ratio
        own = machines.rule("ratio")
        return np.where(np.isfinite(own), own, ratio)
