"""`Machines`: the argument of filters and scores, all machines as one decision sees them.

The columns are defined in one table, `scorer.ranking.columns.table`. `Machines` reads them for all machines or for some
rows, with a number of copies of the requested instance on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.facets import Facet
from scorer.ranking.machines.days import day_start_s
from scorer.ranking.machines.fleet import Fleet
from scorer.ranking.machines.kept_values import UNOWNED, KeptValues
from scorer.ranking.machines.owner import Owner
from scorer.ranking.machines.requested_instance import RequestedInstance
from scorer.snapshot.arrays import Bools, Floats, Integers

_R = len(RESOURCES)
NOTHING = Request()


class Machines(KeptValues):
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
        self,
        fleet: Fleet,
        request: Request,
        now_s: float,
        *,
        rows: Integers | None = None,
        copies: Integers | None = None,
        feasible: Bools | None = None,
        owner: Owner = UNOWNED,
        requested_instance: RequestedInstance | None = None,
    ) -> None:
        super().__init__(fleet, rows, copies, owner)
        self.request = request
        self.now_s = now_s
        self.requested_instance = (
            RequestedInstance(request, fleet.estimate) if requested_instance is None else requested_instance
        )
        self._feasible = feasible
        self._whole: Machines | None = None

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

    def peaks(self, days: Sequence[str], time_zone: str = "UTC", now_s: float | None = None) -> Floats:
        """Return [len(days), R, n]: the same of several days."""
        at_s = self.now_s if now_s is None else now_s
        until_s = day_start_s(at_s, "today", time_zone)
        each = ((day, day_start_s(at_s, day, time_zone), np.inf if day == "today" else until_s) for day in days)
        found: Floats = self.column("peaks", *each)
        return found

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

    def plain(self, name: str, position: int) -> list[float]:
        """Return one machine's [R] values of a column as plain numbers, for `detail`: faster than many small arrays."""
        key = ("plain", name)
        if key not in self._made:
            self._made[key] = self.column(name).T.tolist()
        found: list[float] = self._made[key][position]
        return found

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
        return Machines(
            self.fleet, self.request, self.now_s,
            rows=rows, copies=copies, feasible=self._feasible, owner=self.owner,
            requested_instance=self.requested_instance,
        )  # fmt: skip

    def owned_by(self, owner: Owner) -> Machines:
        """Return the same machines for another owner, with the values that it keeps."""
        machines = Machines(
            self.fleet, self.request, self.now_s,
            rows=self.rows, copies=self.copies, feasible=self._feasible, owner=owner,
            requested_instance=self.requested_instance,
        )  # fmt: skip
        machines._made = self._made
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
