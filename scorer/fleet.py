"""The fleet without a newcomer: what is kept from one decision to the next, and mended where the ledger changed.

Every usage figure here has the credits in it already, so no plugin can forget them; what was measured without them is
called so (``measured_mean``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.request import Request
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.window_table import PERCENTILES
from scorer.credits import CreditModel, Estimate, PlacedInstances, mean_credit, peak_credit, percentile_credit
from scorer.ledger_view import LedgerView
from scorer.machines import Compute, Machines
from scorer.snapshot import Bools, Floats, Integers, Snapshot, WindowView

_R = len(RESOURCES)
_NOBODY = Request()


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
