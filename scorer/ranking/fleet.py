"""The fleet under one load model: snapshot, windows, credits and estimate, with the shelf of what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, Protocol

from scorer.ledger.seats import Seats
from scorer.ledger.slots import PlacedInstances
from scorer.ranking.credits import CreditModel, Estimate
from scorer.ranking.kept import Shelf
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.windows import ChosenWindows

MeanOf = Literal["window", "instances"]


class Column(Protocol):
    """An entry of the table of columns (`scorer.ranking.columns`)."""

    def read(self, machines: Any, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return the column of some machines, kept under the key; ``args`` are those of a column that takes some."""


class Fleet:
    """What all `Machines` of one decision and load model share. While it lives, its shelf is not changed in place."""

    def __init__(
        self,
        snapshot: Snapshot,
        windows: ChosenWindows,
        credit_model: CreditModel,
        estimate: Estimate,
        shelf: Shelf,
        columns: Mapping[str, Column],
        *,
        requests_alone: bool = False,
        debits: bool = False,
        mean_of: MeanOf = "window",
    ) -> None:
        self.snapshot = snapshot
        self.windows = windows
        self.credit_model = credit_model
        self.estimate = estimate
        self.shelf = shelf
        self.columns = columns
        self.requests_alone = requests_alone
        """Whether the profile decided to go by requests alone, as no data is fresh."""
        self.debits = debits and not requests_alone
        """Whether what ended or moved away is taken out of the windows."""
        self.mean_of = mean_of
        """Whether the mean is the window's or, where enough is measured, the sum over instances."""
        self.last_known = False
        """Whether the pipeline is silent and the profile goes by the last that each machine sent, however old."""
        shelf.viewers.add(self)

    def __len__(self) -> int:
        return len(self.snapshot)

    @property
    def seats(self) -> Seats:
        """The ledger's sums by machine."""
        return self.shelf.seats

    @property
    def credited(self) -> bool:
        """Whether any credit can be there."""
        return self.credit_model != "none" and not self.requests_alone

    def sums(self, key: Hashable, compute: Callable[[PlacedInstances], Floats], rows: Integers | None) -> Floats:
        """Return [R, M], or [R, len(rows)]: the sum over each machine's instances of ``compute(placed) -> [R, K]``."""
        return self.shelf.seats.sums(key, compute, self.shelf.row_sums, rows)
