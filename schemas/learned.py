"""The learned value: how much of what is asked instances really use. One Redis string; written by one scorer at a time.

A reader takes the fields that it knows; new ones are only added.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

FACTOR_MIN, FACTOR_MAX = 0.05, 1.5
"""A factor is never outside of these."""


class Sums(msgspec.Struct, kw_only=True):
    """What the fit of one resource, or of one kind's difference from it, goes by.

    Over all changes seen between two windows of a machine: of what the instances there ask, x, and of its usage, y.
    Older changes count less. So the next scorer goes on where the last one stopped.
    """

    count: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    instance_hours: float = 0.0


class Learned(msgspec.Struct, kw_only=True):
    """Factors by resource, and the evidence for them."""

    v: int = 1
    version: int = 0
    """Raised with every write."""
    at: float = 0.0
    """When it was written, epoch seconds."""
    scorer: str = ""
    """Who wrote it."""
    lease: int = 0
    """Under which number of the lease ``learn``."""
    factors: dict[str, Annotated[float, Meta(ge=FACTOR_MIN, le=FACTOR_MAX)]] = {}
    """By resource; absent while there is too little evidence."""
    errors: dict[str, float] = {}
    """Standard error of each."""
    kinds: dict[str, dict[str, Annotated[float, Meta(ge=FACTOR_MIN, le=FACTOR_MAX)]]] = {}
    """By kind and resource, where a kind differs from the others by more than chance; shrunk toward them."""
    evidence: dict[str, Sums] = {}
    """By resource."""
    evidence_of_kinds: dict[str, dict[str, Sums]] = {}
    """By kind and resource."""


def read_learned(raw: bytes | None) -> Learned | None:
    """Return the value, None where there is none or it cannot be read: nothing is then learned."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=Learned)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
