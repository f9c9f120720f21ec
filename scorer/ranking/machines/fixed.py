"""Values that no placement changes: those of one snapshot, for one choice of windows, and how each of them is made.

A new snapshot has none yet. Those that were asked for on the one before are made by `FixedValues.follow` on the thread
that builds the snapshot, so that the next decision need not. What is by machine is mended where few machines changed,
in a copy, for decisions still read the other.

Chosen: to make these values alone. Rejected: to rank for a request of all resources on an empty ledger. With 50,000
machines that took 11 of the 15 ms of a flush, most of them for totals and credits that no decision read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from numpy.typing import NDArray

from scorer.ranking.machines.owner import Owner
from scorer.snapshot.arrays import Integers

Key = tuple[Owner, Hashable]
Compute = Callable[[Any], Any]
"""From machines (`scorer.ranking.machines.machines`) to a value or a column [..., n] of theirs."""


class Rows(Protocol):
    """Some machines of a fleet, or all: what `Machines` has for its kept columns."""

    owner: Owner
    picked: Integers | slice | None

    def __len__(self) -> int: ...

    @property
    def whole(self) -> Rows:
        """All machines of the fleet."""

    def take(self, rows: Integers) -> Rows:
        """Return some machines of the fleet."""


class FixedValues:
    """The values by owner and name."""

    def __init__(self) -> None:
        self.values: dict[Key, Any] = {}
        self._made_by: dict[Key, tuple[Compute, bool]] = {}
        self._asked: set[Key] = set()
        """The keys that were asked for."""
        self._followed: set[Key] = set()
        """Those that were made because the snapshot before was asked for them, or had made them so itself."""

    def of(self, key: Key, compute: Compute, machines: Rows, *, by_machine: bool = False) -> Any:
        """Return ``compute(all machines)``, made at the first call.

        ``by_machine``: it is a column, and a machine's value depends on that machine alone.
        """
        self._asked.add(key)
        if key not in self.values:
            self._put(key, compute, by_machine, compute(machines.whole))
        return self.values[key]

    def _put(self, key: Key, compute: Compute, by_machine: bool, value: Any) -> None:
        self._made_by[key], self.values[key] = (compute, by_machine), value

    def follow(self, before: FixedValues, machines: Rows, rows: Integers | None) -> None:
        """Make what was asked for on the snapshot before; ``rows``: the machines that differ since; None: any may."""
        self._followed = before._asked.copy() or before._followed
        some = None if rows is None else machines.take(rows)
        for key, (compute, by_machine) in before._made_by.copy().items():  # what others are made of comes first
            if key not in self._followed or key in self.values:
                continue
            machines.owner = key[0]
            value = None
            if by_machine and some is not None:
                some.owner = key[0]
                value = _mended(before.values[key], compute, some)
            self._put(key, compute, by_machine, compute(machines) if value is None else value)
        self._asked.clear()  # of what was asked for to make the others


def _mended(before: NDArray[Any], compute: Compute, some: Rows) -> NDArray[Any] | None:
    """Return a column with the rows of some machines made anew; None for one that does not have a value for each."""
    if not len(some):
        return before
    values = compute(some)
    if values.shape[-1] != len(some) or values.shape[:-1] != before.shape[:-1]:
        return None
    if values.tobytes() == before[..., some.picked].tobytes():
        return before
    column = before.copy()
    column[..., some.picked] = values
    return column
