"""The base of the project's filters and scores, and the types of what they read and return.

A plugin of another package needs no base: `scorer.ranking.profiles.plugins` has the defaults of what it does not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

from schemas.rpc.request import Request
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scope import Scope
from scorer.snapshot.arrays import Bools, Floats

__all__ = ["Bools", "Detail", "Floats", "Machines", "Plugin", "Reasons", "Request", "Scope"]

Shown: TypeAlias = "str | float | Sequence[Shown] | Mapping[str, Shown] | None"
Detail = Mapping[str, Shown]
"""The numbers behind one machine's verdict, by name, as an explanation shows them."""
Reasons = Mapping[str, Bools]
"""Refused machines [n] by reason."""


class Plugin:
    """What a filter or a score says of itself, besides its settings; of n machines it returns [n]."""

    name: ClassVar[str]
    reason: ClassVar[str]
    """Of a filter alone."""
    scope: ClassVar[Scope]
    momentary: ClassVar[bool] = False
