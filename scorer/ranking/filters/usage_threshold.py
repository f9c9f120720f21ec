"""Usage threshold: usage with the requested instance stays below a share of allocatable, by resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from schemas.resources import OPTIONAL, RESOURCES
from scorer.ranking.formulas.allocation import whole
from scorer.ranking.formulas.statistics import KOORDINATOR_EXPIRATION_S, ResourceName, Statistic, prod_usage, statistic
from scorer.ranking.formulas.thresholds import Thresholds, as_column, check_thresholds, left_below, limits_of
from scorer.ranking.plugin import Bools, Detail, Floats, Machines, Plugin, Reasons, Request
from scorer.snapshot.arrays import ROUNDING, numbers, picking

_NOWHERE: Bools = np.zeros(1, np.bool_)


@dataclass(frozen=True)
class UsageThreshold(Plugin):
    """Refuse machines where ``usage + expected > threshold * allocatable`` in any resource.

    ``usage`` includes the credits of placed instances, ``expected`` is the requested instance's. A resource without a
    threshold, with one of 0, or without allocatable is not compared.

    thresholds:
        by resource, of the mean.
    percentile_thresholds, statistic:
        if given, these instead, of a percentile (``p50 p90 p95 p99``) or the maximum.
    prod_thresholds, prod_with_system:
        for a request of class prod, if given, these before all others, of the measured usage by class prod: as samples
        split it, else the sum over the instances that are prod in the ledger; with the second, plus the system's.
    An operator's thresholds of a machine replace each group as a whole, there. A group of zeros is given, and switches
    the others off.

    The peer's (Koordinator LoadAwareScheduling) checks, in its order, are switched on by:

    expiration_s:
        0: age is not compared (use the filter `fresh`). Else data of this age is refused, or passes with
        ``pass_expired``; a machine without any threshold passes before that.
    missing:
        without data for the statistic: ``refuse``; ``pass``; ``estimates`` or ``mean``: pass without any data. Where
        only this statistic is missing, ``estimates`` counts those of all instances placed, as the peer does for a
        window of a given length. ``mean`` counts the mean, as the peer does without one.
    rounding:
        compare whole percents, rounded half away from zero, of whole millicores and bytes.
    optional:
        resources that a machine need not report: compared where it does, or where the instance is expected to use them.
    """

    name = "usage_threshold"
    reason = "over threshold"
    scope = "machine"
    momentary = True

    thresholds: Thresholds = field(default_factory=dict)
    percentile_thresholds: Thresholds = field(default_factory=dict)
    statistic: Statistic = "p95"
    prod_thresholds: Thresholds = field(default_factory=dict)
    prod_with_system: bool = False
    expiration_s: float = 0.0
    pass_expired: bool = False
    missing: Literal["refuse", "pass", "estimates", "mean"] = "refuse"
    rounding: bool = False
    optional: tuple[ResourceName, ...] = OPTIONAL

    def __post_init__(self) -> None:
        for name in ("thresholds", "percentile_thresholds", "prod_thresholds"):
            check_thresholds(name, getattr(self, name))
        if not self.expiration_s >= 0:
            raise ValueError(f"expiration_s: expected zero or more, got {self.expiration_s}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while no threshold is set."""
        rules = machines.rules
        return bool(
            any(self.thresholds.values())
            or any(self.percentile_thresholds.values())
            or any(self.prod_thresholds.values())
            or rules.has_thresholds
            or rules.has_prod_thresholds
            or rules.has_percentile_thresholds
        )

    def __call__(self, request: Request, machines: Machines) -> Bools:
        if not (self.rounding or self.expiration_s or self.missing != "refuse"):
            return self._below(request, machines)
        allowed: Bools = ~np.logical_or.reduce(self._over(machines), axis=0)
        if self.missing != "refuse" and not machines.has_data.all():
            allowed |= ~machines.has_data
        if self.expiration_s:
            threshold, _ = self._groups(machines)
            checked = machines.has_data & (threshold > 0).any(axis=0)
            allowed = np.where(checked & self._expired(machines), self.pass_expired, allowed)
        return allowed

    def _below(self, request: Request, machines: Machines) -> Bools:
        """Return [n], computed from the slack of each machine below its thresholds, which is kept between decisions."""
        slack = machines.derived(
            ("slack", request.priority_class == "prod"), lambda m: self._slack(m, request.priority_class)
        )
        rows = self._limited if self._means_alone(machines) else range(len(RESOURCES))
        expected = machines.expected.tolist()
        unused = [place for place, row in enumerate(rows) if row in self._optional and expected[row] <= 0]
        used = [place for place in range(len(rows)) if place not in unused] if unused else range(len(rows))
        allowed = machines.below(slack, [expected[row] for row in rows], used)
        for place in unused:
            allowed = np.greater(allowed, slack[place] < 0)  # a truth is more than no truth: allowed and not below 0
        return allowed

    @cached_property
    def _optional(self) -> list[int]:
        """The resources that a machine need not report."""
        return [RESOURCES.index(name) for name in self.optional]

    @cached_property
    def _limited(self) -> list[int]:
        """The resources with a threshold of the mean: the others refuse no machine."""
        return [row for row, name in enumerate(RESOURCES) if self.thresholds.get(name, 0.0) > 0]

    def _slack(self, machines: Machines, priority_class: str) -> Floats:
        """Return [rows, n]: threshold less usage, inf where there is no threshold, NaN where usage is unknown.

        Rows: the resources with a threshold where those of the mean are all there are, otherwise all resources.
        """
        if self._means_alone(machines):
            limit, usage = machines.constant("limit", self._limit), machines.mean[picking(self._limited)]
            everywhere = machines.of_snapshot(
                "everywhere", lambda m: bool(np.isfinite(m.constant("limit", self._limit)).all())
            )
            return limit - usage if everywhere else left_below(limit, usage)
        threshold, usage = self._groups(machines, priority_class)
        return left_below(limits_of(threshold, machines.allocatable), usage)

    def _means_alone(self, machines: Machines) -> bool:
        """Return whether there are only thresholds of the mean, for all machines."""
        rules = machines.rules
        others = bool(self.percentile_thresholds or self.prod_thresholds)
        return not (others or rules.has_thresholds or rules.has_prod_thresholds or rules.has_percentile_thresholds)

    def _limit(self, machines: Machines) -> Floats:
        rows = picking(self._limited)
        return limits_of(as_column(self.thresholds)[rows], machines.allocatable[rows])

    def reasons(self, request: Request, machines: Machines) -> Reasons:
        """Name the first resource that is over."""
        if not (self.rounding or self.expiration_s or self.missing != "refuse"):
            return self._short(request, machines)
        found: dict[str, Bools] = {}
        if self.expiration_s and not self.pass_expired:
            found["stale"] = self._expired(machines)
        over, (_, usage), by_prod = self._over(machines), self._groups(machines), self._by_prod(machines)
        for resource, name in enumerate(RESOURCES):
            _tell(found, name, over[resource], np.isnan(usage[resource]), by_prod)
        return found

    def _short(self, request: Request, machines: Machines) -> Reasons:
        """Return the same from the slack that `_below` compares; only reasons that hold for any machine."""
        slack = machines.derived(
            ("slack", request.priority_class == "prod"), lambda m: self._slack(m, request.priority_class)
        )
        found: dict[str, Bools] = {}
        expected = machines.expected.tolist()
        for place, row in enumerate(self._limited if self._means_alone(machines) else range(len(RESOURCES))):
            left, name = slack[place], RESOURCES[row]
            over = left < 0 if row in self._optional and expected[row] <= 0 else ~(left >= expected[row])
            if np.count_nonzero(over):
                _tell(found, name, over, np.isnan(left), self._by_prod(machines))
        return found

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show both sides of the comparison, as shares of allocatable."""
        threshold, usage = self._groups(machines)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (usage[:, position] + machines.expected) / machines.allocatable[:, position]
        at = position if threshold.shape[1] > 1 else 0
        by_prod = self._by_prod(machines)
        return {
            **({"usage_of": "prod"} if by_prod[position if by_prod.size > 1 else 0] else {}),
            "usage": numbers(share),
            "threshold": {name: value for name, value in numbers(threshold[:, at]).items() if value},
        }

    def _over(self, machines: Machines) -> Bools:
        """Return [R, n]: whether it is over its threshold, or not known to be under it."""
        threshold, usage = self._groups(machines)
        allocatable = machines.allocatable
        checked = (threshold > 0) & (allocatable > 0)
        if self.rounding:
            under: Bools = whole_percent(usage + machines.expected[:, None], allocatable) <= threshold * 100.0 + 1e-9
        else:
            under = usage + machines.expected[:, None] <= threshold * allocatable * (1 + ROUNDING)
        over: Bools = checked & ~under
        if self.missing != "refuse":
            return over & ~np.isnan(usage)
        for name in self.optional:
            resource = RESOURCES.index(name)
            if machines.expected[resource] == 0:
                over[resource] &= ~np.isnan(usage[resource])
        return over

    def _groups(self, machines: Machines, priority_class: str = "") -> tuple[Floats, Floats]:
        """Return thresholds [R, n or 1] and the usage [R, n] they are for: prod, percentile or mean, by machine."""
        priority_class = priority_class or machines.request.priority_class
        rules = machines.rules
        threshold, _ = _group(self.thresholds, machines, "thresholds", rules.has_thresholds)
        usage = machines.mean
        own, given = _group(
            self.percentile_thresholds, machines, "percentile_thresholds", rules.has_percentile_thresholds
        )
        if given.any():
            threshold, usage = _prefer(given, own, statistic(machines, self.statistic, self.missing), threshold, usage)
        if priority_class == "prod":
            own, given = _group(self.prod_thresholds, machines, "prod_thresholds", rules.has_prod_thresholds)
            if given.any():
                threshold, usage = _prefer(given, own, prod_usage(machines, self.prod_with_system), threshold, usage)
        return threshold, usage

    def _by_prod(self, machines: Machines) -> Bools:
        """Return [n] or [1]: whether the usage by prod is compared."""
        if machines.request.priority_class != "prod" or not (
            self.prod_thresholds or machines.rules.has_prod_thresholds
        ):
            return _NOWHERE
        return _group(self.prod_thresholds, machines, "prod_thresholds", machines.rules.has_prod_thresholds)[1]

    def _expired(self, machines: Machines) -> Bools:
        """Return [n]: whether the data is as old as the expiration, or older."""
        if machines.last_known:
            return np.zeros(len(machines), np.bool_)
        return machines.age_s >= (self.expiration_s or KOORDINATOR_EXPIRATION_S)


def _tell(found: dict[str, Bools], name: str, over: Bools, unknown: Bools, by_prod: Bools) -> None:
    """Note the machines [n] where a resource is over its threshold; ``by_prod`` [n or 1]: that of the usage by prod."""
    if np.count_nonzero(unknown):
        found[f"{name} usage by prod unknown"] = over & unknown & by_prod
        found[f"{name} usage unknown"] = over & unknown
    if by_prod is not _NOWHERE:
        found[f"{name} used by prod over threshold"] = over & by_prod
    found[f"{name} over threshold"] = over


def whole_percent(used: Floats, allocatable: Floats) -> Floats:
    """Return [R, n]: the percent as the peer rounds it, from whole amounts and in its own floats; NaN where unknown.

    So 29 of 200 are 14 %, as their quotient times 100 is a hair below 14.5, to the peer as here.
    """
    rows = list(range(len(RESOURCES)))
    with np.errstate(divide="ignore", invalid="ignore"):
        percent: Floats = np.floor(whole(used, rows) / whole(allocatable, rows) * 100.0 + 0.5)
    return percent


def _group(thresholds: Thresholds, machines: Machines, name: str, by_machine: bool) -> tuple[Floats, Bools]:
    """Return thresholds [R, n or 1] and whether there are any; a machine's own group replaces the whole group."""
    threshold, given = as_column(thresholds), np.array([bool(thresholds)])
    if not by_machine:
        return threshold, given
    own = machines.rule(name)
    has: Bools = np.isfinite(own).any(axis=0)
    return np.where(has, np.nan_to_num(own), threshold), has | given


def _prefer(
    given: Bools, threshold: Floats, usage: Floats, else_threshold: Floats, else_usage: Floats
) -> tuple[Floats, Floats]:
    """Return the first group where it is given, by machine."""
    if given.all():
        return threshold, usage
    return np.where(given, threshold, else_threshold), np.where(given, usage, else_usage)
