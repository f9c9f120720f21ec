"""`Machines`: the argument of filters and scores, all machines as one decision sees them.

The columns are defined in one table, `scorer.ranking.columns.table`. `Machines` reads them for all machines or for some
rows, with a number of copies of the requested instance on each. What all `Machines` of one decision and load model
share is their `Fleet`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.facets import Facet
from scorer.ledger.view.seats import Seats
from scorer.ledger.view.slots import PlacedInstances
from scorer.ranking.estimates.credits import Credits, Day
from scorer.ranking.machines.days import day_start_s
from scorer.ranking.machines.fixed import Compute
from scorer.ranking.machines.kept import LoadModelKey, Shelf
from scorer.ranking.machines.owner import Owner
from scorer.ranking.machines.requested_instance import RequestedInstance
from scorer.snapshot.arrays import Array, Bools, Floats, Integers, at_rows
from scorer.snapshot.roster import Roster
from scorer.snapshot.rules import LabelColumn, MachineRules
from scorer.snapshot.windows import ChosenWindows

_R = len(RESOURCES)
NOTHING = Request()
UNOWNED = Owner("unowned")
"""The owner of values kept by a plugin that was not called by `scorer.ranking.rank`."""


class Column(Protocol):
    """An entry of the table of columns (`scorer.ranking.columns.table`)."""

    def read(self, machines: Machines, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return the column of some machines, kept under the key; ``args`` are those of a column that takes some."""


class Fleet:
    """The part that all `Machines` of one decision and load model share. While in use, its shelf is not changed."""

    def __init__(self, crediting: Credits, key: LoadModelKey, shelf: Shelf, columns: Mapping[str, Column]) -> None:
        self.credits = crediting
        self.snapshot = crediting.snapshot
        self.estimate = crediting.estimate
        self.windows: ChosenWindows = crediting.snapshot.windows(key.window_s)
        self.key = key
        self.shelf = shelf
        self.columns = columns
        self.requests_alone = key.requests_alone
        """Whether the ranking is by requests alone, since no data is fresh."""
        self.debits = key.debits and not key.requests_alone
        """Whether debits are subtracted from the windows."""
        self.last_known = False
        """Whether the pipeline is silent and the ranking is by each machine's last known load, however old."""
        shelf.viewers.add(self)

    def __len__(self) -> int:
        return len(self.snapshot)

    @property
    def seats(self) -> Seats:
        """The ledger's sums by machine."""
        return self.shelf.seats

    @property
    def credited(self) -> bool:
        """Whether credits are counted."""
        return self.credits.model != "none" and not self.requests_alone

    def sums(self, key: Hashable, compute: Callable[[PlacedInstances], Floats], rows: Integers | None) -> Floats:
        """Return [R, M], or [R, len(rows)]: the sum over each machine's instances of ``compute(placed) -> [R, K]``."""
        return self.shelf.seats.sums(key, compute, self.shelf.row_sums, rows)


