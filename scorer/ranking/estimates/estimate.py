"""The estimate: the usage expected of an instance whose request does not state it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Chances
from scorer.ranking.kernel.binding import expected
from scorer.ranking.kernel.layout import BASES, ESTIMATE, MAKING
from scorer.snapshot.arrays import Floats


@dataclass(frozen=True)
class Estimate:
    """The usage expected of an instance whose request does not state it: a share of its declared amounts.

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
    """Whether an instance's credit is computed from its agent's reports, where there are any."""

    @property
    def chances(self) -> Chances | None:
        """How often stated chances of overload came true; None where nothing is learned."""
        return None

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A hashable form, by which estimates are compared."""
        return (self.base, *(tuple(sorted((m or {}).items())) for m in (self.factor, self.default, self.round_to)))

    @cached_property
    def struct(self) -> NDArray[np.void]:
        """The settings for the C functions (``expected_of`` in ``making.h`` has the formula)."""
        found = np.zeros((), ESTIMATE)
        found["base"] = BASES[self.base]
        for name, given, absent in (
            ("factor", self.factor, 1.0), ("fallback", self.default, 0.0), ("unit", self.round_to, 0.0),
        ):  # fmt: skip
            found[name] = [(given or {}).get(resource, absent) for resource in RESOURCES]
        return found

    def of_records(self, records: NDArray[np.void]) -> Floats:
        """Return [R, K]: the expected use of K instances; ``records`` [K] are `scorer.ledger.view.slots.INSTANCE`.

        >>> from scorer.ledger.view.slots import request_record
        >>> koordinator = Estimate(base="larger", factor={"cpu": 0.85, "memory": 0.7}, default={"cpu": 0.25})
        >>> koordinator.of_records(request_record(Request(cpu=4.0, memory=100.0)))[:3, 0].tolist()
        [3.4, 70.0, 0.0]
        """
        making = np.zeros((), MAKING)
        making["estimate"] = self.struct
        return expected(making, np.ascontiguousarray(records)).T

    def deviation_of_request(self, request: Request) -> Floats | None:
        """Return [R] the standard deviation of the requested instance's usage; NaN, or None, where it is unknown."""
        del request
        return None
