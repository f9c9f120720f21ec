"""The machines that a decision sees, by row, with their names, labels and operators' rules. Read-only."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from scorer.ranking.machines.fleet import Fleet
from scorer.snapshot.arrays import Integers
from scorer.snapshot.roster import Roster
from scorer.snapshot.rules import LabelColumn, MachineRules

Array = TypeVar("Array", bound=NDArray[Any])


class MachineFacts:
    """Some rows of a fleet (None: all), with names, labels and operators' rules."""

    def __init__(self, fleet: Fleet, rows: Integers | None) -> None:
        self.fleet = fleet
        self.rows = rows
        self.picked: Integers | slice | None = rows
        """What picks these rows of a column: for a single row a slice, which takes a fifth of the time."""
        if rows is not None and rows.size == 1:
            row = int(rows[0])
            self.picked = slice(row, row + 1)

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
        return column if self.rows is None else cast(Array, column[..., self.picked])
