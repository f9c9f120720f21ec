"""What a filter or a score is given: all machines as one decision sees them.

`Fleet` (`scorer.fleet`) holds what does not depend on the newcomer; `Machines` adds the newcomer, the moment, and the
machines still feasible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from schemas.request import Request
from schemas.resources import RESOURCES
from scorer.days import day_start_s
from scorer.ledger_view import Facet, facets_of
from scorer.snapshot import Bools, Floats, Integers, LabelColumn, Roster

if TYPE_CHECKING:
    from scorer.fleet import Fleet

_R = len(RESOURCES)
ROUNDING = 1e-12
"""Relative slack, so that sums of floats meet a limit they equal; below a terabyte less than the ledger counts."""
Compute = Callable[["Machines"], Any]
Column = TypeVar("Column", bound=NDArray[Any])


class Machines:
    """All machines, or some rows of them, as one decision sees them. Read-only.

    Fields that plugins use: ``allocatable``, ``capacity``, ``requested``, ``mean``, ``std``, ``max``,
    ``percentile(95)``, ``class_mean("prod")``, ``peak("today")``, ``utilization``, ``deviation``, ``credit``,
    ``measured_mean`` (all [R, n]); ``maxmemory``, ``count``, ``age_s``, ``coverage``, ``warming``, ``window_s``,
    ``has_data``, ``cordon``, ``feasible`` ([n]); ``expected`` and ``amounts`` of the newcomer ([R]); ``label(key)``,
    ``tally(facets)``, ``rule(name)``.

    ``take(rows, copies)`` gives the same machines with so many copies of the newcomer already on each: how a batch
    looks ahead.
    """

    def __init__(
        self,
        fleet: Fleet,
        request: Request,
        now_s: float,
        *,
        rows: Integers | None = None,
        copies: Integers | None = None,
        feasible: Bools | None = None,
    ) -> None:
        self.fleet = fleet
        self.request = request
        self.now_s = now_s
        self.rows = rows
        self.copies = copies
        self._feasible = feasible

    @cached_property
    def amounts(self) -> Floats:
        """[R] What the newcomer requests."""
        return np.array(self.request.amounts())

    def __len__(self) -> int:
        return len(self.fleet) if self.rows is None else self.rows.size

    # ---- the newcomer

    @cached_property
    def expected(self) -> Floats:
        """[R] What the newcomer is expected to use."""
        return self.fleet.estimate.of_request(self.request)

    @cached_property
    def facets(self) -> frozenset[Facet]:
        """What the newcomer would be counted by."""
        return facets_of(self.request)

    # ---- which machines

    @cached_property
    def everybody(self) -> Bools:
        """[n] True throughout: what a filter may return when it refuses nobody, at no cost."""
        return self.fleet.everybody if self.rows is None else np.ones(len(self), np.bool_)

    def below(self, slack: Floats, amounts: Floats, resources: Sequence[int] = range(_R)) -> Bools:
        """Return [n]: whether ``amounts[r] <= slack[r]`` in all of the resources; False where the slack is NaN."""
        allowed: Bools | None = None
        for resource in resources:
            here = slack[resource] >= amounts[resource]
            allowed = here if allowed is None else np.logical_and(allowed, here, out=allowed)
        return self.everybody if allowed is None else allowed

    @property
    def feasible(self) -> Bools:
        """[n] Machines that no filter refused so far; scores see those that all filters allow."""
        return self.everybody if self._feasible is None or self.rows is not None else self._feasible

    @feasible.setter
    def feasible(self, feasible: Bools) -> None:
        self._feasible = feasible

    @property
    def feasible_of_all(self) -> Bools:
        """[M] The same of the whole fleet, whichever rows these are."""
        return self.fleet.everybody if self._feasible is None else self._feasible

    def take(self, rows: Integers, copies: Integers | None = None) -> Machines:
        """Return [len(rows)] machines: row ``rows[i]`` with ``copies[i]`` copies of the newcomer on it already."""
        return Machines(self.fleet, self.request, self.now_s, rows=rows, copies=copies, feasible=self._feasible)

    def derived(self, key: Any, compute: Compute) -> Any:
        """Return [..., n]: ``compute(machines)``, kept for the whole fleet between decisions (`Fleet.derived`)."""
        if self.rows is None:
            return self.fleet.derived(key, compute)
        kept = None if self.copies is not None else self.fleet.kept_column(key)
        return compute(self) if kept is None else kept[..., self.rows]

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return ``compute()``, made once for this newcomer and these rows: for `detail`, asked of many positions."""
        if key not in self._made:
            self._made[key] = compute()
        return self._made[key]

    def plain(self, name: str, position: int) -> list[float]:
        """Return one machine's [R] values of a column as plain numbers, for `detail`: faster than many small arrays."""
        key = ("plain", name)
        if key not in self._made:
            self._made[key] = getattr(self, name).T.tolist()
        found: list[float] = self._made[key][position]
        return found

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def constant(self, key: Any, compute: Compute) -> Any:
        """Return [..., n]: as `derived`, of something that no placement changes."""
        values = self.fleet.constant(key, compute)
        return values if self.rows is None else values[..., self.rows]

    def _pick(self, column: Column) -> Column:
        return column if self.rows is None else cast(Column, column[..., self.rows])

    def _add(self, column: Floats, each: Floats) -> Floats:
        """Return the rows of a [R, M] column with each copy's share added."""
        if self.rows is None:
            return column
        picked: Floats = column[:, self.rows]
        return picked if self.copies is None else picked + each[:, None] * self.copies

    @property
    def roster(self) -> Roster:
        """Names and rows of the whole fleet."""
        return self.fleet.snapshot.roster

    def row_of(self, position: int) -> int:
        """Return the fleet's row of a position here."""
        return position if self.rows is None else int(self.rows[position])

    def name(self, position: int) -> str:
        """Return the machine's name."""
        return self.roster.names[self.row_of(position)]

    # ---- promises

    @cached_property
    def requested(self) -> Floats:
        """[R, n] Sum of the amounts of the instances placed."""
        return self._add(self.fleet.requested, self.amounts)

    @cached_property
    def estimated(self) -> Floats:
        """[R, n] What all instances placed are expected to use, whatever is measured."""
        return self._add(self.fleet.estimated(), self.expected)

    @cached_property
    def limited(self) -> Floats:
        """[R, n] Sum of the instances' limits, each at least its request."""
        return self._add(self.fleet.limited(), self.limits)

    @cached_property
    def limits(self) -> Floats:
        """[R] The newcomer's limits, at least its request."""
        declared = [float(self.request.limits.get(name, 0.0)) for name in RESOURCES]
        found: Floats = np.maximum(np.array(declared), self.amounts)
        return found

    def requested_or(self, cpu: float, memory: float) -> Floats:
        """Return [R, n]: the sum of the amounts, an instance without one counting ``cpu`` cores or ``memory`` bytes."""
        return self._add(self.fleet.requested_or(cpu, memory), self.amounts_or(cpu, memory))

    def amounts_or(self, cpu: float, memory: float) -> Floats:
        """Return [R]: what the newcomer requests, ``cpu`` cores or ``memory`` bytes where it requests none."""
        return np.where(self.amounts > 0, self.amounts, np.array([cpu, memory, 0.0]))

    @cached_property
    def maxmemory(self) -> Floats:
        """[n] Sum of maxmemory."""
        column = self._pick(self.fleet.maxmemory)
        return column if self.copies is None else column + float(self.request.maxmemory) * self.copies

    @cached_property
    def count(self) -> Floats:
        """[n] Instances placed."""
        column = self._pick(self.fleet.count)
        return column if self.copies is None else column + self.copies

    def tally(self, facets: frozenset[Facet]) -> NDArray[np.integer]:
        """Return [n]: instances with all these facets on each machine."""
        column = self._pick(self.fleet.ledger.tally(facets))
        if self.copies is not None and facets <= self.facets:
            column = column + self.copies
        return column

    # ---- load, with credits

    @cached_property
    def _credit_each(self) -> Floats:
        """[R] What one more copy adds to every credited figure: all of its expected usage, nothing without credits."""
        if self.fleet.requests_alone:
            return self.amounts
        return np.zeros(_R) if self.fleet.credit_model == "none" else self.expected

    @cached_property
    def credit(self) -> Floats:
        """[R, n] What is expected of placed instances and not in the mean yet."""
        return self._add(self.fleet.credit, self._credit_each)

    @cached_property
    def mean(self) -> Floats:
        """[R, n] Mean usage; NaN without data."""
        return self._add(self.fleet.mean, self._credit_each)

    @cached_property
    def measured_mean(self) -> Floats:
        """[R, n] Mean usage without credits; NaN without data."""
        return self._pick(self.fleet.measured_mean)

    @cached_property
    def std(self) -> Floats:
        """[R, n] Population standard deviation of the usage."""
        return self._pick(self.fleet.std)

    @cached_property
    def max(self) -> Floats:
        """[R, n] Largest reading."""
        return self._add(self.fleet.max, self._credit_each)

    def percentile(self, percent: int) -> Floats:
        """Return [R, n]: the percentile 50, 90, 95 or 99 of the usage."""
        return self._add(self.fleet.percentile(percent), self._credit_each)

    def class_mean(self, priority_class: str) -> Floats:
        """Return [R, n]: mean usage by the instances of one class; NaN where the samples do not say."""
        each = self._credit_each if self.request.priority_class == priority_class else np.zeros(_R)
        return self._add(self.fleet.class_mean(priority_class), each)

    def peak(self, day: str, time_zone: str = "UTC", now_s: float | None = None) -> Floats:
        """Return [R, n]: the highest one-minute mean of ``today`` or ``yesterday``."""
        start_s = day_start_s(self.now_s if now_s is None else now_s, day, time_zone)
        if self.copies is None:
            return self.fleet.peak(day, start_s, self.rows)
        return self._add(
            self.fleet.derived(("peak", day, start_s), lambda m: m.fleet.peak(day, start_s, m.rows)), self._credit_each
        )

    @cached_property
    def utilization(self) -> Floats:
        """[R, n] mean / allocatable; NaN where either is unknown or allocatable is 0."""
        if self.copies is None:
            return self._pick(self.fleet.utilization)
        return self.mean * self.inverse_allocatable

    @cached_property
    def deviation(self) -> Floats:
        """[R, n] std / allocatable."""
        return self._pick(self.fleet.deviation)

    @cached_property
    def allocatable(self) -> Floats:
        """[R, n] What may be used: the one basis; NaN where unknown."""
        return self._pick(self.fleet.allocatable)

    @cached_property
    def inverse_allocatable(self) -> Floats:
        """[R, n] 1 / allocatable; NaN where unknown or 0."""
        return self._pick(self.fleet.inverse_allocatable)

    @cached_property
    def capacity(self) -> Floats:
        """[R, n] What the machine has; NaN where unknown."""
        return self._pick(self.fleet.capacity)

    @cached_property
    def taken(self) -> Floats:
        """[R, n] The larger of promised and used; NaN without data."""
        return np.maximum(self.requested, self.mean)

    # ---- data

    @cached_property
    def age_s(self) -> Floats:
        """[n] Age of the newest sample; +inf without data."""
        return self.now_s - self._pick(self.fleet.snapshot.seen_at)

    @cached_property
    def has_data(self) -> Bools:
        """[n] Whether any sample was ever seen."""
        return self._pick(self.fleet.snapshot.has_data)

    @cached_property
    def interval_s(self) -> Floats:
        """[n] Publishing interval."""
        return self._pick(self.fleet.snapshot.column("interval_s"))

    @cached_property
    def coverage(self) -> Floats:
        """[n] Filled share of the window used."""
        return self._pick(self.fleet.view.coverage)

    @cached_property
    def warming(self) -> Bools:
        """[n] The window used is less than half covered."""
        return self._pick(self.fleet.view.warming)

    @cached_property
    def window_s(self) -> Floats:
        """[n] Length of the window used."""
        return self._pick(self.fleet.view.window_s)

    # ---- facts

    def label(self, key: str) -> LabelColumn:
        """Return one label of these machines; the key ``machine`` is the machine's name."""
        if key == "machine":
            rows = np.arange(len(self.fleet)) if self.rows is None else self.rows
            return LabelColumn(self.roster.names, rows)
        column = self.fleet.snapshot.rules.label(key)
        return column if self.rows is None else LabelColumn(column.values, column.codes[self.rows])

    @cached_property
    def cordon(self) -> Bools:
        """[n] Taken out by an operator."""
        return self._pick(self.fleet.snapshot.rules.cordon)

    def rule(self, name: str) -> NDArray[Any]:
        """Return an operator's column: ``thresholds``, ``prod_thresholds``, ``percentile_thresholds``, ``power``."""
        column: NDArray[Any] = getattr(self.fleet.snapshot.rules, name)
        return self._pick(column)


def numbers(values: Floats, names: tuple[str, ...] = RESOURCES) -> Mapping[str, float | None]:
    """Return named plain numbers for an explanation, None where there is none."""
    return {name: value if math.isfinite(value) else None for name, value in zip(names, values.tolist(), strict=True)}
