"""The fleet under one load model: snapshot, windows, credits and estimate, with the shelf of kept columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

from scorer.ledger.view.seats import Seats
from scorer.ledger.view.slots import PlacedInstances
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.machines.kept import LoadModelKey, Shelf
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.windows import ChosenWindows


class Column(Protocol):
    """An entry of the table of columns (`scorer.ranking.columns.table`)."""

    def read(self, machines: Any, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return the column of some machines, kept under the key; ``args`` are those of a column that takes some."""


class Fleet:
    """The part that all `Machines` of one decision and load model share. While in use, its shelf is not changed."""

    def __init__(
        self, snapshot: Snapshot, key: LoadModelKey, estimate: Estimate, shelf: Shelf, columns: Mapping[str, Column]
    ) -> None:
        self.snapshot = snapshot
        self.windows: ChosenWindows = snapshot.windows(key.window_s)
        self.credit_model = key.credits
        self.estimate = estimate
        self.shelf = shelf
        self.columns = columns
        self.requests_alone = key.requests_alone
        """Whether the ranking is by requests alone, since no data is fresh."""
        self.debits = key.debits and not key.requests_alone
        """Whether debits are subtracted from the windows."""
        self.mean_of = key.mean_of
        """``window``: the mean is the window's. ``instances``: the sum over instances, where enough is measured."""
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
        return self.credit_model != "none" and not self.requests_alone

    def sums(self, key: Hashable, compute: Callable[[PlacedInstances], Floats], rows: Integers | None) -> Floats:
        """Return [R, M], or [R, len(rows)]: the sum over each machine's instances of ``compute(placed) -> [R, K]``."""
        return self.shelf.seats.sums(key, compute, self.shelf.row_sums, rows)
