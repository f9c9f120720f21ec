"""What a filter or a score is given: all machines as one decision sees them.

`Fleet` holds what does not depend on the newcomer and is kept from one decision to the next; `Machines` adds the
newcomer, the moment, and the machines still feasible. Every usage figure here has the credits in it already, so no
plugin can forget them; what was measured without them is called so (``measured_mean``).
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from schemas.request import Request
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.window_table import PERCENTILES
from scorer.credits import CreditModel, Estimate, PlacedInstances, mean_credit, peak_credit, percentile_credit
from scorer.ledger_view import Facet, LedgerView, facets_of
from scorer.snapshot import Bools, Floats, Integers, LabelColumn, Roster, Snapshot, WindowView

_R = len(RESOURCES)
Column = TypeVar("Column", bound=NDArray[Any])


class Fleet:
    """The machines without a newcomer: measured load, credits and promises under one window and credit model.

    All arrays have the machine as last axis, R the resources in the order of `schemas.resources`; they are read-only by
    agreement and kept while neither snapshot nor ledger changes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        ledger: LedgerView,
        *,
        window_s: int,
        credits: CreditModel,  # noqa: A002
        estimate: Estimate,
        requests_alone: bool = False,
    ) -> None:
        ledger.seat(snapshot.roster)
        self.snapshot = snapshot
        self.ledger = ledger
        self.window_setting = window_s
        self.credit_model: CreditModel = credits
        self.estimate = estimate
        self.requests_alone = requests_alone
        self.view: WindowView = snapshot.view(window_s)
        self.allocatable: Floats = snapshot.allocatable
        self.capacity: Floats = snapshot.capacity
        self._key = (window_s, credits, estimate.key)

    def __len__(self) -> int:
        return len(self.snapshot)

    # ---- promises

    @cached_property
    def requested(self) -> Floats:
        """[R, M] Sum of the amounts of the instances placed."""
        return self.ledger.requested.copy()

    @cached_property
    def maxmemory(self) -> Floats:
        """[M] Sum of maxmemory."""
        return self.ledger.maxmemory.copy()

    @cached_property
    def count(self) -> Floats:
        """[M] Instances placed."""
        return self.ledger.count.copy()

    # ---- load

    @cached_property
    def credit(self) -> Floats:
        """[R, M] What is expected of placed instances and not in the mean yet."""
        if self.credit_model == "none" or not len(self.ledger):
            return np.zeros((_R, len(self)))
        snapshot, view = self.snapshot, self.view
        return self.ledger.column(
            ("mean", *self._key),
            lambda placed: mean_credit(self.credit_model, self.estimate, placed, snapshot, view),
        )

    @property
    def measured_mean(self) -> Floats:
        """[R, M] Mean usage as measured; NaN without data."""
        return self.view.mean

    @cached_property
    def mean(self) -> Floats:
        """[R, M] Mean usage with credits; NaN without data."""
        if self.requests_alone:
            known: Floats = np.where(np.isfinite(self.allocatable), self.requested, np.nan)
            return known
        if self.credit_model == "none" or not len(self.ledger):
            return self.view.mean
        return self.view.mean + self.credit

    @cached_property
    def std(self) -> Floats:
        """[R, M] Population standard deviation of the usage."""
        return np.zeros_like(self.view.std) if self.requests_alone else self.view.std

    @cached_property
    def max(self) -> Floats:
        """[R, M] Largest reading, with credits."""
        if self.requests_alone:
            return self.mean
        return self.snapshot.picked("max", self.view) + self._statistic_credit("max", 1.0)

    def percentile(self, percent: int) -> Floats:
        """Return [R, M]: the percentile 50, 90, 95 or 99 of the usage, with credits."""
        if self.requests_alone:
            return self.mean
        position = PERCENTILES.index(percent)
        return self._percentiles[:, position] + self._statistic_credit(f"p{percent}", percent / 100)

    @cached_property
    def _percentiles(self) -> Floats:
        return self.snapshot.picked("percentile", self.view)

    def _statistic_credit(self, name: str, quantile: float) -> Floats:
        if self.credit_model == "none" or not len(self.ledger):
            return np.zeros((_R, len(self)))
        snapshot, view = self.snapshot, self.view
        return self.ledger.column(
            (name, *self._key),
            lambda placed: percentile_credit(self.credit_model, self.estimate, placed, snapshot, view, quantile),
        )

    def class_mean(self, priority_class: str) -> Floats:
        """Return [R, M]: mean usage by the instances of one class, with their credits; NaN where samples do not say."""
        code = PRIORITY_CLASSES.index(priority_class)
        snapshot, view = self.snapshot, self.view
        measured = snapshot.picked("class_mean", view)[code]
        if self.credit_model == "none" or not len(self.ledger):
            return measured
        return measured + self.ledger.column(
            ("class", code, *self._key),
            lambda placed: (
                mean_credit(self.credit_model, self.estimate, placed, snapshot, view) * (placed.classes == code)
            ),
        )

    def peak(self, day: str, day_start_s: float) -> Floats:
        """Return [R, M]: the highest one-minute mean of ``today`` or ``yesterday``, with credits."""
        measured = self.snapshot.column(f"peak_{day}")
        if self.credit_model == "none" or not len(self.ledger):
            return measured
        return measured + self.ledger.column(
            ("peak", day, day_start_s, *self._key),
            lambda placed: peak_credit(self.credit_model, self.estimate, placed, day_start_s),
        )

    def placed_sum(self, key: Any, compute: Callable[[PlacedInstances], Floats]) -> Floats:
        """Return [R, M]: the sum over each machine's instances of ``compute(placed) -> [R, K]``, kept under ``key``."""
        if not len(self.ledger):
            return np.zeros((_R, len(self)))
        return self.ledger.column(key, compute)

    @cached_property
    def estimated(self) -> Floats:
        """[R, M] What all instances placed are expected to use, whatever is measured."""
        return self.placed_sum(
            ("estimated", self.estimate.key),
            lambda placed: self.estimate.columns(placed.amounts, placed.limits, placed.expected),
        )

    @cached_property
    def limited(self) -> Floats:
        """[R, M] Sum of the instances' limits, each at least its request."""
        return self.placed_sum("limited", lambda placed: np.fmax(placed.limits, placed.amounts))

    def requested_or(self, cpu: float, memory: float) -> Floats:
        """Return [R, M]: the sum of the amounts, an instance without one counting ``cpu`` cores or ``memory`` bytes."""
        default = np.array([[cpu], [memory], [0.0]])
        return self.placed_sum(
            ("requested-or", cpu, memory), lambda placed: np.where(placed.amounts > 0, placed.amounts, default)
        )

    @cached_property
    def utilization(self) -> Floats:
        """[R, M] mean / allocatable; NaN where either is unknown or allocatable is 0."""
        return self.mean * self.inverse_allocatable

    @cached_property
    def deviation(self) -> Floats:
        """[R, M] std / allocatable; NaN as utilization."""
        return self.std * self.inverse_allocatable

    @cached_property
    def inverse_allocatable(self) -> Floats:
        """[R, M] 1 / allocatable; NaN where unknown or 0."""
        inverse: Floats = np.full(self.allocatable.shape, np.nan)
        np.divide(1.0, self.allocatable, out=inverse, where=self.allocatable > 0)
        return inverse

    @cached_property
    def taken(self) -> Floats:
        """[R, M] The larger of what is promised and what is used (with credits); NaN without data."""
        return np.maximum(self.requested, self.mean)

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What plugins keep here: made once for each change of snapshot or ledger, under a key of their own."""
        return {}


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
        self.amounts: Floats = np.array(request.amounts())
        """[R] what the newcomer requests."""

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

    @property
    def feasible(self) -> Bools:
        """[n] Machines that no filter refused so far; scores see those that all filters allow."""
        if self._feasible is None:
            self._feasible = np.ones(len(self), np.bool_)
        return self._feasible

    def with_feasible(self, feasible: Bools) -> Machines:
        """Return the same machines with another feasible mask."""
        machines = Machines(self.fleet, self.request, self.now_s, rows=self.rows, copies=self.copies, feasible=feasible)
        machines.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_feasible",)})
        machines._feasible = feasible
        return machines

    def take(self, rows: Integers, copies: Integers) -> Machines:
        """Return [len(rows)] machines: row ``rows[i]`` with ``copies[i]`` copies of the newcomer on it already."""
        return Machines(self.fleet, self.request, self.now_s, rows=rows, copies=copies)

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
        return self._add(self.fleet.estimated, self.expected)

    @cached_property
    def limited(self) -> Floats:
        """[R, n] Sum of the instances' limits, each at least its request."""
        return self._add(self.fleet.limited, self.limits)

    @cached_property
    def limits(self) -> Floats:
        """[R] The newcomer's limits, at least its request."""
        declared = [float(self.request.limits.get(name, 0.0)) for name in RESOURCES]
        return np.maximum(np.array(declared), self.amounts)

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

    def peak(self, day: str, time_zone: str = "UTC") -> Floats:
        """Return [R, n]: the highest one-minute mean of ``today`` or ``yesterday``."""
        return self._add(self.fleet.peak(day, self.day_start_s(day, time_zone)), self._credit_each)

    def day_start_s(self, day: str, time_zone: str) -> float:
        """Return when ``today`` or ``yesterday`` began."""
        midnight = datetime.fromtimestamp(self.now_s, zoneinfo.ZoneInfo(time_zone)).replace(
            hour=0, minute=0, second=0, microsecond=0
        )
        start = midnight.timestamp()
        return start if day == "today" else _previous_midnight(midnight)

    @cached_property
    def utilization(self) -> Floats:
        """[R, n] mean / allocatable; NaN where either is unknown or allocatable is 0."""
        if self.rows is None:
            return self.fleet.utilization
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
        return self.fleet.taken if self.rows is None else np.maximum(self.requested, self.mean)

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


def _previous_midnight(midnight: datetime) -> float:
    """Return the midnight before, in the same zone: 23 or 25 hours where the clocks change."""
    day_before = datetime.fromtimestamp(midnight.timestamp() - 1, midnight.tzinfo)
    return day_before.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def numbers(values: Floats, names: tuple[str, ...] = RESOURCES) -> Mapping[str, float | None]:
    """Return named plain numbers for an explanation, None for NaN."""
    return {name: None if np.isnan(value) else float(value) for name, value in zip(names, values, strict=True)}
