"""Fits: the request is at most allocatable less what is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import InvalidRequest
from scorer.classes.by_class import ByClass
from scorer.classes.strategy import Reclaim
from scorer.ledger.record.limits import Limit, total
from scorer.ranking.formulas.selectors import parse_selector, select
from scorer.ranking.formulas.thresholds import as_column
from scorer.ranking.plugin import Bools, Detail, Floats, Machines, Plugin, Reasons, Request
from scorer.snapshot.arrays import ROUNDING, numbers

RATIO_MAX = 100.0


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
        ``taken`` is the larger of allocated and usage with credits; ``requests``: only what is allocated,
        as kube-scheduler does it (NodeResourcesFit).
    default_cpu, default_memory:
        what an instance without an amount counts in cores and bytes, the requested one and those placed.
        kube-scheduler scores with 0.1 and 200 Mi, and filters with 0.

    classes:
        if given, each priority class has a sum of its own (`scorer.classes.by_class`): prod's is compared with
        allocatable * ratio, mid's and batch's with what higher classes leave. The settings are those of
        `scorer.classes.strategy`; ``{}`` has Koordinator's defaults. Without it all classes are one sum.

    A requested resource of unknown capacity does not fit; nor does, with basis ``taken``, one of unknown usage.
    """

    name = "fits"
    reason = "too small"
    scope = "machine"

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

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request that asks for nothing."""
        return any(self._amounts(machines).tolist())

    def __call__(self, request: Request, machines: Machines) -> Bools:
        amounts = self._amounts(machines)
        return machines.below(
            self._left(machines), amounts, [r for r, amount in enumerate(amounts.tolist()) if amount > 0]
        )

    def reasons(self, request: Request, machines: Machines) -> Reasons:
        """Name the resource that is short."""
        found: dict[str, Bools] = {}
        amounts = self._amounts(machines)
        if (by_class := self.by_class(machines)) is not None:
            return by_class.reasons(amounts)
        left, most = self._left(machines), self._most(machines)
        for resource, amount in enumerate(amounts.tolist()):
            short = ~(left[resource] >= amount)
            if amount > 0 and np.count_nonzero(short):
                name, limit = RESOURCES[resource], most[resource]
                unknown = np.isnan(limit)
                found[f"{name} capacity unknown"] = unknown
                found[f"{name} usage unknown"] = np.isnan(left[resource]) > unknown
                found[f"{name} larger than the machine"] = amount > limit * (1 + ROUNDING)
                found[f"{name} too full"] = short
        return found

    def limit(self, request: Request, machines: Machines) -> Iterator[Limit]:
        """Limit the allocated amount of each requested resource; the ledger does not know the usage."""
        if (by_class := self.by_class(machines)) is not None:
            yield from by_class.limits(machines.amounts)
            return
        for resource in np.flatnonzero(machines.amounts):
            name = RESOURCES[resource]
            yield Limit(total(name), self._most(machines)[resource], f"{name} too full")

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show both sides of the comparison."""
        if (by_class := self.by_class(machines)) is not None:
            ratio = numbers(self._ratio(machines)[:, position])
            return {"request": numbers(machines.amounts), "ratio": ratio, **by_class.detail(position)}
        return {
            "request": numbers(self._amounts(machines)),
            "taken": numbers(self._taken(machines)[:, position]),
            "promised": numbers(machines.allocated[:, position]),
            "allocatable": numbers(machines.allocatable[:, position]),
            "ratio": numbers(self._ratio(machines)[:, position]),
            "limit": numbers(self._most(machines)[:, position]),
        }

    def _amounts(self, machines: Machines) -> Floats:
        if self.default_cpu or self.default_memory:
            return machines.amounts_or(self.default_cpu, self.default_memory)
        return machines.amounts

    def _taken(self, machines: Machines) -> Floats:
        if not (self.default_cpu or self.default_memory):
            return machines.taken if self.basis == "taken" else machines.allocated
        allocated = self._allocated(machines)
        return np.maximum(allocated, machines.mean) if self.basis == "taken" else allocated

    def _allocated(self, machines: Machines) -> Floats:
        if not (self.default_cpu or self.default_memory):
            return machines.allocated
        return machines.requested_or(self.default_cpu, self.default_memory)

    def _left(self, machines: Machines) -> Floats:
        """Return [R, n]: how much may still be requested."""
        if (by_class := self.by_class(machines)) is not None:
            left: Floats = by_class.left
        elif not self._any_ratio(machines):
            left = machines.derived("left", lambda m: m.allocatable * (1 + ROUNDING) - self._taken(m))
        else:
            left = machines.derived("left", self._left_of_both)
        return left

    def _left_of_both(self, machines: Machines) -> Floats:
        """Return [R, n]: the lesser of what may still be allocated and of what may still be used."""
        most = self._most(machines)
        promised = most * (1 + ROUNDING) - self._allocated(machines)
        if self.basis == "requests":
            return promised
        used: Floats = np.maximum(most, machines.allocatable) * (1 + ROUNDING) - machines.mean
        return np.minimum(promised, used)

    def by_class(self, machines: Machines) -> ByClass | None:
        """Return the sums of the request's class; None where all classes are one."""
        if (strategy := self.classes) is None:
            return None
        found: ByClass = machines.once(
            "by class",
            lambda: ByClass(strategy, machines, self._most(machines), usage_counts=self.basis == "taken"),
        )
        return found

    def _any_ratio(self, machines: Machines) -> bool:
        return bool(self.ratio or self.ratio_where or machines.rules.has_ratio)

    def _most(self, machines: Machines) -> Floats:
        """Return [R, n]: the most that may be allocated."""
        if not self._any_ratio(machines):
            return machines.allocatable
        most: Floats = machines.constant("most", lambda m: m.allocatable * self._ratio(m))
        return most

    def _ratio(self, machines: Machines) -> Floats:
        """Return [R, n]: the operator's, else that of the last selector that matches, else the profile's, else 1."""
        ratio = np.repeat(as_column(self.ratio, 1.0), len(machines), axis=1)
        for each in self.ratio_where:
            given, matches = as_column(each.ratio, np.nan), select(each.selector, machines, "ratio_where")
            ratio = np.where(matches & np.isfinite(given), given, ratio)
        own = machines.rule("ratio")
        return np.where(np.isfinite(own), own, ratio)
