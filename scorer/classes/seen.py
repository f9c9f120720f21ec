"""What the rules by class read of machines: the part of `scorer.ranking.machines.machines.Machines` that they use.

The rules are below the ranking, since a filter and the table of columns use them. So they are given the machines that a
decision sees, and import nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from numpy.typing import NDArray

from schemas.rpc.request import Request
from scorer.ledger.view.seats import Seats
from scorer.snapshot.arrays import Integers
from scorer.snapshot.snapshot import Snapshot


class FleetSeen(Protocol):
    """The windows and the ledger of all machines of the fleet."""

    snapshot: Snapshot

    @property
    def seats(self) -> Seats:
        """The ledger's sums by machine."""
        ...


class MachinesSeen(Protocol):
    """Some rows of a fleet (None: all), with their columns by name, for one request."""

    request: Request
    rows: Integers | None

    @property
    def fleet(self) -> FleetSeen:
        """The whole fleet."""
        ...

    def __len__(self) -> int: ...

    def __getattr__(self, name: str) -> NDArray[Any]: ...

    def column(self, name: str, *args: Any) -> Any:
        """Return a column that takes arguments."""
        ...

    def derived(self, key: Hashable, compute: Callable[[Any], Any]) -> Any:
        """Return ``compute(machines)``, kept between decisions for the machines that did not change."""
        ...
