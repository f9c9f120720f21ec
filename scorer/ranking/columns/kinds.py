"""The kinds of columns: how a column is made, how long it is kept, and what one more copy of the request adds.

| kind      | made                                                                     | kept                          |
|-----------|--------------------------------------------------------------------------|-------------------------------|
| `Fixed`   | once of a snapshot                                                       | no placement changes it       |
| `Placed`  | over the fleet; after a placement only in the rows that changed          | for its load model            |
| `Part`    | a slice of ``sums``, which are made together                             | with ``sums``                 |
| `Made`    | of other columns and the request, for the machines that are asked for    | for one decision              |
| `Overall` | of the whole fleet: not by machine                                       | until the next placement      |

R resources in the order of `schemas.resources`, n machines, M in the whole fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.owner import Owner
from scorer.snapshot.arrays import at_rows

SCORER = Owner("columns")
"""The owner of all columns."""

_R = len(RESOURCES)
Of = Callable[..., Any]
"""From machines, and the arguments of a column that takes some, to [..., n]."""


@dataclass(frozen=True)
class Fixed:
    """A column that follows from the snapshot alone."""

    of: Of
    mended: bool = False
    """On the next snapshot it is made again only for the machines that changed."""

    def read(self, machines: Machines, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return [..., n]."""
        fixed = machines.fleet.shelf.fixed
        values = fixed.of((SCORER, key), lambda some: self.of(some, *args), machines, by_machine=self.mended)
        return values if machines.picked is None else at_rows(values, machines.picked)


@dataclass(frozen=True)
class Placed:
    """A column that placements change, each in the row of its machine."""

    of: Of
    each: Of | None = None
    """What one more copy of the request adds, [R] or a number."""

    def read(self, machines: Machines, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return [..., n]."""
        values = machines.fleet.shelf.column((SCORER, key), lambda some: self.of(some, *args), machines)
        return _with_copies(machines, values, self.each, args)


@dataclass(frozen=True)
class Part:
    """One of the sums that every placement changes, which are made together: a slice of the column ``sums``."""

    place: int
    each: Of | None = None
    instead: Of | None = None
    """How the column is made of others where there are copies, for one that a copy does not simply add to."""

    def read(self, machines: Machines, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return [R, n]."""
        if machines.copies is not None and self.instead is not None:
            return self.instead(machines)
        values = machines.column("sums")[self.place * _R : (self.place + 1) * _R]
        return values if machines.copies is None else _of_copies(machines, values, self.each, args)


@dataclass(frozen=True)
class Made:
    """A column made of other columns, which have the copies in them."""

    of: Of

    def read(self, machines: Machines, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return [..., n]."""
        return self.of(machines, *args)


@dataclass(frozen=True)
class Overall:
    """A value of the whole fleet."""

    of: Of
    fixed: bool = False
    """No placement changes it."""

    def read(self, machines: Machines, key: Hashable, args: tuple[Any, ...]) -> Any:
        """Return the value, whichever machines these are."""
        shelf, own = machines.fleet.shelf, (SCORER, key)
        if self.fixed:
            return shelf.fixed.of(own, lambda some: self.of(some, *args), machines)
        kept = shelf.overall
        if own not in kept:
            kept[own] = self.of(machines.whole, *args)
        return kept[own]


def _with_copies(machines: Machines, values: NDArray[Any], each: Of | None, args: tuple[Any, ...]) -> Any:
    """Return the rows of a [..., M] column with each copy's share added."""
    if machines.picked is None:
        return values
    return _of_copies(machines, at_rows(values, machines.picked), each, args)


def _of_copies(machines: Machines, picked: NDArray[Any], each: Of | None, args: tuple[Any, ...]) -> Any:
    if machines.copies is None or each is None:
        return picked
    share = each(machines, *args)
    return picked + (share[:, None] * machines.copies if isinstance(share, np.ndarray) else share * machines.copies)
