"""The learned estimate: the expected use of an instance is the learned share of its request."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Chances, Learned
from scorer.ledger.view.slots import kind_of
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.estimates.measured_use import (
    FLEET,
    SIZE,
    code_of_group,
    groups_of,
    octave_of,
)
from scorer.ranking.kernel.binding import point
from scorer.snapshot.arrays import Floats, Integers

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
