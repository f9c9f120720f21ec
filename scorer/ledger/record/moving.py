"""A move as the record of an instance has it, and what is wanted of the instance where it moves to.

    "moving":{"to":"m2","since":1.0,"until":3601.0,"number":9,"new":{"id":"a","amounts":{"cpu":4000000},...}}

``new`` is the whole tail of the record from the confirmation on; only moves with another size have
it. The machine that it leaves holds the old amounts meanwhile, the one it moves to the new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scorer.ledger.record.rules import Rules

if TYPE_CHECKING:
    Amounts = tuple[float | None, ...]
    Declared = tuple[float, ...]
else:

    class Amounts(tuple):
        """Base units in the order of `schemas.resources`; None where not given. By name in a record."""

        __slots__ = ()

    class Declared(tuple):
        """Base units in the order of `schemas.resources`; -1 where not declared. By name in a record."""

        __slots__ = ()


class Arrival(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What an instance is where it moves to: the fields of its record that a move can change."""

    amounts: Amounts
    expected: Declared = ()
    limits: Declared = ()
    maxmemory: float = 0.0
    rules: Rules | None = None


class Moving(msgspec.Struct, frozen=True, gc=False):
    """A move of a confirmed instance, which also holds the machine ``to`` until the move is confirmed or ends."""

    to: str
    since: float
    until: float
    """When it ends by itself, epoch seconds: the instance then stays where it is."""
    number: int = 0
    """The ledger's change that began it: which move it is."""
    new: Arrival | None = None
    """What it is there; None: the same as before."""


CHANGED_BY_A_MOVE = Arrival.__struct_fields__
"""The fields of a record that a move can change."""
