"""The estimate: the usage expected of an instance whose request does not state it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Chances, Learned
from scorer.ledger.view.slots import kind_of
from scorer.ranking.estimates.measured_use import FLEET, SIZE, code_of_group, groups_of, octave_of
from scorer.ranking.kernel.binding import expected, point
from scorer.ranking.kernel.layout import BASES, ESTIMATE, MAKING
from scorer.snapshot.arrays import Floats, Integers


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


Groups = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""Figures by group and resource, hashable."""


@dataclass(frozen=True)
class LearnedEstimate(Estimate):
    """``expected = request * factor``; the factor is that of the finest group for which one is known.

    The groups are those of `scorer.ranking.estimates.measured_use`: kind and size, kind, size, the fleet. This holds
    for the requested instance and for placed ones. An explicit ``expected`` wins; so does a factor that the profile
    gives for a resource, and the profile's default where no amount is asked. With a base other than the request nothing
    is learned, and the estimate is unchanged.
    """

    by_reports: ClassVar[bool] = True

    version: int = 0
    factors: tuple[tuple[str, float], ...] = ()
    kinds: Groups = ()
    """By group and resource, the group's own learned factor."""
    deviations: Groups = ()
    """By group and resource, the standard deviation of a new instance's usage as a share of its request."""
    instances: Groups = ()
    """By group and resource, the number of measured instances behind the factor."""
    watched: Chances | None = None

    @property
    def chances(self) -> Chances | None:
        return self.watched

    @classmethod
    def of_learned(cls, estimate: Estimate, learned: Learned) -> "LearnedEstimate":
        """Return the profile's estimate with the learned factors."""
        return cls(
            estimate.base, estimate.factor, estimate.default, estimate.round_to,
            learned.version, tuple(sorted(learned.factors.items())),
            _groups(learned.kinds), _groups(learned.deviations), _groups(learned.instances), learned.chances,
        )  # fmt: skip

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A hashable form; it does not include the version, so that equal factors are equal."""
        plain = Estimate(self.base, self.factor, self.default, self.round_to)
        return (*plain.key, self.factors, self.kinds, self.deviations)

    def learned_of(self, resource: str, request: Request) -> tuple[float | None, str]:
        """Return the learned factor of a resource for an instance, and its group; None where there is none."""
        if self.base != "request" or resource in (self.factor or {}):
            return None, FLEET
        for group in _groups_of(request):
            if (found := self._own.get(group, {}).get(resource)) is not None:
                return found, group
        return self._of_fleet.get(resource), FLEET

    def known_instances(self, resource: str, group: str) -> tuple[float, float] | None:
        """Return the number of measured instances of a group, and their deviation; None for a factor from a file."""
        count = self._instances.get(group, {}).get(resource)
        return None if count is None else (count, self._deviations[group][resource])

    @cached_property
    def struct(self) -> NDArray[np.void]:
        """The settings for the C functions: the profile's estimate, and the factors by group."""
        found = Estimate(self.base, self.factor, self.default, self.round_to).struct
        found["learned"], found["groups"] = True, len(self.kinds)
        found["parts"] = [self._part(name, FLEET) for name in RESOURCES]
        codes, table = self._groups_by_code
        point(found, codes=codes, table=table)
        return found

    @cached_property
    def _groups_by_code(self) -> tuple[Integers, Floats]:
        """[k] `code_of_group` of the groups with factors of their own, sorted, and [k, R] the factors."""
        groups = sorted((code_of_group(group), group) for group, _ in self.kinds)
        table = [[self._part(name, group) for name in RESOURCES] for _, group in groups]
        return np.array([code for code, _ in groups], np.int64), np.array(table, np.float64)

    def deviation_of_request(self, request: Request) -> Floats | None:
        """Return [R] the standard deviation of the requested instance's usage; NaN where none is learned."""
        if not self.deviations or self.base != "request":
            return None
        given = zip(RESOURCES, request.given_amounts(), strict=True)
        found = [
            math.nan if amount is None or name in request.expected else amount * self._deviation(name, request)
            for name, amount in given
        ]
        return np.array(found)

    def _deviation(self, resource: str, request: Request) -> float:
        groups = (*_groups_of(request), FLEET)
        found = (self._deviations.get(group, {}).get(resource) for group in groups)
        return next((each for each in found if each is not None), math.nan)

    @cached_property
    def _own(self) -> dict[str, dict[str, float]]:
        return {group: dict(own) for group, own in self.kinds}

    @cached_property
    def _deviations(self) -> dict[str, dict[str, float]]:
        return {group: dict(own) for group, own in self.deviations}

    @cached_property
    def _instances(self) -> dict[str, dict[str, float]]:
        return {group: dict(own) for group, own in self.instances}

    @cached_property
    def _of_fleet(self) -> dict[str, float]:
        return dict(self.factors)

    def _part(self, resource: str, group: str) -> float:
        """Return the factor of a resource in a group, or in a coarser group; 1 where nothing is learned."""
        if self.base != "request" or resource in (self.factor or {}):
            return 1.0
        kind, _, octave = group.partition(SIZE)
        for name in (group, kind, f"{FLEET}{SIZE}{octave}"):
            if (found := self._own.get(name, {}).get(resource)) is not None:
                return found
        return self._of_fleet.get(resource, 1.0)


def _groups(values: Mapping[str, Mapping[str, float]]) -> Groups:
    return tuple((group, tuple(sorted(own.items()))) for group, own in sorted(values.items()))


def _groups_of(request: Request) -> list[str]:
    return groups_of(kind_of(request), octave_of(request.given_amounts()[CPU] or 0.0))
