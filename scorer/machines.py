"""What a filter or a score is given: all machines as one decision sees them.

`Fleet` holds what does not depend on the newcomer and is kept from one decision to the next; `Machines` adds the
newcomer, the moment, and the machines still feasible. Every usage figure here has the credits in it already, so no
plugin can forget them; what was measured without them is called so (``measured_mean``).
"""

from __future__ import annotations

import math
import weakref
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
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
_NOBODY = Request()
Compute = Callable[["Machines"], Any]
Column = TypeVar("Column", bound=NDArray[Any])


class Fleet:
    """The machines without a newcomer: measured load, credits and promises under one window and credit model.

    All arrays have the machine as last axis, R the resources in the order of `schemas.resources`; they are read-only by
    agreement. Everything here is made at the first asking and kept. When the ledger changes, only the rows of the
    machines that changed are made again, in place; while somebody still holds a view of the fleet as it was, in a copy.
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
        self.credit_model: CreditModel = credits
        self.estimate = estimate
        self.requests_alone = requests_alone
        self._key = (window_s, credits, estimate.key)
        self.view: WindowView = snapshot.view(window_s)
        self.allocatable: Floats = snapshot.allocatable
        self.capacity: Floats = snapshot.capacity
        self.fixed: dict[Any, Any] = snapshot.constants((window_s, requests_alone))
        """What plugins keep here under keys of their own, that no placement changes."""
        self.kept: dict[Any, Any] = {}
        """The same, dropped with every placement."""
        self._derived: dict[Any, tuple[NDArray[Any], Compute]] = {}
        self._position = ledger.position
        self._viewers: weakref.WeakSet[Machines] = weakref.WeakSet()

    def __len__(self) -> int:
        return len(self.snapshot)

    def watch(self, machines: Machines) -> None:
        """Note that somebody looks at the fleet as it is now."""
        self._viewers.add(machines)

    @cached_property
    def everybody(self) -> Bools:
        """[M] True throughout: what a filter may return when it refuses nobody, at no cost."""
        everybody = np.ones(len(self), np.bool_)
        everybody.flags.writeable = False
        return everybody

    @cached_property
    def everything(self) -> Machines:
        """All machines, without a newcomer."""
        return Machines(self, _NOBODY, 0.0)

    def derived(self, key: Any, compute: Compute) -> Any:
        """Return [..., M]: ``compute(machines) -> [..., n]`` over all machines, kept under ``key``.

        A machine's value must depend on that machine alone, and on no newcomer: after a placement it is asked again
        only for the machines that changed.
        """
        entry = self._derived.get(key)
        if entry is None:
            entry = self._derived[key] = (compute(self.everything), compute)
        return entry[0]

    def current(self) -> Fleet:
        """Return the fleet as the ledger is now: itself, or a copy if somebody looks at what it was."""
        ledger = self.ledger
        if self._position == ledger.position:
            return self
        rows = ledger.changed_since(self._position)
        if rows is None or 2 * len(rows) > len(self):
            return Fleet._like(self)
        fleet = Fleet._like(self) if len(self._viewers) else self
        if fleet is not self:
            fleet._derived = {key: (values.copy(), compute) for key, (values, compute) in self._derived.items()}
        fleet._patch(np.array(rows, np.int64))
        return fleet

    @staticmethod
    def _like(other: Fleet) -> Fleet:
        fleet = object.__new__(Fleet)
        fleet.__dict__.update({k: v for k, v in other.__dict__.items() if k != "everything"})
        fleet.kept, fleet._derived, fleet._viewers = {}, {}, weakref.WeakSet()
        fleet._position = other.ledger.position
        return fleet

    def _patch(self, rows: Integers) -> None:
        """Make the rows again, each column after those it is made from (they were made before it)."""
        self.kept = {}
        self._position = self.ledger.position
        machines = Machines(self, _NOBODY, 0.0, rows=rows)
        for values, compute in self._derived.values():
            values[..., rows] = compute(machines)

    # ---- promises

    @property
    def requested(self) -> Floats:
        """[R, M] Sum of the amounts of the instances placed."""
        return self._sums()[:_R]

    @property
    def maxmemory(self) -> Floats:
        """[M] Sum of maxmemory."""
        found: Floats = self.derived("maxmemory", lambda machines: _rows(self.ledger.maxmemory, machines))
        return found

    @property
    def count(self) -> Floats:
        """[M] Instances placed."""
        found: Floats = self.derived("count", lambda machines: _rows(self.ledger.count, machines))
        return found

    def placed_sum(self, key: Any, compute: Callable[[PlacedInstances], Floats]) -> Floats:
        """Return [R, M]: the sum over each machine's instances of ``compute(placed) -> [R, K]``, kept under ``key``."""
        found: Floats = self.derived(key, lambda machines: self.ledger.sums((self._key, key), compute, machines.rows))
        return found

    def estimated(self) -> Floats:
        """Return [R, M]: what all instances placed are expected to use, whatever is measured."""
        return self.placed_sum(
            "estimated", lambda placed: self.estimate.columns(placed.amounts, placed.limits, placed.expected)
        )

    def limited(self) -> Floats:
        """Return [R, M]: the sum of the instances' limits, each at least its request."""
        return self.placed_sum("limited", lambda placed: np.fmax(placed.limits, placed.amounts))

    def requested_or(self, cpu: float, memory: float) -> Floats:
        """Return [R, M]: the sum of the amounts, an instance without one counting ``cpu`` cores or ``memory`` bytes."""
        default = np.array([[cpu], [memory], [0.0]])
        return self.placed_sum(
            ("requested-or", cpu, memory), lambda placed: np.where(placed.amounts > 0, placed.amounts, default)
        )

    # ---- load

    @property
    def credited(self) -> bool:
        """Whether any credit can be there."""
        return self.credit_model != "none" and not self.requests_alone

    @property
    def credit(self) -> Floats:
        """[R, M] What is expected of placed instances and not in the mean yet."""
        return self._sums()[_R : 2 * _R]

    @cached_property
    def _zeros(self) -> Floats:
        return np.zeros((_R, len(self)))

    @property
    def measured_mean(self) -> Floats:
        """[R, M] Mean usage as measured; NaN without data."""
        return self.view.mean

    @property
    def mean(self) -> Floats:
        """[R, M] Mean usage with credits; NaN without data."""
        return self._sums()[2 * _R : 3 * _R]

    def _sums(self) -> Floats:
        """Return [4 R, M]: requested, credit, mean and utilization, which every placement changes, made together."""
        found: Floats = self.derived("sums", self._make_sums)
        return found

    def _make_sums(self, machines: Machines) -> Floats:
        requested = _rows(self.ledger.requested, machines)
        measured, snapshot, view = _rows(self.view.mean, machines), self.snapshot, self.view
        if self.credited:
            credit = self.ledger.sums(
                (self._key, "mean"),
                lambda placed: mean_credit(self.credit_model, self.estimate, placed, snapshot, view),
                machines.rows,
            )
            mean = measured + credit
        else:
            credit = np.zeros_like(requested)
            mean = np.where(np.isnan(machines.allocatable), np.nan, requested) if self.requests_alone else measured
        return np.concatenate([requested, credit, mean, mean * machines.inverse_allocatable])

    @property
    def std(self) -> Floats:
        """[R, M] Population standard deviation of the usage."""
        return self._zeros if self.requests_alone else self.view.std

    def statistic(self, name: str, column: Callable[[], Floats], quantile: float) -> Floats:
        """Return [R, M]: a measured statistic with the credits it gets."""
        if self.requests_alone:
            return self.mean
        if not self.credited:
            return column()
        snapshot, view = self.snapshot, self.view
        key = ("credit", name)
        self.placed_sum(
            key, lambda placed: percentile_credit(self.credit_model, self.estimate, placed, snapshot, view, quantile)
        )
        return self._with_credit(("usage", name), column, key)

    def _with_credit(self, key: Any, measured: Callable[[], Floats], credit: Any) -> Floats:
        """Return [R, M]: the measured column with the one derived under ``credit``, kept under ``key``."""
        found: Floats = self.derived(key, lambda m: _rows(measured(), m) + _rows(m.fleet._derived[credit][0], m))
        return found

    def constant(self, key: Any, compute: Compute) -> Any:
        """Return [..., M]: as `derived`, of something that no placement changes."""
        values = self.fixed.get(key)
        if values is None:
            values = self.fixed[key] = compute(self.everything)
        return values

    def kept_column(self, key: Any) -> NDArray[Any] | None:
        """Return what was derived under a key, if it was."""
        entry = self._derived.get(key)
        return None if entry is None else entry[0]

    @property
    def max(self) -> Floats:
        """[R, M] Largest reading, with credits."""
        return self.statistic("max", lambda: self._picked("max"), 1.0)

    def percentile(self, percent: int) -> Floats:
        """Return [R, M]: the percentile 50, 90, 95 or 99 of the usage, with credits."""
        position = PERCENTILES.index(percent)
        return self.statistic(f"p{percent}", lambda: self._picked("percentile")[:, position], percent / 100)

    def _picked(self, name: str) -> Floats:
        found: Floats | None = self.fixed.get(("picked", name))
        if found is None:
            found = self.fixed["picked", name] = self.snapshot.picked(name, self.view)
        return found

    def class_mean(self, priority_class: str) -> Floats:
        """Return [R, M]: mean usage by the instances of one class, with their credits; NaN where samples do not say."""
        code = PRIORITY_CLASSES.index(priority_class)
        snapshot, view = self.snapshot, self.view
        measured: Floats = self._picked("class_mean")[code]
        if not self.credited:
            return measured
        key = ("credit", "class", code)
        self.placed_sum(
            key,
            lambda placed: (
                mean_credit(self.credit_model, self.estimate, placed, snapshot, view) * (placed.classes == code)
            ),
        )
        return self._with_credit(("usage", "class", code), lambda: measured, key)

    def peak(self, day: str, day_start_s: float, rows: Integers | None = None) -> Floats:
        """Return [R, M] or [R, len(rows)]: the highest one-minute mean of ``today`` or ``yesterday``, with credits."""
        measured = self.snapshot.column(f"peak_{day}")
        measured = measured if rows is None else measured[:, rows]
        if not self.credited:
            return measured
        return measured + self.ledger.sums(
            (self._key, "peak", day_start_s),
            lambda placed: peak_credit(self.credit_model, self.estimate, placed, day_start_s),
            rows,
        )

    @property
    def utilization(self) -> Floats:
        """[R, M] mean / allocatable; NaN where either is unknown or allocatable is 0."""
        return self._sums()[3 * _R :]

    @property
    def busiest(self) -> list[float]:
        """[R] The largest utilization of any machine; NaN where that of any machine is unknown."""
        found: list[float] | None = self.kept.get("busiest")
        if found is None:
            found = self.kept["busiest"] = self.utilization.max(axis=1, initial=0.0).tolist()
        return found

    @property
    def smallest(self) -> list[float]:
        """[R] 1 / allocatable of the smallest machine; 0 where none is known."""
        found: list[float] | None = self.fixed.get("smallest")
        if found is None:
            found = self.fixed["smallest"] = np.fmax.reduce(self.inverse_allocatable, axis=1, initial=0.0).tolist()
        return found

    @property
    def deviation(self) -> Floats:
        """[R, M] std / allocatable; NaN as utilization."""
        found: Floats = self.constant("deviation", lambda m: m.std * m.inverse_allocatable)
        return found

    @property
    def inverse_allocatable(self) -> Floats:
        """[R, M] 1 / allocatable; NaN where unknown or 0."""
        return self.snapshot.inverse_allocatable

    @cached_property
    def warming_count(self) -> int:
        """How many machines with data are warming."""
        return int(np.count_nonzero(self.view.warming & self.snapshot.has_data))

    def stale_count(self, since_s: float) -> int:
        """Return how many machines with data have none since."""
        if self._seen_first >= since_s:
            return 0
        return int(np.count_nonzero((self.snapshot.seen_at < since_s) & self.snapshot.has_data))

    @cached_property
    def _seen_first(self) -> float:
        """Event time of the oldest newest sample."""
        return float(self.snapshot.seen_at.min(where=self.snapshot.has_data, initial=np.inf))


