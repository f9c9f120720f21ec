"""An instance as the ledger keeps it: what was promised, to whom, where, since when."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["reserved", "confirmed", "released", "expired"]


class Instance(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One record of the ledger. Amounts are floats in base units in the order of `schemas.resources`.

    Reserved and confirmed instances hold their amounts; the others are remembered for a day so that a repeated call
    gets the same answer.
    """

    id: str
    machine: str
    state: State
    amounts: tuple[float, ...]
    expected: tuple[float, ...] = ()
    """Expected usage by resource, -1 where nobody said; empty: by the profile's factors from ``amounts``."""
    limits: tuple[float, ...] = ()
    """Declared limits by resource, -1 where not declared; empty: none."""
    maxmemory: float = 0.0
    ports: tuple[int, ...] = ()
    cluster: str = ""
    role: str = ""
    cluster_masters: int = 0
    priority_class: str = "prod"
    labels: dict[str, str] = {}
    kind: str = ""
    reserved_at: float = 0.0
    started_at: float = 0.0
    """When it was confirmed to run; 0 before: its credit is full until then."""
    expires_at: float = 0.0
    ended_at: float = 0.0
    request: str = ""
    """Digest of the request it was placed for: the same id with another one is an error."""
    swap: tuple[str, ...] = ()
    """The two ids of its last exchange of roles, until its role changes otherwise: that very call again is a repeat."""
    version: int = 0
    """The ledger's change number of its last transition."""
