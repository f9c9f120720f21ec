"""The learned value: the part of what is asked that instances use. One Redis string, written by one scorer at a time.

A reader takes the fields that it knows; new ones are only added.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

FACTOR_MIN, FACTOR_MAX = 0.05, 1.5
"""The bounds of a factor."""
CAPACITY_MOST = 16.0
"""The largest capacity that is believed of a machine, in medians of the fleet."""


class Sums(msgspec.Struct, kw_only=True):
    """The sums from which the factor of one resource, or one kind's difference from it, is fitted.

    They are over all changes between two windows of a machine: x, of what the instances there ask, y, of its usage, and
    s, of the ``expected`` of those that give one. Older changes count less. The next scorer that learns continues from
    them.
    """

    count: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    xs: float = 0.0
    sy: float = 0.0
    ss: float = 0.0
    instance_hours: float = 0.0


class Use(msgspec.Struct, kw_only=True):
    """What instances use of one resource, as shares of what they ask (`scorer.ranking.estimates.measured_use`)."""

    time: float
    """Instance-seconds; older ones count less."""
    mean: float
    between: float
    """Variance between instances."""
    within: float
    """Mean variance of an instance's reports around its own mean."""
    live: float = 0.0
    """Instances measured at ``at``."""
    seen: float = 0.0
    """Instances that were seen to begin; older ones count less."""


class ChanceBin(msgspec.Struct):
    """Cases whose stated chances of overload were alike. Sums; older cases count less."""

    cases: float = 0.0
    stated: float = 0.0
    observed: float = 0.0
    """Of the shares of the next half hour in which the load was above the limit."""


class Chances(msgspec.Struct, kw_only=True):
    """Stated chances of load above a limit, and what came true (`scorer.ranking.true_chance`)."""

    limit: float
    std_factor: float
    floor: float
    """Of the score that stated them."""
    at: float
    """When cases were added last, epoch seconds."""
    bins: dict[str, list[ChanceBin]] = {}
    """By resource, ascending in the stated chance."""


class Learned(msgspec.Struct, kw_only=True):
    """Factors by resource, and the evidence for them."""

    v: int = 1
    version: int = 0
    """Raised with every write."""
    at: float = 0.0
    """When factors were fitted to windows last, epoch seconds."""
    uses_at: float = 0.0
    """When instances were measured last."""
    scorer: str = ""
    """Name of the scorer that wrote it."""
    lease: int = 0
    """Number of the lease ``learn`` under which it was written."""
    factors: dict[str, Annotated[float, Meta(ge=FACTOR_MIN, le=FACTOR_MAX)]] = {}
    """By resource; absent while there is too little evidence."""
    errors: dict[str, float] = {}
    """Standard error of each."""
    kinds: dict[str, dict[str, Annotated[float, Meta(ge=FACTOR_MIN, le=FACTOR_MAX)]]] = {}
    """By kind and resource, where a kind differs significantly from the others; shrunk toward them."""
    deviations: dict[str, dict[str, float]] = {}
    """By kind and resource, the standard deviation of what a new instance uses, as a share of what it asks.

    Of other kinds under ``""``. Only where instances are measured."""
    instances: dict[str, dict[str, float]] = {}
    """By kind and resource, how many measured instances say so; of the fleet under ``""``."""
    uses: dict[str, dict[str, Use]] = {}
    """By kind and resource what is measured; of all instances under ``""``. The next scorer that learns goes on."""
    evidence: dict[str, Sums] = {}
    """By resource."""
    evidence_of_kinds: dict[str, dict[str, Sums]] = {}
    """By kind and resource."""
    chances: Chances | None = None
    """Absent until stated chances have been watched for half an hour."""


def read_learned(raw: bytes | None) -> Learned | None:
    """Return the value; None when there is none or it cannot be read."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=Learned)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