def _rows(column: NDArray[Any], machines: Machines) -> Any:
    """Return a copy of the rows of a [..., M] column."""
    return column.copy() if machines.rows is None else column[..., machines.rows]


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
        return self.everybody if self._feasible is None else self._feasible

    @feasible.setter
    def feasible(self, feasible: Bools) -> None:
        self._feasible = feasible

    def take(self, rows: Integers, copies: Integers | None = None) -> Machines:
        """Return [len(rows)] machines: row ``rows[i]`` with ``copies[i]`` copies of the newcomer on it already."""
        return Machines(self.fleet, self.request, self.now_s, rows=rows, copies=copies)

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


def day_start_s(now_s: float, day: str, time_zone: str) -> float:
    """Return when ``today`` or ``yesterday`` began in a time zone; a day has 23 or 25 hours where the clocks change.

    >>> day_start_s(1_700_000_000.0, "today", "UTC"), day_start_s(1_700_000_000.0, "yesterday", "UTC")
    (1699920000.0, 1699833600.0)
    """
    return _day_start_s(now_s // 900 * 900, day, time_zone)  # days begin at quarters of an hour, everywhere


@lru_cache(maxsize=64)
def _day_start_s(now_s: float, day: str, time_zone: str) -> float:
    zone = zoneinfo.ZoneInfo(time_zone)
    midnight = datetime.fromtimestamp(now_s, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if day == "today":
        return midnight.timestamp()
    before = datetime.fromtimestamp(midnight.timestamp() - 1, zone)
    return before.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def numbers(values: Floats, names: tuple[str, ...] = RESOURCES) -> Mapping[str, float | None]:
    """Return named plain numbers for an explanation, None where there is none."""
    return {name: value if math.isfinite(value) else None for name, value in zip(names, values.tolist(), strict=True)}
