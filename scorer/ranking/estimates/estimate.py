"""The estimate: the usage expected of an instance whose request does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Chances
from scorer.ledger.view.slots import PlacedInstances
from scorer.snapshot.arrays import Bools, Floats


@dataclass(frozen=True)
class Estimate:
    """The usage expected of an instance whose request does not say it: a share of its declared amounts.

    ``expected = clip(base * factor)``, with base the request, or the limit where that is preferred; where no base is
    given it is the default. An ``expected`` figure in the request or the instance always wins.

    base:
        ``request``; ``larger`` of limit and request (Koordinator, which takes a base of 0 as none given);
        ``limit-first``: the declared limit as it is, else
        request * factor (Trimaran's target load packing).
    factor, default:
        by resource name; 1 and 0 where not given.
    round_to:
        by resource name; the unit to round half away from zero to; exact where not given.

    >>> koordinator = Estimate(base="larger", factor={"cpu": 0.85, "memory": 0.7}, default={"cpu": 0.25})
    >>> [float(x) for x in koordinator.of((4.0, 100.0, *[0.0] * (len(RESOURCES) - 2)), {})][:3]
    [3.4, 70.0, 0.0]
    """

    base: Literal["request", "larger", "limit-first"] = "request"
    factor: Mapping[str, float] | None = None
    default: Mapping[str, float] | None = None
    round_to: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for name in ("factor", "default", "round_to"):
            for resource, value in (getattr(self, name) or {}).items():
                if resource not in RESOURCES:
                    raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
                if not 0 <= value < float("inf"):
                    raise ValueError(f"{name}.{resource}: expected a number of zero or more, got {value}")

    by_reports: ClassVar[bool] = False
    """Whether the credit of an instance goes by what its agent reports, where it does."""

    @property
    def chances(self) -> Chances | None:
        """Which stated chances of overload came true; None where nothing is learned."""
        return None

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A hashable form, for caches."""
        return (self.base, *(tuple(sorted((m or {}).items())) for m in (self.factor, self.default, self.round_to)))

    def columns(self, requests: Floats, limits: Floats, expected: Floats, missing: Bools) -> Floats:
        """Return [R, K] expected usage of K instances; ``limits`` and ``expected`` are NaN where not declared.

        ``missing``: where no amount was requested; the request is 0 there.
        """
        if self._plain:
            found: Floats = np.where(np.isnan(expected), requests, expected)
            return found
        factor, default, unit = self._columns
        limited = np.isfinite(limits)
        base = np.fmax(requests, limits) if self.base == "larger" else requests
        scaled = _round_to(base * factor, unit)
        if self.base == "larger":
            scaled = np.where(limited & (limits > 0), np.minimum(scaled, limits), scaled)
        none = base <= 0 if self.base == "larger" else missing
        scaled = np.where(none, default, scaled)
        if self.base == "limit-first":
            scaled = np.where(limited, limits, scaled)
        return np.where(np.isfinite(expected), expected, scaled)

    @cached_property
    def _plain(self) -> bool:
        """Whether an instance is expected to use what it requests."""
        return self.base == "request" and not (self.factor or self.default or self.round_to)

    @cached_property
    def _columns(self) -> tuple[Floats, Floats, Floats]:
        return _column(self.factor, 1.0), _column(self.default, 0.0), _column(self.round_to, 0.0)

    def of(
        self,
        amounts: tuple[float | None, ...],
        limits: Mapping[str, float],
        expected: Mapping[str, float] | None = None,
    ) -> Floats:
        """Return [R] for one instance; an amount of None is none given."""
        requests = np.array([amount or 0.0 for amount in amounts])
        if self._plain and not expected:
            return requests
        missing = np.array([[amount is None] for amount in amounts])
        column = self.columns(requests[:, None], _column(limits, np.nan), _column(expected or {}, np.nan), missing)
        return column[:, 0]

    def of_placed(self, placed: PlacedInstances) -> Floats:
        """Return [R, K] for instances of the ledger, made once for the same instances; read-only by agreement."""
        if placed.estimated is None or placed.estimated[0] is not self:
            placed.estimated = (self, self._of_placed(placed))
        return placed.estimated[1]

    def _of_placed(self, placed: PlacedInstances) -> Floats:
        return self.columns(placed.amounts, placed.limits, placed.expected, placed.missing)

    def of_request(self, request: Request) -> Floats:
        """Return [R] for the requested instance."""
        return self.of(request.given_amounts(), request.limits, request.expected)  # type: ignore[arg-type]

    def deviation_of_request(self, request: Request) -> Floats | None:
        """Return [R] the standard deviation of the requested instance's usage; NaN, or None, where it is not known."""
        del request
        return None


def _column(values: Mapping[str, float] | None, absent: float) -> Floats:
    """Return [R, 1] in the order of the resources."""
    values = values or {}
    return np.array([[values.get(resource, absent)] for resource in RESOURCES], np.float64)


def _round_to(values: Floats, unit: Floats) -> Floats:
    """Round half away from zero to multiples of the unit; a unit of 0 leaves the value."""
    if not unit.any():
        return values
    safe = np.where(unit > 0, unit, 1.0)
    return np.where(unit > 0, np.floor(values / safe + 0.5 + 1e-9) * safe, values)
