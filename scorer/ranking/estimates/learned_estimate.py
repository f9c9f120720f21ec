"""The learned estimate: an instance is expected to use the learned part of what it asks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Chances, Learned
from scorer.ledger.record.kind import kind_of
from scorer.ledger.view.slots import PlacedInstances
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.estimates.measured_use import (
    FLEET,
    SIZE,
    code_of_group,
    group_code,
    groups_of,
    octave_of,
    octaves_of,
)
from scorer.snapshot.arrays import Floats, Integers

Groups = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""Figures by group and resource, hashable."""


@dataclass(frozen=True)
class LearnedEstimate(Estimate):
    """``expected = request * learned factor``, of the finest group of instances of which one is known.

    The groups are those of `scorer.ranking.estimates.measured_use`: kind and size, kind, size, the fleet. This holds
    for the requested instance and for placed ones. An explicit ``expected`` wins; so does a factor that the profile
    gives for a resource, and the profile's default where no amount is asked. With a base other than the request nothing
    is learned, and the estimate is unchanged.
    """

    by_reports: ClassVar[bool] = True

    version: int = 0
    factors: tuple[tuple[str, float], ...] = ()
    kinds: Groups = ()
    """By group and resource, what is learned of its own."""
    deviations: Groups = ()
    """By group and resource, the standard deviation of a new instance's usage as a share of what it asks."""
    instances: Groups = ()
    """By group and resource, how many measured instances say so."""
    watched: Chances | None = None

    @property
    def chances(self) -> Chances | None:
        """Which stated chances of overload came true."""
        return self.watched

    @classmethod
    def of_learned(cls, estimate: Estimate, learned: Learned) -> LearnedEstimate:
        """Return the profile's estimate with the learned factors."""
        return cls(
            estimate.base, estimate.factor, estimate.default, estimate.round_to,
            learned.version, tuple(sorted(learned.factors.items())),
            _groups(learned.kinds), _groups(learned.deviations), _groups(learned.instances), learned.chances,
        )  # fmt: skip

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A hashable form, for caches; it does not include the version, so that equal factors are equal."""
        plain = Estimate(self.base, self.factor, self.default, self.round_to)
        return (*plain.key, self.factors, self.kinds, self.deviations)

    def learned_of(self, resource: str, request: Request) -> tuple[float | None, str]:
        """Return the learned part of a resource that an instance uses, and of which group; None where there is none."""
        if self.base != "request" or resource in (self.factor or {}):
            return None, FLEET
        for group in _groups_of(request):
            if (found := self._own.get(group, {}).get(resource)) is not None:
                return found, group
        return self._of_fleet.get(resource), FLEET

    def known_instances(self, resource: str, group: str) -> tuple[float, float] | None:
        """Return how many measured instances a group has, and their deviation; None of a factor that a file gives."""
        count = self._instances.get(group, {}).get(resource)
        return None if count is None else (count, self._deviations[group][resource])

    def _of_placed(self, placed: PlacedInstances) -> Floats:
        parts = self._parts_of_fleet
        if self.kinds:
            parts = self._table[:, self._places(placed)]
        parts = np.where(placed.missing, 1.0, parts)
        return np.where(np.isnan(placed.expected), super()._of_placed(placed) * parts, placed.expected)

    def of_request(self, request: Request) -> Floats:
        """Return [R] for the requested instance."""
        parts = self._parts_of_fleet[:, 0]
        for group in _groups_of(request):
            if (place := self._place.get(group)) is not None:
                parts = self._table[:, place]
                break
        if not (request.expected or self.default):
            return super().of_request(request) * parts
        given = zip(RESOURCES, request.given_amounts(), strict=True)
        own = np.array([name in request.expected or amount is None for name, amount in given])
        return super().of_request(request) * np.where(own, 1.0, parts)

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
        """Return the factor of a resource in a group, or that of a coarser one; 1 where nothing is learned."""
        if self.base != "request" or resource in (self.factor or {}):
            return 1.0
        kind, _, octave = group.partition(SIZE)
        for name in (group, kind, f"{FLEET}{SIZE}{octave}"):
            if (found := self._own.get(name, {}).get(resource)) is not None:
                return found
        return self._of_fleet.get(resource, 1.0)

    @cached_property
    def _parts_of_fleet(self) -> Floats:
        """[R, 1] The factors of all other groups."""
        return np.array([[self._part(name, FLEET)] for name in RESOURCES])

    @cached_property
    def _codes(self) -> Integers:
        """[k] `code_of_group` of the groups with factors of their own, sorted."""
        return np.sort(np.array([code_of_group(group) for group, _ in self.kinds], np.int64))

    @cached_property
    def _place(self) -> dict[str, int]:
        codes = [code_of_group(group) for group, _ in self.kinds]
        return {self.kinds[at][0]: place for place, at in enumerate(np.argsort(codes).tolist())}

    @cached_property
    def _table(self) -> Floats:
        """[R, k + 1] The factors by place in `_codes`; in the end those of all others."""
        columns = [[self._part(name, group) for name in RESOURCES] for group in self._place]
        return np.array([*columns, self._parts_of_fleet[:, 0].tolist()]).T

    def _places(self, placed: PlacedInstances) -> Integers:
        """Return [K]: the column of each instance, that of the finest group that is known."""
        codes, octaves = self._codes, octaves_of(placed.amounts[CPU])
        found = np.full(placed.kinds.size, codes.size)
        for wanted in (octaves, group_code(placed.kinds, np.zeros_like(octaves)), group_code(placed.kinds, octaves)):
            at = np.minimum(np.searchsorted(codes, wanted), codes.size - 1)
            found = np.where(codes[at] == wanted, at, found)
        return found


def _groups(values: Mapping[str, Mapping[str, float]]) -> Groups:
    return tuple((group, tuple(sorted(own.items()))) for group, own in sorted(values.items()))


def _groups_of(request: Request) -> list[str]:
    return groups_of(kind_of(request), octave_of(request.given_amounts()[CPU] or 0.0))