class Machines:
    """All machines, or some rows of them, as one decision sees them. Read-only.

    Columns that plugins use, by name: ``allocatable``, ``capacity``, ``allocated``, ``mean``, ``std``, ``max``,
    ``utilization``, ``deviation``, ``credit``, ``measured_mean`` (all [R, n]); ``maxmemory``, ``count``, ``age_s``,
    ``coverage``, ``warming``, ``window_s``, ``has_data``, ``cordon`` ([n]); ``expected`` and ``amounts`` of the
    requested instance ([R]); the whole list is `scorer.ranking.columns.table.COLUMNS`. Besides them ``percentile(95)``,
    ``class_mean("prod")``, ``peak("today")`` ([R, n]), ``feasible`` ([n]), ``label(key)``, ``tally(facets)``,
    ``rule(name)``.

    Values that are expensive can be kept between decisions: ``derived``, ``constant``, ``of_fleet``, ``of_snapshot``,
    and for the latest requests ``recent``. Each plugin, with each of its settings, has its own names for them.

    ``take(rows, copies)`` returns rows of the same machines with ``copies[i]`` copies of the instance already on each:
    a batch is planned with it.
    """

    def __init__(
        self, fleet: Fleet, request: Request, now_s: float, rows: Integers | None = None, owner: Owner = UNOWNED
    ) -> None:
        self.fleet = fleet
        self.request = request
        self.now_s = now_s
        self.rows = rows
        self.picked: Integers | slice | None = rows
        """What picks these rows of a column: for a single row a slice, which takes a fifth of the time."""
        if rows is not None and rows.size == 1:
            row = int(rows[0])
            self.picked = slice(row, row + 1)
        self.copies: Integers | None = None
        """[n] How many copies of the requested instance are on each already; None: none."""
        self.owner = owner
        """The owner of the values kept through these machines."""
        self._made: dict[Hashable, Any] = {}
        """Values made for this request and these rows; shared by all owners."""
        self._feasible: Bools | None = None
        self._whole: Machines | None = None

    @cached_property
    def requested_instance(self) -> RequestedInstance:
        """What one more instance of the request adds to a machine."""
        return RequestedInstance(self.request, self.fleet.estimate)

    # ---- facts

    def __len__(self) -> int:
        return len(self.fleet) if self.rows is None else self.rows.size

    @property
    def roster(self) -> Roster:
        """Names and rows of the whole fleet."""
        return self.fleet.snapshot.roster

    def row_of(self, position: int) -> int:
        """Return the row in the fleet of the machine at a position of these."""
        return position if self.rows is None else int(self.rows[position])

    def name(self, position: int) -> str:
        """Return the machine's name."""
        return self.roster.names[self.row_of(position)]

    @property
    def requests_alone(self) -> bool:
        """Whether the ranking is by requests alone, since no data is fresh."""
        return self.fleet.requests_alone

    @property
    def last_known(self) -> bool:
        """Whether the pipeline is silent and the ranking is by each machine's last known load, however old."""
        return self.fleet.last_known

    @property
    def rules(self) -> MachineRules:
        """The rules of all machines of the fleet, not only of these."""
        return self.fleet.snapshot.rules

    def label(self, key: str) -> LabelColumn:
        """Return one label of these machines; the key ``machine`` is the machine's name."""
        if key == "machine":
            rows = np.arange(len(self.fleet)) if self.rows is None else self.rows
            return LabelColumn(self.roster.names, rows)
        column = self.rules.label(key)
        return column if self.rows is None else LabelColumn(column.values, column.codes[self.picked])

    def rule(self, name: str) -> NDArray[Any]:
        """Return an operator's column: ``thresholds``, ``prod_thresholds``, ``percentile_thresholds``, ``power``."""
        column: NDArray[Any] = getattr(self.rules, name)
        return self._pick(column)

    def _pick(self, column: Array) -> Array:
        return column if self.picked is None else at_rows(column, self.picked)

    # ---- columns

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name not in self.fleet.columns:
            raise AttributeError(f"machines have no column {name!r}")
        found: NDArray[Any] | None = self._made.get(name)
        if found is None:
            found = self._made[name] = self.fleet.columns[name].read(self, name, ())
        self.__dict__[name] = found
        return found

    def column(self, name: str, *args: Any) -> Any:
        """Return a column of the table by name; ``args`` are those of a column that takes some."""
        key = (name, *args) if args else name
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self.fleet.columns[name].read(self, key, args)
        return found

    def read_plain(self, key: Hashable, names: Sequence[str]) -> None:
        """Read some columns that follow from the snapshot alone as plain numbers, for `plain`; the key is of the names.

        To look up a column takes longer than to pick a few machines of it, so the columns are looked up together.
        """
        columns: Sequence[NDArray[Any]] = self.of_snapshot(key, lambda m: [m.column(name) for name in names])
        row = int(self.rows[0]) if self.rows is not None and self.rows.size == 1 else None
        for name, column in zip(names, columns, strict=True):
            values = self._pick(column).T.tolist() if row is None else [column[..., row].tolist()]
            self._made["plain", name] = values

    def keep_plain(self, name: str, values: Sequence[Any]) -> None:
        """Keep what was read of a column already, one entry a machine, for `plain`."""
        self._made["plain", name] = values

    def of_resources(self, picked: slice | Sequence[int], name: str, *args: Any) -> Floats:
        """Return [..., K, n]: some resources of a column that is kept; of few machines, not first all of its resources.

        To pick 20 of 5,000 machines takes a miss of the processor's cache for each of them and each resource.
        """
        if self.rows is None or self.copies is not None:
            found: Floats = self.column(name, *args)[..., picked, :]
            return found
        return self._pick(cast(Floats, self.whole.column(name, *args)[..., picked, :]))

    def percentile(self, percent: int) -> Floats:
        """Return [R, n]: the percentile 50, 90, 95 or 99 of the usage, with credits."""
        found: Floats = self.column("percentile", percent)
        return found

    def class_mean(self, priority_class: str) -> Floats:
        """Return [R, n]: mean usage by the instances of one class, with credits; NaN where not measured."""
        found: Floats = self.column("class_mean", priority_class)
        return found

    def peak(self, day: str, time_zone: str = "UTC", now_s: float | None = None) -> Floats:
        """Return [R, n]: the highest one-minute mean of ``today`` or ``yesterday``, with credits."""
        found: Floats = self.peaks((day,), time_zone, now_s)[0]
        return found

    def peaks(
        self,
        days: Sequence[str],
        time_zone: str = "UTC",
        now_s: float | None = None,
        picked: slice | Sequence[int] = slice(None),
    ) -> Floats:
        """Return [len(days), R, n]: the same of several days; ``picked``: of some resources."""
        at_s = self.now_s if now_s is None else now_s
        until_s = day_start_s(at_s, "today", time_zone)
        each = (Day(day, day_start_s(at_s, day, time_zone), np.inf if day == "today" else until_s) for day in days)
        return self.of_resources(picked, "peaks", *each)

    def requested_or(self, cpu: float, memory: float) -> Floats:
        """Return [R, n]: the sum of the amounts, an instance without one counting ``cpu`` cores or ``memory`` bytes."""
        found: Floats = self.column("requested_or", cpu, memory)
        return found

    def amounts_or(self, cpu: float, memory: float) -> Floats:
        """Return [R]: what the instance requests, ``cpu`` cores or ``memory`` bytes where it requests none."""
        return self.requested_instance.amounts_or(cpu, memory)

    def tally(self, facets: frozenset[Facet]) -> NDArray[np.integer]:
        """Return [n]: instances with all these facets on each machine."""
        column = self._pick(self.fleet.seats.tally(facets))
        if self.copies is not None and facets <= self.requested_instance.facets:
            column = column + self.copies
        return column

    def exists(self, facets: frozenset[Facet]) -> bool:
        """Return whether any machine has an instance with all these facets, copies of the requested one included."""
        copied = self.copies is not None and facets <= self.requested_instance.facets
        return copied or bool(self.fleet.seats.ledger.holders(facets))

    def plain(self, name: str, position: int) -> Any:
        """Return one machine's values of a column, [R] or one, as plain numbers: faster than many small arrays."""
        key = ("plain", name)
        if key not in self._made:
            self._made[key] = self.column(name).T.tolist()
        return self._made[key][position]

    # ---- values kept between decisions

    def derived(self, key: Hashable, compute: Compute) -> Any:
        """Return [..., n]: ``compute(machines)``, kept for the whole fleet between decisions.

        A machine's value must depend on that machine alone, and on no request. After a placement it is computed again
        only for the machines that changed.
        """
        own, shelf = (self.owner, key), self.fleet.shelf
        if self.rows is None:
            return shelf.column(own, compute, self)
        kept = None if self.copies is not None else shelf.derived.get(own)
        return compute(self) if kept is None else self._pick(kept[0])

    def recent(self, key: Hashable, compute: Compute) -> Any:
        """Return [..., n]: ``compute(machines)``, kept for the keys asked for last.

        For values that depend on the request: what they take of it is in the key, and a machine's value depends on
        that and on the machine alone: the machines that ``compute`` is given may be without the request. After
        placements it is computed again for the machines that changed.
        """
        if self.rows is not None:
            return compute(self)
        return self.fleet.shelf.recent_column((self.owner, key), compute, self)

    def constant(self, key: Hashable, compute: Compute) -> Any:
        """Return [..., n]: the same as `derived`, for values that no placement changes.

        On a new snapshot it is computed again for the machines that differ, or for all where many do.
        """
        return self._pick(self.fleet.shelf.fixed.of((self.owner, key), compute, self, by_machine=True))

    def of_snapshot(self, key: Hashable, compute: Compute) -> Any:
        """Return ``compute(all machines)``: any value of the whole fleet that no placement changes.

        Load models of the same window share it: it must not depend on credits, debits or estimates.
        """
        return self.fleet.shelf.fixed.of((self.owner, key), compute, self)

    def of_fleet(self, key: Hashable, compute: Compute) -> Any:
        """Return ``compute(all machines)``: any value of the whole fleet, kept until the next placement."""
        overall, own = self.fleet.shelf.overall, (self.owner, key)
        if own not in overall:
            overall[own] = compute(self.whole)
        return overall[own]

    def once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return ``compute()``, made once for this request and these rows: for `detail`, called for many positions."""
        own = (self.owner, key)
        if own not in self._made:
            self._made[own] = compute()
        return self._made[own]

    # ---- which machines

    @property
    def whole(self) -> Machines:
        """All machines of the fleet, not only these, without the requested instance."""
        whole = self._whole
        if whole is None:
            whole = self._whole = Machines(self.fleet, NOTHING, 0.0)
        whole.owner = self.owner
        return whole

    def take(self, rows: Integers, copies: Integers | None = None) -> Machines:
        """Return [len(rows)] machines: row ``rows[i]`` with ``copies[i]`` copies of the instance on it already."""
        return self._with(rows, copies, self.owner)

    def owned_by(self, owner: Owner) -> Machines:
        """Return the same machines for another owner, with the values that it keeps."""
        machines = self._with(self.rows, self.copies, owner)
        machines._made = self._made
        return machines

    def _with(self, rows: Integers | None, copies: Integers | None, owner: Owner) -> Machines:
        machines = Machines(self.fleet, self.request, self.now_s, rows, owner)
        machines.copies, machines._feasible, machines._whole = copies, self._feasible, self._whole
        machines.requested_instance = self.requested_instance
        made, known = machines.__dict__, self.__dict__
        for name in ("amounts", "expected"):  # of the requested instance: to look one up anew takes 2 us
            if name in known:
                made[name] = known[name]
        return machines

    @property
    def feasible(self) -> Bools:
        """[n] Whether no filter has refused the machine so far; a score sees the verdict of all filters."""
        return self.all_true if self._feasible is None or self.rows is not None else self._feasible

    @feasible.setter
    def feasible(self, feasible: Bools) -> None:
        self._feasible = feasible

    @property
    def feasible_of_all(self) -> Bools:
        """[M] The same for the whole fleet."""
        return self.whole.all_true if self._feasible is None else self._feasible

    def below(self, slack: Floats, amounts: Floats | Sequence[float], resources: Sequence[int] = range(_R)) -> Bools:
        """Return [n]: whether ``amounts[r] <= slack[r]`` in all of the resources; False where the slack is NaN."""
        allowed: Bools | None = None
        for resource in resources:
            here = slack[resource] >= amounts[resource]
            allowed = here if allowed is None else np.logical_and(allowed, here, out=allowed)
        return self.all_true if allowed is None else allowed
