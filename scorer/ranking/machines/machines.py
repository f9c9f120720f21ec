"""`Machines`: all machines as one decision sees them under one load model, as columns with names.

A column is a view of the rows that the decision reads (`scorer.ranking.machines.table`), the machine last. Filters and
scores of other packages, explanations, plans and listings read them; the built-in filters and scores read the rows.

Every usage figure includes the credits and, where the profile says so, the debits, so no plugin can forget them. A
figure without them is named so (``measured_mean``). R resources in the order of `schemas.resources`, n machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.facets import Facet, facets_of
from scorer.ledger.view.slots import request_record
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.kernel.binding import Records, ask, fleet_means
from scorer.ranking.kernel.layout import DAYS, QUERY, STATISTICS
from scorer.ranking.machines.table import Table, WhatIf
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.rules import LabelColumn, MachineRules, Roster
from scorer.snapshot.snapshot import Snapshot

_R = len(RESOURCES)
_ROW, _MORE, _BY_CLASS = range(3)
NOTHING = Request()
FEW = 16
"""So few machines are taken with all their fields at once: 1 us, where each field alone takes 6."""

_OF_ROWS: Mapping[str, tuple[int, str]] = {
    # ---- what the machine has, [R, n]
    "capacity": (_MORE, "capacity"),  # NaN where unknown
    "allocatable": (_ROW, "allocatable"),  # what may be used: the one basis; NaN where unknown
    "inverse_allocatable": (_ROW, "inverse"),  # NaN where unknown or 0
    # ---- allocated, [R, n] or [n]
    "allocated": (_ROW, "allocated"),  # sum of the amounts
    "limited": (_MORE, "limited"),  # sum of the limits, each at least its request
    "estimated": (_MORE, "estimated"),  # sum of what the instances are expected to use
    "without_amount": (_MORE, "missing"),  # instances that give no amount
    "maxmemory": (_ROW, "maxmemory"),
    "count": (_ROW, "count"),  # instances placed
    # ---- load with credits, [R, n]; NaN without data
    "mean": (_ROW, "mean"),
    "utilization": (_ROW, "utilization"),  # mean / allocatable
    "credit": (_MORE, "credit"),  # what is expected of placed instances and not in the mean yet
    "remaining_mean": (_MORE, "remaining"),  # with debits, without credits
    # ---- load as measured, [R, n]
    "measured_mean": (_MORE, "measured"),
    "std": (_MORE, "std"),  # population standard deviation
    "deviation": (_ROW, "deviation"),  # std / allocatable
    "system_usage": (_MORE, "system"),  # beside all instances; NaN where it is not measured
    # ---- data and facts, [n]
    "has_data": (_ROW, "has_data"),  # any sample was ever seen
    "has_load": (_ROW, "has_load"),  # utilization of any resource is known
    "seen_at": (_ROW, "seen_at"),  # event time of the newest sample; -inf without data
    "interval_s": (_ROW, "interval_s"),  # how often it publishes
    "window_s": (_MORE, "window_s"),  # length of the window used
    "coverage": (_ROW, "coverage"),  # filled share of that window
    "warming": (_ROW, "warming"),  # it is less than half covered
    "cordon": (_ROW, "cordon"),  # taken out by an operator
    # ---- over-commit by class (`scorer.classes.reclaimed`)
    "of_classes": (_BY_CLASS, "sums"),  # [5, C, R, n] what instances of each class ask for and use
    "ended_lower": (_BY_CLASS, "ended_lower"),  # [R, n] what the last report still has of batch and free that ended
    "usage_reported": (_BY_CLASS, "reported"),  # [R, n] of system and instances, as its last report has it
    "usage_peak": (_BY_CLASS, "usage_peak"),  # [R, n] the usage that is rarely exceeded
    "predicted": (_BY_CLASS, "predicted"),  # [2, R, n] peaks of prod and of the system; NaN where there are none
}
_MADE: Mapping[str, Callable[[Any], Any]] = {
    "debit": lambda m: np.maximum(m.measured_mean + m.credit - m.mean, 0.0) * m.debits,  # what debits take off the mean
    "taken": lambda m: np.maximum(m.allocated, m.mean),  # the larger of allocated and used
    "max": lambda m: m.statistic("max"),  # largest reading
    "age_s": lambda m: m.now_s - m.seen_at,  # +inf without data
    "has_report": lambda m: m.field(_MORE, "has_report") != 0,  # whether a report of its instances is current
    "shortest_mean": lambda m: m.pick(m.snapshot.window("mean", 0)),  # over the shortest window there is
}
COLUMNS = frozenset([*_OF_ROWS, *_MADE])
"""The columns that are read by name."""

_GONE = {
    "derived": "compute the column at each call", "constant": "compute the column at each call",
    "recent": "compute the column at each call", "of_snapshot": "compute the value at each call",
    "of_fleet": "compute the value at each call", "once": "compute the value at each call",
    "plain": "read the column: machines.mean[:, position]",
}  # fmt: skip
"""What kept values between decisions, and what to write instead."""


class Machines:
    """All machines, or some rows of them, as one decision sees them. Read-only.

    Columns by name: ``allocatable``, ``capacity``, ``allocated``, ``mean``, ``std``, ``max``, ``utilization``,
    ``deviation``, ``credit``, ``measured_mean`` (all [R, n]); ``maxmemory``, ``count``, ``age_s``, ``coverage``,
    ``warming``, ``window_s``, ``has_data``, ``cordon`` ([n]); ``expected`` and ``amounts`` of the requested instance
    ([R]); the whole list is in this module. Besides them ``percentile(95)``, ``class_mean("prod")``, ``peak("today")``
    ([R, n]), ``feasible`` ([n]), ``label(key)``, ``tally(facets)``, ``rule(name)``.
    """

    def __init__(
        self,
        table: Table,
        what_if: WhatIf,
        snapshot: Snapshot,
        request: Request,
        now_s: float,
        rows: Integers | None = None,
        *,
        last_known: bool = False,
    ) -> None:
        self.table, self.what_if, self.snapshot = table, what_if, snapshot
        self.request = request
        self.now_s = now_s
        self.rows = rows
        self.last_known = last_known
        """Whether the pipeline is silent and the ranking is by each machine's last known load, however old."""
        self._feasible: Bools | None = None
        self._taken: dict[int, NDArray[np.void]] = {}

    # ---- the requested instance

    @cached_property
    def query(self) -> NDArray[np.void]:
        """The request under this load model, in the form of the C functions."""
        return self.queries([self.request]).reshape(())

    def queries(self, requests: Sequence[Request]) -> NDArray[np.void]:
        """Return [K]: the same of K requests, which name no other machine than the request."""
        found = np.zeros(len(requests), QUERY)
        ask(self.table.making, request_record(*requests), found)
        for place, one in enumerate(requests):
            if (learned := self.estimate.deviation_of_request(one)) is not None:
                found["deviation"][place] = learned
        found["now"], found["last_known"] = self.now_s, self.last_known
        found["machine"] = self.roster.index.get(self.request.machine, -1) if self.request.machine else -1
        return found

    def find_means(self, refused: NDArray[np.int32] | None = None) -> None:
        """Write the fleet's mean utilizations into the query; with ``refused`` those of the feasible machines."""
        fleet_means(self.inputs, self.what_if.struct, self.table.load, refused)

    @cached_property
    def inputs(self) -> Records:
        """The inputs of the C functions of filters and scores."""
        return Records(self.table.rows, self.table.more, *self.what_if.rows(self.table)[:2], self.query)

    @cached_property
    def amounts(self) -> Floats:
        """[R] The requested amounts; 0 where none is given."""
        found: Floats = self.query["amounts"]
        return found

    @property
    def expected(self) -> Floats:
        """[R] The expected use of the requested instance."""
        found: Floats = self.query["expected"]
        return found

    @property
    def limits(self) -> Floats:
        """[R] The limits of the requested instance, at least its request."""
        found: Floats = self.query["limits"]
        return found

    @cached_property
    def facets(self) -> frozenset[Facet]:
        return facets_of(self.request)

    def amounts_or(self, cpu: float, memory: float) -> Floats:
        """Return [R]: the requested amounts, with these defaults: ``cpu`` cores, ``memory`` bytes."""
        return np.where(self.query["missing"], np.array([cpu, memory, *[0.0] * (_R - 2)]), self.amounts)

    # ---- facts

    def __len__(self) -> int:
        return self.table.rows.size if self.rows is None else self.rows.size

    @property
    def estimate(self) -> Estimate:
        """The estimate of the use of instances, including learned factors."""
        return self.table.estimate

    @property
    def roster(self) -> Roster:
        """Names and rows of the whole fleet."""
        return self.snapshot.roster

    def row_of(self, position: int) -> int:
        """Return the row in the fleet of the machine at a position of these."""
        return position if self.rows is None else int(self.rows[position])

    def name(self, position: int) -> str:
        return self.roster.names[self.row_of(position)]

    @property
    def requests_alone(self) -> bool:
        """Whether the ranking is by requests alone, since no data is fresh."""
        return self.table.model.requests_alone

    @property
    def debits(self) -> bool:
        """Whether debits are subtracted from the windows."""
        return bool(self.table.making["debits"])

    @property
    def rules(self) -> MachineRules:
        """The rules of all machines of the fleet, not only of these."""
        return self.snapshot.rules

    def label(self, key: str) -> LabelColumn:
        """Return the values of a label on these machines; the key ``machine`` is the machine's name."""
        if key == "machine":
            rows = np.arange(self.table.rows.size) if self.rows is None else self.rows
            return LabelColumn(self.roster.names, rows)
        column = self.rules.label(key)
        return column if self.rows is None else LabelColumn(column.values, column.codes[self.rows])

    def rule(self, name: str) -> NDArray[Any]:
        """Return an operator's column: ``thresholds``, ``prod_thresholds``, ``percentile_thresholds``, ``power``."""
        column: NDArray[Any] = getattr(self.rules, name)
        return self.pick(column)

    def pick(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the part of a column [..., M] for these machines."""
        return column if self.rows is None else column[..., self.rows]

    # ---- columns

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ROWS:
            found = self.field(*_OF_ROWS[name])
        elif name in _MADE:
            found = _MADE[name](self)
        elif name in _GONE:
            raise AttributeError(f"machines keep nothing between decisions: in place of `{name}` {_GONE[name]}")
        else:
            raise AttributeError(f"machines have no column {name!r}")
        self.__dict__[name] = found
        return found

    def field(self, place: int, name: str) -> NDArray[Any]:
        """Return a field of the rows as a column [..., n], changes of a what-if included."""
        of = self.table.records[place]
        assert of is not None, f"{name}: no filter of the profile counts by class"
        if self.rows is not None and self.rows.size <= FEW:
            values = self.records(place)[name]
        else:
            values = self.what_if.column(self.table, name, place, of[name])
            values = values if self.rows is None else values[self.rows]
        values = values.transpose(*range(1, values.ndim), 0)
        values.flags.writeable = False
        return values

    def records(self, place: int) -> NDArray[np.void]:
        """Return [n] rows (0), or their optional parts (1), of some machines; changes of a what-if included."""
        if place not in self._taken:
            assert self.rows is not None, "of all machines, read a column"
            self._taken[place] = self.what_if.records(self.table, place, self.rows)
        return self._taken[place]

    def column(self, name: str, *args: Any) -> Any:
        """Return a column by name; ``args`` are its arguments."""
        return getattr(self, name)(*args) if args else getattr(self, name)

    def statistic(self, name: str) -> Floats:
        """Return [R, n]: ``p50``, ``p90``, ``p95``, ``p99`` or ``max`` of the usage, with credits."""
        found: Floats = self.field(_MORE, "statistics")[STATISTICS.index(name)]
        return found

    def percentile(self, percent: int) -> Floats:
        """Return [R, n]: the percentile 50, 90, 95 or 99 of the usage, with credits."""
        return self.statistic(f"p{percent}")

    def class_mean(self, priority_class: str) -> Floats:
        """Return [R, n]: mean usage by the instances of class prod, with credits; NaN where not measured."""
        if priority_class != PRIORITY_CLASSES[0]:
            raise ValueError(f"class_mean: the usage by class prod is known, not that by {priority_class!r}")
        return self.field(_MORE, "prod")

    def peak(self, day: str) -> Floats:
        """Return [R, n]: the highest one-minute mean of ``today`` or ``yesterday``, with credits."""
        found: Floats = self.field(_MORE, "peak_sum")[DAYS.index(day)]
        return found

    def allocated_of(self, *classes: str) -> Floats:
        """Return [R, n]: sum of the amounts of the instances of some priority classes."""
        found = np.zeros((_R, self.table.rows.size))
        codes = [PRIORITY_CLASSES.index(one) for one in classes]
        placed = self.table.residents.placed()
        chosen = np.isin(placed.classes, codes)
        np.add.at(found.T, placed.rows[chosen], placed.records["amounts"][chosen])
        for row, sign, instance in self.what_if.proposed(self.roster):
            if instance.priority_class in classes:
                found[:, row] += sign * np.array([amount or 0.0 for amount in instance.amounts])
        return self.pick(found)

    def tally(self, facets: frozenset[Facet]) -> Floats:
        """Return [n]: instances with all these facets on each machine."""
        return self.pick(self.table.residents.tally(facets, self.what_if.overlay))

    # ---- which machines

    @property
    def whole(self) -> Machines:
        """All machines of the fleet, not only these."""
        return self if self.rows is None else self._with(None)

    def take(self, rows: Integers) -> Machines:
        return self._with(rows)

    def of(self, request: Request) -> Machines:
        return self if request is self.request else self._with(self.rows, request)

    def _with(self, rows: Integers | None, request: Request | None = None) -> Machines:
        machines = Machines(
            self.table, self.what_if, self.snapshot, request or self.request, self.now_s, rows,
            last_known=self.last_known,
        )  # fmt: skip
        machines._feasible = self._feasible
        if "query" in self.__dict__ and request is None:
            machines.__dict__["query"] = self.query
        return machines

    @property
    def feasible(self) -> Bools:
        """[n] Whether no filter has refused a machine; for a score these are the verdicts of all filters."""
        if self._feasible is None:
            return np.ones(len(self), np.bool_)
        return self.pick(self._feasible)

    @feasible.setter
    def feasible(self, feasible: Bools) -> None:
        self._feasible = feasible
