"""The learned value: the share of their requests that instances use. One Redis string, written by one scorer at a time.

A reader takes the fields that it knows; new ones are only added.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.values.read_json import read_or

FACTOR_MIN, FACTOR_MAX = 0.05, 1.5
"""The bounds of a factor."""
CAPACITY_MOST = 16.0
"""The largest capacity that is believed of a machine, in medians of the fleet."""


class Use(msgspec.Struct, kw_only=True):
    """The use of one resource by instances, as shares of their requests (`scorer.ranking.estimates.measured_use`)."""

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
    """Cases whose stated chances of overload were similar. Sums; older cases count less."""

    cases: float = 0.0
    stated: float = 0.0
    observed: float = 0.0
    """Sum of the shares of the next half hour in which the load was above the limit."""


class Chances(msgspec.Struct, kw_only=True):
    """Stated chances of load above a limit, and how often it was exceeded (`scorer.ranking.calibration`)."""

    limit: float
    std_factor: float
    floor: float
    """The settings of the score that stated them."""
    at: float
    """When cases were added last, epoch seconds."""
    bins: dict[str, list[ChanceBin]] = {}
    """By resource, ascending in the stated chance."""


class Learned(msgspec.Struct, kw_only=True):
    """Factors by resource, learned from measured instances."""

    v: int = 1
    version: int = 0
    """Raised with every write."""
    uses_at: float = 0.0
    """When instances were measured last, epoch seconds."""
    scorer: str = ""
    """Name of the scorer that wrote it."""
    lease: int = 0
    """Number of the lease ``learn`` under which it was written."""
    factors: dict[str, Annotated[float, Meta(ge=FACTOR_MIN, le=FACTOR_MAX)]] = {}
    """By resource; absent while too few instances are measured."""
    errors: dict[str, float] = {}
    """Standard error of each."""
    kinds: dict[str, dict[str, Annotated[float, Meta(ge=FACTOR_MIN, le=FACTOR_MAX)]]] = {}
    """By kind and resource; of few instances shrunk toward the others."""
    deviations: dict[str, dict[str, float]] = {}
    """By kind and resource: the standard deviation of a new instance's use, as a share of its request; other
    kinds under ``""``."""
    instances: dict[str, dict[str, float]] = {}
    """By kind and resource, the number of measured instances behind the factor; the fleet's under ``""``."""
    uses: dict[str, dict[str, Use]] = {}
    """By kind and resource the sums of the measurements; all instances under ``""``.

    The next scorer that learns continues them.
    """
    chances: Chances | None = None
    """Absent until stated chances have been watched for half an hour."""


def read_learned(raw: bytes | None) -> Learned | None:
    """Return the value; None when it is missing or unreadable.

    Factors that earlier scorers fitted to the load of machines, and groups without deviations, are left out.
    """
    if (found := read_or(raw, Learned, None)) is None:
        return None
    found.instances = {group: of for group, of in found.instances.items() if group in found.deviations}
    found.factors = _measured(found.factors, found.instances.get("", {}))
    kinds = {kind: _measured(own, found.instances.get(kind, {})) for kind, own in found.kinds.items()}
    found.kinds = {kind: own for kind, own in kinds.items() if own}
    return found


def _measured(factors: dict[str, float], instances: dict[str, float]) -> dict[str, float]:
    return {name: factor for name, factor in factors.items() if name in instances}
